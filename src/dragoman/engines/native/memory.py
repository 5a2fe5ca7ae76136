"""Where an array begins, for the compiled library, which trusts what it is told: the one place that checks it."""

from __future__ import annotations

import functools
from typing import Any


def address_of(array: Any, kind: str, shape: tuple[int, ...], name: str, *, columns: bool = False) -> int:
    """Return the address of the numbers of an array, a tensor or not, once it is sure that they are there.

    Args:
        array: has `shape`, `data_ptr` and `contiguous`, and unless it is float32 a `dtype`.
        kind: the type of its numbers, `float32`, `int64` or `int8`.
        shape: what it must have.
        name: of the array, for messages.
        columns: rows may be columns of a wider matrix, which lie without gaps.

    Raises:
        TypeError: the numbers are of another type or not in the memory of the CPU.
        ValueError: the shape is another, or there are gaps between the numbers.
    """
    sizes = array.shape
    # Every product of training comes by here: what is right is let through before anything is put into words.
    if sizes == shape and _kind(getattr(array, "dtype", "float32")) == kind and getattr(array, "is_cpu", True):
        if (columns and array.stride(1) == 1 and array.stride(0) >= sizes[1]) or _is_whole(array) or 0 in sizes:
            return array.data_ptr()
        raise ValueError(f"{name} must lie without gaps")
    found = _kind(getattr(array, "dtype", "float32"))
    if found != kind:
        raise TypeError(f"{name} must be {kind}, not {found}")
    if not getattr(array, "is_cpu", True):
        raise TypeError(f"{name} must be on the CPU, not on {array.device}")
    raise ValueError(f"{name} must have the shape {shape}, not {tuple(sizes)}")


def rows_of(array: Any, name: str) -> tuple[int | None, int | None, int | None]:
    """Return where the rows of an array are: float32, or else bytes and their factors.

    Args:
        array: as for `address_of`, with `factors` if its numbers are bytes.
        name: of the array, for messages.

    Raises:
        TypeError: the numbers are of another type or not in the memory of the CPU.
        ValueError: there are gaps between the numbers.
    """
    factors, shape = getattr(array, "factors", None), tuple(array.shape)
    if factors is None:
        return address_of(array, "float32", shape, name), None, None
    return None, address_of(array, "int8", shape, name), address_of(factors, "float32", shape[:1], "factors")


def _is_whole(array: Any) -> bool:
    known = getattr(array, "is_contiguous", None)
    return known() if known is not None else array.contiguous() is array


@functools.cache
def _kind(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
