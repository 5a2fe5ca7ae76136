"""A founding system's weights, each entry to be used exactly once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.nn import Decoder, Encoder, MultiHeadAttention


@dataclass(frozen=True)
class LayerNames:
    """What a system calls the parts of a layer; `{}` stands for `weight` or `bias`.

    Attributes:
        attentions: prefixes of self-attention and, in a decoder, of cross-attention.
        projections: under each of these: queries, keys, values, output; or all three packed, then output.
        feed_forward: both linear maps.
        norms: in the order of the sub-layers.
        affine: what the norms call `weight` and `bias`.
    """

    attentions: tuple[str, ...]
    projections: tuple[str, ...]
    feed_forward: tuple[str, str]
    norms: tuple[str, ...]
    affine: tuple[str, str] = ("weight", "bias")


def residual_norms(layer: Any) -> list[nn.Module]:
    """Return the norms of a layer, in the order of its sub-layers."""
    return [getattr(layer, f"{name}_residual").norm for name, _ in _sub_layers(layer)]


def _sub_layers(layer: Any) -> list[tuple[str, Any]]:
    names = ("self_attention", "cross_attention", "feed_forward")
    return [(name, getattr(layer, name)) for name in names if getattr(layer, name, None) is not None]


class Weights:
    """Hands out entries by their own names, and in the end names what was missing, misshapen or left over.

    Sizes are read off all entries of a kind, so that one bad entry does not hide what is wrong with others.

    Args:
        state: name -> tensor or NumPy array.
        system: what errors call it.
        dtype: every entry is converted to it.
    """

    kinds: tuple[str, str] = ("weight", "bias")

    def __init__(self, state: Mapping[str, Any], system: str, dtype: torch.dtype = torch.float32) -> None:
        self.system, self.dtype = system, dtype
        self._state: dict[str, Tensor] = {}
        self._used: set[str] = set()
        self._complaints: dict[str, str] = {}
        for name, value in state.items():
            tensor = _tensor(value)
            if tensor is None:
                self._complaints[name] = f"no tensor or array of numbers, found {type(value).__name__}"
            else:
                self._state[name] = tensor

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def find(self, name: str) -> tuple[str, Shaped[Tensor, "..."] | None]:
        """Return an entry and its name in the state."""
        return name, self._state.get(name)

    # Sizes

    def common(self, pattern: str, place: int) -> int:
        """Return the size in one dimension that most matrices of a kind have.

        Args:
            pattern: their names, `*` standing for anything.
            place: the dimension.

        Raises:
            ModelError: there is no such matrix.
        """
        matching = (tensor for name, tensor in self._state.items() if fnmatchcase(name, pattern) and tensor.dim() == 2)
        sizes = Counter(tensor.shape[place] for tensor in matching)
        if not sizes:
            found = ", ".join(sorted(self._state)[:8]) or "nothing"
            raise ModelError(f"these are not the weights of {self.system}", expected=f"matrices {pattern}", found=found)
        return sizes.most_common(1)[0][0]

    def rows(self, name: str, width: int, otherwise: int = 1) -> int:
        """Return the rows of a table of that width; `otherwise` if it is none, of which `finish` complains."""
        own, found = self.find(name)
        if found is not None and found.dim() == 2 and found.shape[1] == width:
            return found.shape[0]
        self.refuse(own, f"[rows, {width}]")
        return otherwise

    def length(self, name: str, otherwise: int = 1) -> int:
        """Return the first dimension of an entry, if it is there."""
        _, found = self.find(name)
        return otherwise if found is None or found.dim() == 0 else found.shape[0]

    def number(self, prefix: str) -> int:
        """Return how many numbered things have entries, from 0 on; `{}` stands for the number."""

        def is_there(number: int) -> bool:
            start = prefix.format(number)
            return any(name.startswith(start) for name in self._state)

        return next(number for number in itertools.count() if not is_there(number))

    def has(self, pattern: str) -> bool:
        """Return whether an entry has such a name, `*` standing for anything."""
        return any(fnmatchcase(name, pattern) for name in self._state)

    def same(self, name: str, other: str) -> bool:
        """Return whether two entries are there and equal: one that is shared, saved twice."""
        return name in self and other in self and torch.equal(self._state[name], self._state[other])

    # Entries

    def refuse(self, name: str, expected: str) -> None:
        """Complain in the end of an entry, as missing or misshapen, whatever it is later taken for."""
        found = self._state.get(name)
        shape = "missing, expected " + expected if found is None else f"expected {expected}, found {list(found.shape)}"
        self._complaints.setdefault(name, shape)

    def take(self, name: str, shape: Sequence[int], *, transpose: bool = False) -> Float[Tensor, "..."]:
        """Return an entry as `shape`, its last two dimensions transposed if asked; zeros if there is a complaint."""
        own, found = self.find(name)
        if own in self._used:
            self._complaints[own] = "used twice"
        self._used.add(own)
        swapped = transpose and len(shape) >= 2
        wanted = [*shape[:-2], *reversed(shape[-2:])] if swapped else list(shape)
        if own in self._complaints or found is None or list(found.shape) != wanted:
            self.refuse(own, str(wanted))
            return torch.zeros(*shape, dtype=self.dtype)
        return (found.transpose(-2, -1) if swapped else found).to(self.dtype)

    def table(self, name: str, width: int) -> Float[Tensor, "length {width}"] | None:
        """Return a table of positions, `[1, length, width]` there, if it is there; its length is its own."""
        _, found = self.find(name)
        return None if found is None else self.take(name, (1, (*found.shape, 0, 0)[1], width))[0]

    def fill(self, parameter: Float[Tensor, "..."], name: str, *, transpose: bool = False) -> None:
        """Copy an entry into a parameter of the same shape; `transpose` for matrices `[in, out]`."""
        with torch.no_grad():
            parameter.copy_(self.take(name, parameter.shape, transpose=transpose))

    def skip(self, name: str) -> None:
        """Mark an entry that may be there but carries nothing to load."""
        self._used.add(name)

    # Modules

    def affine(
        self, module: nn.Module, name: str, *, transpose: bool = False, kinds: tuple[str, str] | None = None
    ) -> None:
        """Fill the weight and the bias a module has; `{}` of the name stands for what the system calls either."""
        for own, kind in zip(("weight", "bias"), kinds or self.kinds, strict=True):
            parameter = getattr(module, own, None)
            if parameter is not None:
                self.fill(parameter, name.format(kind), transpose=transpose)

    def attention(self, attention: MultiHeadAttention, names: Sequence[str], *, transpose: bool = False) -> None:
        """Fill an attention from its projections and its output; names as in `LayerNames.projections`.

        Instead of queries, keys and values there may be those of each head: first the queries of all.
        """
        *inner, output = names
        for own, kind in zip(("weight", "bias"), self.kinds, strict=True):
            packed = getattr(attention.projection, own)
            if packed is not None:
                parts = packed.data.split(attention.widths) if len(inner) == 3 else packed.data.chunk(len(inner))
                for part, name in zip(parts, inner, strict=True):
                    self.fill(part, name.format(kind), transpose=transpose)
        self.affine(attention.output, output, transpose=transpose)

    def layers(
        self,
        stack: Encoder | Decoder,
        place: str,
        names: LayerNames,
        *,
        transpose: bool = False,
        norms: Callable[[Any], Iterable[nn.Module]] = residual_norms,
    ) -> None:
        """Fill the layers of a stack.

        Args:
            stack: of ours.
            place: of a layer, `{}` standing for its number.
            names: of what is in it.
            transpose: whether its matrices are `[in, out]`.
            norms: finds the norms of a layer.
        """
        for number, layer in enumerate(stack.layers):
            start = place.format(number)
            *attentions, (_, feed_forward) = _sub_layers(layer)
            for (_, attention), name in zip(attentions, names.attentions, strict=True):
                projections = [f"{start}.{name}.{part}" for part in names.projections]
                self.attention(attention, projections, transpose=transpose)
            for linear, name in zip((feed_forward.inner, feed_forward.outer), names.feed_forward, strict=True):
                self.affine(linear, f"{start}.{name}", transpose=transpose)
            for norm, name in zip(norms(layer), names.norms, strict=True):
                self.affine(norm, f"{start}.{name}", kinds=names.affine)

    def finish(self) -> None:
        """Check that every entry was used, exactly once.

        Raises:
            ModelError: names all that is missing, misshapen, used twice or left over.
        """
        complaints = [f"{name}: {reason}" for name, reason in self._complaints.items()]
        left = self._state.keys() - self._used - self._complaints.keys()
        if complaints := complaints + [f"{name}: left over" for name in sorted(left)]:
            raise ModelError(f"these are not the weights of {self.system}:\n  " + "\n  ".join(complaints))


def _tensor(value: Any) -> Tensor | None:
    """None if it is not numbers."""
    if isinstance(value, Tensor):
        return value.detach()
    try:
        # PyTorch neither warns of a copy that can be written to, nor refuses its order.
        return torch.as_tensor(np.require(value, requirements=["C", "W"]))
    except (TypeError, ValueError, RuntimeError):
        return None
