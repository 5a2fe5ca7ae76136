"""A stage: one tensor on the way from text to text, with what a learner needs to read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from dragoman.stages.words import reads_writes, shown

_LAYER = re.compile(r"\.layers\.(\d+)\b")


@dataclass(frozen=True)
class Stage:
    """One tensor with a stable dotted name: the module's path where there is one.

    Attributes:
        name: the same for every model of a family: `encoder.layers.0.self_attention.weights`.
        dims: the name of each dimension; "1" for one that has none.
        shape: the size of each.
        what: what happens here, in one sentence or formula.
        values: the numbers; None where only shapes are known, and for one-hot rows (see `picked`).
        rows: what stands at each place of the last dimension but one, if these are pieces.
        columns: what stands at each place of the last dimension, if these are pieces.
        picked: of one-hot rows, the column of the 1.
        heads: the number of each head, from 0; empty if there are none.
        given: what a norm made the numbers of, if one did.
        module: the path of this norm, whose weights are `module.weight` and `module.bias`.
        eps: of this norm.
        entries: gives the pieces of some columns, where there is a column for each entry of the vocabulary.
        writes: what each row writes, of positions that the decoder reads and answers.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    what: str
    values: Shaped[Tensor, "..."] | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    given: Shaped[Tensor, "..."] | None = None
    module: str = ""
    eps: float | None = None
    entries: Callable[[Sequence[int]], Sequence[str]] | None = None
    writes: tuple[str, ...] = ()

    @property
    def layer(self) -> int | None:
        """The number of its layer, from 0; None outside the layers."""
        found = _LAYER.search(self.name)
        return int(found[1]) if found else None

    @property
    def size(self) -> str:
        """Dimensions by name and value: `[batch=1, src=5, d_model=512]`; of one head alone, its number."""
        named = [str(size) if dim == "1" else f"{dim}={size}" for dim, size in zip(self.dims, self.shape, strict=True)]
        if len(self.heads) == 1:
            named[self.dims.index("heads")] = f"head={self.heads[0]}"
        return f"[{', '.join(named)}]"

    @property
    def labels(self) -> tuple[str, ...]:
        """What each row is called: a piece, or what the row reads and what it writes."""
        return tuple(self.label(row) for row in range(len(self.rows)))

    def label(self, row: int) -> str:
        """Return what a row is called."""
        read = self.rows[row]
        return reads_writes(read, self.writes[row]) if row < len(self.writes) else shown(read)

    def of_head(self, head: int) -> Stage:
        """Return the stage for one head, from 0; itself if it has no heads."""
        if "heads" not in self.dims:
            return self
        place = self.dims.index("heads")
        shape = (*self.shape[:place], 1, *self.shape[place + 1 :])
        values = None if self.values is None else self.values.narrow(place, head, 1)
        return replace(self, shape=shape, values=values, heads=(head,))

    def to_dict(self, *, numbers: bool = True) -> dict[str, Any]:
        """Return plain values, for JSON; `numbers` is whether the tensor's values are among them."""
        tree: dict[str, Any] = {"name": self.name, "dims": list(self.dims), "shape": list(self.shape)}
        tree |= {"what": self.what, "rows": list(self.rows), "columns": list(self.columns)}
        if self.picked:
            tree["picked"] = list(self.picked)
        if self.heads:
            tree["heads"] = list(self.heads)
        if numbers and self.values is not None:
            tree["values"] = _plain(self.values)
        return tree


def make_stage(
    name: str,
    dims: Sequence[str],
    values: Shaped[Tensor, "..."],
    what: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Stage:
    """Return a stage of these numbers, or of their shape alone where the tensor is on the meta device."""
    kept = None if values.is_meta else values.detach().cpu()
    shape = tuple(values.shape)
    heads = tuple(range(shape[1])) if "heads" in dims else ()
    return Stage(name, tuple(dims), shape, what, kept, tuple(rows), tuple(columns), heads=heads)


def _plain(values: Tensor) -> Any:
    """Nested lists; of each number as many digits as its type has."""
    if values.dtype == torch.float64 or not values.is_floating_point():
        return values.tolist()
    flat = [float(f"{value:.8g}") for value in values.flatten().tolist()]
    return torch.tensor(flat, dtype=torch.float64).view(values.shape).tolist()


@dataclass(frozen=True)
class Sides:
    """What stands at the positions of each side, and which part of a model belongs to which.

    Attributes:
        family: "transformer", "causal" or "masked".
        source: the source's pieces with their frame; empty where only shapes are known.
        target: the pieces that the decoder is given.
        entries: gives the pieces of some ids of the vocabulary that is written.
        writes: what the decoder writes, or should write, at each of these positions.
        others: what stands at the positions of other lengths, by their names: frames of a sound.
    """

    family: str
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    entries: Callable[[Sequence[int]], Sequence[str]] | None = None
    writes: tuple[str, ...] = ()
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def length(self, path: str) -> str:
        """Return the name of the length of what stands at this path: `src` or `tgt`."""
        root = path.partition(".")[0]
        return "src" if self.family == "masked" or root in ("source_embedding", "encoder") else "tgt"

    def pieces(self, length: str) -> tuple[str, ...]:
        """Return what stands at the positions of the side whose length has this name."""
        return self.others.get(length, self.source if length == "src" else self.target)

    def vocabulary(self, path: str) -> str:
        """Return the name of the size of the vocabulary that this part uses."""
        if self.family != "transformer":
            return "vocab"
        return "source_vocab" if path.startswith("source_embedding") else "target_vocab"
