"""The weights of a model directory without PyTorch: for the engine that does not need it.

Only what is plain is read here. Whatever is not, or not right, is left to `load_pretrained`, which knows more kinds of
tensors and says what is wrong.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ModelError
from dragoman.files import opened, parse_json

MAX_HEADER_BYTES = 8 << 20
BYTES = 4


@dataclass(frozen=True)
class StoredArray:
    """Float32 numbers in memory that `owner` keeps, row by row."""

    owner: mmap.mmap
    address: int
    shape: tuple[int, ...]

    def __getitem__(self, rows: slice, /) -> StoredArray:
        """Some of its rows, in the same memory."""
        first, last, _ = rows.indices(self.shape[0])
        place = self.address + BYTES * first * math.prod(self.shape[1:])
        return StoredArray(self.owner, place, (max(0, last - first), *self.shape[1:]))

    def contiguous(self) -> StoredArray:
        """Return the array itself: it has no gaps."""
        return self

    def data_ptr(self) -> int:
        """Return the address of the first number."""
        return self.address


def read_arrays(path: Path) -> dict[str, StoredArray] | None:
    """Return all tensors of a safetensors file by name, tied ones too; None if it is not a plain file of float32."""
    try:
        with opened(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MAX_HEADER_BYTES:
                return None
            header = parse_json(file.read(length), path)
            # Not read, which would take the time of copying it: pages of the file come when they are looked at. Who
            # writes here replaces files whole, so that what is mapped stays.
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        metadata = header.pop("__metadata__", {})
        aliases = parse_json(metadata.get("aliases", "{}").encode(), path)
        arrays = {name: _array(entry, data, 8 + length) for name, entry in header.items()}
        if arrays.keys() & aliases.keys():
            return None
        return {**arrays, **{alias: arrays[name] for alias, name in aliases.items()}}
    except (ModelError, ValueError, KeyError, TypeError, AttributeError, OSError):
        return None


def _array(entry: Mapping[str, Any], data: mmap.mmap, body: int) -> StoredArray:
    first, last = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not all(type(number) is int and number >= 0 for number in (first, last, *shape)):
        raise ValueError("sizes are whole numbers")
    address = ctypes.addressof(ctypes.c_char.from_buffer(data)) + body + first
    if entry["dtype"] != "F32" or last - first != BYTES * math.prod(shape) or body + last > len(data) or address % 4:
        raise ValueError("not plain float32 within the file")
    return StoredArray(data, address, shape)
