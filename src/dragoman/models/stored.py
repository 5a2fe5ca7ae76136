"""The weights of a model directory without PyTorch: for the engine that does not need it.

They are float32, or bytes with a factor for each row (`dragoman.models.quantised`).

Only what is plain is read here. Whatever is not, or not right, is left to `load_pretrained`, which knows more kinds of
tensors and says what is wrong.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from dragoman.errors import ModelError
from dragoman.files import check_filled, opened, parse_json, size_of
from dragoman.models.sums import aside, check_pieces

MAX_HEADER_BYTES = 8 << 20
MAX_TENSORS = 20_000
# The factors of the rows of a tensor of bytes stand under its name with this behind it.
FACTORS = ":factors"
# Bytes of a number, by how safetensors calls its type.
_SIZES = {"F32": 4, "I8": 1}


@dataclass(frozen=True)
class StoredArray:
    """Numbers in memory that `owner` keeps, row by row: float32, or bytes with the factor of each row in `factors`."""

    owner: bytes
    address: int
    shape: tuple[int, ...]
    factors: StoredArray | None = None

    @property
    def dtype(self) -> str:
        """Return the type of its numbers, as PyTorch calls it."""
        return "float32" if self.factors is None else "int8"

    def __getitem__(self, rows: slice, /) -> StoredArray:
        """Some of its rows, in the same memory."""
        first, last, _ = rows.indices(self.shape[0])
        size = _SIZES["F32" if self.factors is None else "I8"]
        place = self.address + size * first * math.prod(self.shape[1:])
        factors = None if self.factors is None else self.factors[rows]
        return StoredArray(self.owner, place, (max(0, last - first), *self.shape[1:]), factors)

    def contiguous(self) -> StoredArray:
        """Return the array itself: it has no gaps."""
        return self

    def data_ptr(self) -> int:
        """Return the address of the first number."""
        return self.address


class Stored(NamedTuple):
    """What a file of tensors held when it was read.

    Attributes:
        arrays: by name, tied ones too.
        await_check: waits until they have been compared with the sum of the file, and raises what is wrong.
    """

    arrays: dict[str, StoredArray]
    await_check: Callable[[], None]


def read_arrays(path: Path) -> Stored | None:
    """Return all tensors of a safetensors file, copied into memory; None if it is not a plain file of these types.

    A map of the file would follow whatever is written there later, and end the process where the file is cut short.

    Raises:
        ModelError: the file is mostly holes, is not a regular file, or cannot be read.
    """
    check_filled(path)
    try:
        with opened(path) as file:
            size, start = size_of(file), file.read(8)
            length = int.from_bytes(start, "little")
            if length > min(MAX_HEADER_BYTES, size - len(start)):
                return None
            start += file.read(length)
            header = parse_json(start[8:], path)
            metadata = header.pop("__metadata__", {})
            aliases = parse_json(metadata.get("aliases", "{}").encode(), path)
            if len(header) > MAX_TENSORS or header.keys() & aliases.keys():
                return None
            kinds = _kinds(header, size - len(start))
            read: SimpleQueue[bytes | None] = SimpleQueue()
            read.put(start)
            # Summed up while the next ones are read, and while the first are packed.
            await_check = aside(partial(check_pieces, path, iter(read.get, None)))
            try:
                arrays = {name: _array(file, *kind, read) for name, kind in kinds.items()}
            finally:
                read.put(None)
        arrays = _with_factors(arrays, {name for name, (kind, _) in kinds.items() if kind == "I8"})
        arrays |= {alias: arrays[name] for alias, name in aliases.items()}
    except (ModelError, ValueError, KeyError, TypeError, AttributeError, OSError):
        return None
    return Stored(arrays, await_check)


def _kinds(header: Mapping[str, Any], size: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and shape of each tensor in the order in which they lie in the file: from its header to its end."""
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
    place = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if not all(type(number) is int and number >= 0 for number in (first, last, *shape)):
            raise ValueError("sizes are whole numbers")
        if last - first != _SIZES[entry["dtype"]] * math.prod(shape) or first != place:
            raise ValueError("not plain numbers, end to end")
        kinds[name], place = (entry["dtype"], shape), last
    if place != size:
        raise ValueError("the tensors do not fill the file")
    return kinds


def _with_factors(arrays: dict[str, StoredArray], of_bytes: set[str]) -> dict[str, StoredArray]:
    """The arrays without those of factors, which go to their bytes: whole rows of at least one number."""
    factors = {name: arrays.pop(name + FACTORS) for name in of_bytes}
    for name, found in factors.items():
        if len(arrays[name].shape) < 2 or found.shape != arrays[name].shape[:1] or name + FACTORS in of_bytes:
            raise ValueError("there is not a factor for each row")
        arrays[name] = replace(arrays[name], factors=found)
    return arrays


def _array(file: BufferedReader, kind: str, shape: tuple[int, ...], read: SimpleQueue[bytes | None]) -> StoredArray:
    length = _SIZES[kind] * math.prod(shape)
    data = file.read(length)
    read.put(data)
    if len(data) != length:
        raise ValueError("the file was cut short")
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
    assert address is not None
    return StoredArray(data, address, shape)
