"""The tensors of a foreign model, each taken once, as float32; and the order of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Shaped
from torch import Tensor

from dragoman.errors import ModelError

_KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Given:
    """Tensors by name.

    Args:
        tensors: of any floating type; what is taken is let go.
        file: where they come from, for messages.
    """

    def __init__(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        self._tensors, self.file, self._used = dict(tensors), file, set[str]()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    @property
    def names(self) -> list[str]:
        """All of them, taken or not."""
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor.

        Raises:
            ModelError: there is no such tensor.
        """
        if name not in self._tensors:
            raise self._missing(name)
        return tuple(self._tensors[name].shape)

    def take(self, name: str, shape: Sequence[int], *, transpose: bool = False) -> Shaped[Tensor, "..."]:
        """Return a tensor as float32, or float64 where it is that; it may be taken again.

        Args:
            name: of the tensor.
            shape: as it is to be, after it is transposed.
            transpose: whether its matrix is `[in, out]`.

        Raises:
            ModelError: it is not there, of another shape, of whole numbers, or has numbers that are not finite.
        """
        found = self.shape(name)
        tensor = self._tensors[name]
        wanted = tuple(shape)[::-1] if transpose else tuple(shape)
        if found != wanted:
            raise ModelError("a tensor has another shape", file=self.file, expected=f"{name} {list(wanted)}",
                             found=list(found))  # fmt: skip
        if tensor.dtype not in _KINDS:
            expected = "float32, float16 or bfloat16"
            raise ModelError("a tensor is of another type", file=self.file, expected=expected,
                             found=f"{name}, {str(tensor.dtype).removeprefix('torch.')}")  # fmt: skip
        tensor = tensor.float()
        if not bool(tensor.isfinite().all()):
            raise ModelError("a tensor has numbers that are not finite", file=self.file, found=name)
        self._used.add(name)
        return tensor.t().contiguous() if transpose else tensor

    def skip(self, *names: str) -> None:
        """Mark tensors that carry nothing to take."""
        self._used.update(names)

    def finish(self) -> None:
        """Refuse tensors that nobody has taken.

        Raises:
            ModelError: names the first and says how many.
        """
        if left := sorted(self._tensors.keys() - self._used):
            hint = "the settings beside it describe another model than these tensors"
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ModelError("a tensor does not belong to the model", file=self.file, found=left[0] + more, hint=hint)

    def _missing(self, name: str) -> ModelError:
        left = sorted(self._tensors.keys() - self._used)
        found = f"{len(self._tensors)} tensors" + (f", among them {left[0]}" if left else "")
        return ModelError("a tensor is missing", file=self.file, expected=name, found=found)


class Names(NamedTuple):
    """How a system names what is in a layer; each ends in `.weight` and `.bias` there.

    Attributes:
        own: queries, keys, values and output of self-attention; queries, keys and values may be one entry.
        cross: likewise of cross-attention.
        inner: first map of the feed-forward block.
        outer: its second one.
        norms: after (or before) self-attention, cross-attention and feed-forward block.
        suffixes: of weight and bias; where a name has `{}`, they stand there.
        norm_suffixes: of a norm's.
        transpose: whether matrices are `[in, out]`.
    """

    own: Sequence[str]
    cross: Sequence[str]
    inner: str
    outer: str
    norms: tuple[str, str, str]
    suffixes: tuple[str, str] = (".weight", ".bias")
    norm_suffixes: tuple[str, str] = (".weight", ".bias")
    transpose: bool = False


class Sizes(NamedTuple):
    """Of the layers of a stack: their number, the width, the inner width, and whether attention has biases."""

    layers: int
    d_model: int
    d_ff: int
    bias: bool = True


def take_stack(
    given: Given, ours: str, place: str, names: Names, sizes: Sizes, *, end: str | None = None
) -> dict[str, Tensor]:
    """Return the layers of a stack under our names.

    Args:
        given: the tensors.
        ours: `encoder` or `decoder`.
        place: of a layer there, `{}` standing for its number.
        names: of what is in it.
        sizes: of the stack.
        end: the norm at the end of the stack, if there is one.

    Raises:
        ModelError: a tensor is missing or of another shape.
    """
    found: dict[str, Tensor] = {}
    for number in range(sizes.layers):
        found |= _layer(given, f"{ours}.layers.{number}", place.format(number), names, sizes, cross=ours == "decoder")
    if end is not None:
        found |= _norm(given, f"{ours}.norm", end, names, sizes.d_model)
    return found


def _layer(given: Given, ours: str, place: str, names: Names, sizes: Sizes, *, cross: bool) -> dict[str, Tensor]:
    d_model, d_ff = sizes.d_model, sizes.d_ff
    found = _attention(given, f"{ours}.self_attention", [f"{place}{one}" for one in names.own], names, sizes)
    if cross:
        found |= _attention(given, f"{ours}.cross_attention", [f"{place}{one}" for one in names.cross], names, sizes)
    for own, name, rows, columns in (("inner", names.inner, d_ff, d_model), ("outer", names.outer, d_model, d_ff)):
        found |= matrix(given, f"{ours}.feed_forward.{own}", f"{place}{name}", names, rows, columns)
    kinds = ("self_attention", "cross_attention", "feed_forward")
    for kind, name in zip(kinds, names.norms, strict=True):
        if cross or kind != "cross_attention":
            found |= _norm(given, f"{ours}.{kind}_residual.norm", f"{place}{name}", names, d_model)
    return found


def _attention(given: Given, ours: str, theirs: Sequence[str], names: Names, sizes: Sizes) -> dict[str, Tensor]:
    *inner, output = theirs
    rows = 3 * sizes.d_model // len(inner)
    parts = [matrix(given, "", name, names, rows, sizes.d_model) for name in inner]
    found = {f"{ours}.projection{end}": torch.cat([part[end] for part in parts]) for end in (".weight", ".bias")}
    found |= matrix(given, f"{ours}.output", output, names, sizes.d_model, sizes.d_model)
    if sizes.bias:
        return found
    if any(bool(tensor.any()) for name, tensor in found.items() if name.endswith(".bias")):
        raise ModelError("attention has biases, which the system has not", file=given.file, found=output)
    return {name: tensor for name, tensor in found.items() if name.endswith(".weight")}


def matrix(given: Given, ours: str, theirs: str, names: Names, rows: int, columns: int) -> dict[str, Tensor]:
    """Return a linear map under our name; a bias that is not there is zero."""
    weight, bias = (theirs.format(suffix) if "{}" in theirs else f"{theirs}{suffix}" for suffix in names.suffixes)
    offsets = given.take(bias, [rows]) if bias in given else torch.zeros(rows)
    return {
        f"{ours}.weight": given.take(weight, [rows, columns], transpose=names.transpose),
        f"{ours}.bias": offsets,
    }


def _norm(given: Given, ours: str, theirs: str, names: Names, d_model: int) -> dict[str, Tensor]:
    parts = zip(("weight", "bias"), names.norm_suffixes, strict=True)
    return {f"{ours}.{own}": given.take(f"{theirs}{suffix}", [d_model]) for own, suffix in parts}
