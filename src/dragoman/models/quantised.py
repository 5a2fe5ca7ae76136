"""Weights as bytes with a factor for each row: a quarter of the size, and what engines in int8 compute with anyway.

In a file of tensors the factors of `NAME` are `NAME:factors`. Whoever reads such a file gets float32, bytes times
factors; only the native engine takes the bytes as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.models.stored import FACTORS

LARGEST = 127
# A row whose largest number is no larger is nothing.
NOTHING = 1e-30


def quantise(x: Float[Tensor, "rows columns"]) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, "rows 1"]]:
    """Return each row as bytes from -127 to 127, and the factors that give the rows back, nearly."""
    most = x.abs().amax(-1, keepdim=True)
    factor = torch.where(most > NOTHING, LARGEST / most, 0.0)
    return (x * factor).round().to(torch.int8), most / LARGEST


def as_bytes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with all matrices of float32 as bytes and factors, for a file.

    One under several names stays one, with its factors under the first of them: the one that files keep.

    Raises:
        ModelError: a matrix has numbers that are not finite.
    """
    made: dict[int, Tensor] = {}
    found: dict[str, Tensor] = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        if tensor.dtype != torch.float32 or tensor.ndim != 2 or not tensor.numel():
            found[name] = tensor
            continue
        if tensor.data_ptr() not in made:
            if not bool(tensor.isfinite().all()):
                raise ModelError("numbers that are not finite cannot be quantised", found=name)
            values, factors = quantise(tensor)
            made[tensor.data_ptr()], found[name + FACTORS] = values, factors[:, 0].contiguous()
        found[name] = made[tensor.data_ptr()]
    return found


def as_numbers(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """Return the tensors with what has factors as float32 again.

    Raises:
        ModelError: there is not a factor for each row.
    """
    found = dict(tensors)
    for name in [name for name in tensors if tensors[name].dtype == torch.int8 and name + FACTORS in tensors]:
        values, factors = found[name], found.pop(name + FACTORS)
        if factors.dtype != torch.float32 or values.ndim != 2 or factors.shape != values.shape[:1]:
            raise ModelError("the bytes of a weight have not a factor for each row", file=file, found=name)
        found[name] = values.float() * factors[:, None]
    return found
