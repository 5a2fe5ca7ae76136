"""As much of protobuf's wire format as a SentencePiece model is made of."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST = 64  # bits of a number


def field(number: int, value: int | float | bytes | str) -> bytes:
    """Return a field of a message: whole numbers and truths as varints, other numbers in 32 bits, text as UTF-8."""
    if isinstance(value, float):
        return _varint(number << 3 | _FIXED32) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """A whole number of at least 0, seven bits in each byte."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message, as far as it can be read; no message is an error.

    Values are whole numbers and bytes; fields of fixed width are left out.
    """
    place = 0
    while place < len(message):
        key, place = _read(message, place)
        kind = key & 7
        if kind == _VARINT:
            value, place = _read(message, place)
            yield key >> 3, value
        elif kind == _BYTES:
            size, place = _read(message, place)
            yield key >> 3, message[place : place + size]
            place += size
        elif kind in (_FIXED64, _FIXED32):
            place += 8 if kind == _FIXED64 else 4
        else:
            return


def contents(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield what stands in one field of bytes, as often as the message has it."""
    return (value for number, value in fields(message) if number == wanted and isinstance(value, bytes))


def _read(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < _LONGEST:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            break
    return value, place
