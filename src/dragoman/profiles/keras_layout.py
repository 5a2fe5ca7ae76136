"""How Keras names and orders the weights of the `lsdefine` profile.

Keras numbers the layers of a class in the order of their making, on and on through a process; so the numbers of a
saved model tell the order only. `get_weights()` and HDF5 files list the layers in the order of the graph: those
farthest from the output first, and among equals the one first met on the way back from the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.profiles.weights import Weights


@dataclass(frozen=True)
class KerasLayout:
    """Keras's names of the layers that have weights: the class and, from 0, how many of it were made before."""

    layers: int
    heads: int
    mode: int
    share: bool

    def attentions(self, index: int) -> list[tuple[list[str], list[str], list[str], str]]:
        """Return queries, keys, values and output of each attention of a layer; the encoder's layers come first."""
        decoder = index - self.layers
        return [
            self._attention(number) for number in ([index] if decoder < 0 else (index + decoder, index + decoder + 1))
        ]

    def _attention(self, number: int) -> tuple[list[str], list[str], list[str], str]:
        kind, size = ("dense", 3) if self.mode == 0 else ("time_distributed", 3 * self.heads + 1)
        first, end = number * size, number * size + 3 * (self.heads if self.mode else 1)
        query, key, value = ([f"{kind}_{n}" for n in range(first + part, end, 3)] for part in range(3))
        return query, key, value, f"time_distributed_{end if self.mode else number}"

    def feed_forward(self, index: int) -> tuple[str, str]:
        """Return both convolutions."""
        return f"conv1d_{2 * index}", f"conv1d_{2 * index + 1}"

    def norms(self, index: int) -> list[str]:
        """Return the norm after the feed-forward block, then those after the attentions: the order of their making."""
        first = 2 * index + max(0, index - self.layers)
        return [f"layer_normalization_{first + n}" for n in range(2 if index < self.layers else 3)]

    @property
    def output(self) -> str:
        """The projection to logits."""
        return f"time_distributed_{3 * self.layers * (3 * self.heads + 1 if self.mode else 1)}"

    def by_depth(self) -> list[str]:
        """Return the order of `get_weights()`: by distance from the output, then as met on the way back from it.

        The first decoder layer's self-attention needs no memory, so it lies beside the last encoder layer.
        """
        rows = [self._row(index) for index in range(2 * self.layers)]
        encoder, decoder = rows[self.layers - 1 : self.layers + 1]
        rows[self.layers - 1 : self.layers + 1] = [
            [*encoder[:2], decoder[0], encoder[2], decoder[1], *encoder[3:5], decoder[2], encoder[5], decoder[3]],
            [encoder[6], *decoder[4:]],
        ]
        tables = [f"embedding_{n}" for n in ((1, 0) if self.share else (2, 0, 1))]
        return [*tables, *(name for row in rows for depth in row for name in depth), self.output]

    def _row(self, index: int) -> list[list[str]]:
        last, *norms = self.norms(index)
        row = []
        for (query, key, value, output), norm in zip(self.attentions(index), norms, strict=True):
            row += [[name for head in zip(query, key, strict=True) for name in head], value, [output], [norm]]
        return [*row, *([name] for name in (*self.feed_forward(index), last))]

    def entries(self, layer: str) -> list[str]:
        """Return the weights of a layer, in Keras's order."""
        outputs = {attention[3] for index in range(2 * self.layers) for attention in self.attentions(index)}
        kinds = {"embedding": ["embeddings"], "layer_normalization": ["gamma", "beta"], "conv1d": ["kernel", "bias"]}
        default = ["kernel", "bias"] if layer in outputs else ["kernel"]
        return [f"{layer}/{entry}" for entry in kinds.get(layer.rpartition("_")[0], default)]


class KerasWeights(Weights):
    """Entries asked for by their names in a `KerasLayout`, whatever the state calls them."""

    kinds: tuple[str, str] = ("kernel", "bias")

    def __init__(self, state: Mapping[str, Any], names: Mapping[str, str], dtype: torch.dtype) -> None:
        super().__init__(state, "lsdefine", dtype)
        self._names = names

    def find(self, name: str) -> tuple[str, Shaped[Tensor, "..."] | None]:
        """As of `Weights`, by the name in the layout."""
        return super().find(self._names.get(name, name))


def recognise(
    state: Mapping[str, Any] | Sequence[Any], n_head: int, mode: int, dtype: torch.dtype
) -> tuple[KerasLayout, KerasWeights]:
    """Return how the weights lie, and the weights by the names of the layout.

    Args:
        state: Keras names to arrays, or the arrays that `get_weights()` lists.
        n_head: heads.
        mode: of the attention.
        dtype: of the weights.

    Raises:
        ModelError: a list is too long or too short.
    """
    pair = 3 * (3 * n_head + 2 if mode else 5) + 18  # entries of an encoder and a decoder layer
    layers = max(1, round((len(state) - 3.5) / pair))
    if isinstance(state, Mapping):
        names = _ranked(state)
        layout = KerasLayout(layers, n_head, mode, share="embedding_2/embeddings" not in names)
        return layout, KerasWeights(state, names, dtype)
    layout = KerasLayout(layers, n_head, mode, share=len(state) == pair * layers + 3)
    order = [entry for layer in layout.by_depth() for entry in layout.entries(layer)]
    if len(order) != len(state):
        wanted = f"{pair} arrays per layer and 4 more (3 if the words are shared)"
        raise ModelError(f"not the weights of lsdefine, mode {mode}, {n_head} heads", expected=wanted, found=len(state))
    names = {entry: f"get_weights()[{place}], {entry}" for place, entry in enumerate(order)}
    return layout, KerasWeights(dict(zip(names.values(), state, strict=True)), names, dtype)


def _ranked(state: Mapping[str, Any]) -> dict[str, str]:
    """Names of the layout -> names of the state: Keras numbers go on in a process, so only their order counts."""
    found = []
    for name in state:
        layer, _, entry = name.partition("/")
        entry = entry.rpartition("/")[2]
        kind, _, number = layer.rpartition("_")
        kind, number = (kind, int(number)) if number.isdecimal() else (layer, 0)
        found.append((kind, number, entry.partition(":")[0], name))
    numbers = {kind: sorted({number for k, number, _, _ in found if k == kind}) for kind, _, _, _ in found}
    return {f"{kind}_{numbers[kind].index(number)}/{entry}": name for kind, number, entry, name in found}


def heads_in(state: Mapping[str, Any] | Sequence[Any]) -> int | None:
    """Return the heads of weights of mode 1, where each has matrices of its own: width over that of one; None: unclear.

    Args:
        state: as for `recognise`.
    """
    arrays = state.values() if isinstance(state, Mapping) else state
    shapes = Counter(tuple(one.shape) for one in arrays if len(getattr(one, "shape", ())) == 2)
    likeliest = {width for width, columns in shapes if width == columns}  # that of an output
    found = {
        rows // columns: count
        for (rows, columns), count in shapes.items()
        if rows in likeliest and columns < rows and rows % columns == 0
    }
    return max(found, key=lambda heads: found[heads]) if found else None
