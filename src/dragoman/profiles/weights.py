"""A founding system's weights, each entry to be used exactly once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.nn import MultiHeadAttention


class Weights:
    """Hands out entries by their own names, and in the end names what was missing, misshapen or left over.

    Args:
        state: name -> tensor or NumPy array.
        system: what errors call it.
        dtype: every entry is converted to it.
    """

    def __init__(self, state: Mapping[str, Any], system: str, dtype: torch.dtype = torch.float32) -> None:
        self.system, self.dtype = system, dtype
        self._state = {name: torch.as_tensor(value) for name, value in state.items()}
        self._used: set[str] = set()
        self._complaints: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an entry, to learn sizes from.

        Raises:
            ModelError: it is not there.
        """
        if name not in self._state:
            found = ", ".join(sorted(self._state)[:8])
            raise ModelError(f"not the weights of {self.system}", expected=name, found=found)
        return tuple(self._state[name].shape)

    def matrix(self, name: str) -> tuple[int, int]:
        """The shape of an entry that is a matrix.

        Raises:
            ModelError: it is not there, or is none.
        """
        shape = self.shape(name)
        if len(shape) != 2:
            raise ModelError(f"not the weights of {self.system}", expected=f"{name}: a matrix", found=list(shape))
        return shape[0], shape[1]

    def same(self, name: str, other: str) -> bool:
        """Whether two entries are there and equal: one that is shared, saved twice."""
        return name in self and other in self and torch.equal(self._state[name], self._state[other])

    def table(self, name: str, width: int) -> Float[Tensor, "length {width}"]:
        """A table of positions, `[1, length, width]` there; its length is its own."""
        length = (*self.shape(name), 0, 0)[1]
        return self.take(name, (1, length, width))[0]

    def take(self, name: str, shape: Sequence[int], *, transpose: bool = False) -> Float[Tensor, "..."]:
        """An entry, as `shape` after transposing its last two dimensions if asked; zeros if there is a complaint."""
        found = self._state.get(name)
        if name in self._used:
            self._complaints.append(f"{name}: used twice")
        self._used.add(name)
        if found is None:
            self._complaints.append(f"{name}: missing, expected {list(shape)}")
            return torch.zeros(*shape, dtype=self.dtype)
        if transpose and found.dim() >= 2:
            found = found.transpose(-2, -1)
        if tuple(found.shape) != tuple(shape):
            own = [*shape[:-2], *reversed(shape[-2:])] if transpose else list(shape)
            self._complaints.append(f"{name}: expected {own}, found {list(self._state[name].shape)}")
            return torch.zeros(*shape, dtype=self.dtype)
        return found.to(self.dtype)

    def count(self, pattern: str) -> int:
        """How many entries there are of a numbered name, counted from 0; `{}` stands for the number."""
        return next(number for number in itertools.count() if pattern.format(number) not in self)

    def fill(self, parameter: Float[Tensor, "..."], name: str) -> None:
        """Copy an entry into a parameter of the same shape."""
        with torch.no_grad():
            parameter.copy_(self.take(name, parameter.shape))

    def skip(self, name: str) -> None:
        """An entry that is there but carries nothing to load (a position table, a mask); it may be absent."""
        self._used.add(name)

    def linear(self, linear: nn.Linear, weight: str, bias: str | None = None, *, transpose: bool = False) -> None:
        """Fill a linear map; `transpose` for `[in, out]` kernels."""
        with torch.no_grad():
            linear.weight.copy_(self.take(weight, linear.weight.shape, transpose=transpose))
            if bias is not None:
                linear.bias.copy_(self.take(bias, linear.bias.shape))

    def attention(
        self, attention: MultiHeadAttention, parts: Sequence[Float[Tensor, "..."]], biases: Sequence[Tensor] = ()
    ) -> None:
        """Pack matrices of q, k, v (each `[out, in]`) and their biases into one projection."""
        with torch.no_grad():
            attention.projection.weight.copy_(torch.cat(list(parts)))
            if biases:
                attention.projection.bias.copy_(torch.cat(list(biases)))

    def finish(self) -> None:
        """Check that every entry was used, exactly once.

        Raises:
            ModelError: names all that is missing, misshapen, used twice or left over.
        """
        left = [f"{name}: left over" for name in sorted(self._state.keys() - self._used)]
        if complaints := self._complaints + left:
            raise ModelError(f"these are not the weights of {self.system}:\n  " + "\n  ".join(complaints))
