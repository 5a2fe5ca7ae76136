"""As much of protobuf's wire format as a SentencePiece model is made of."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def field(number: int, value: int | float | bytes | str) -> bytes:
    """Return a field of a message: whole numbers and truths as varints, other numbers in 32 bits, text as UTF-8."""
    if isinstance(value, float):
        return varint(number << 3 | FIXED32) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """Return a whole number of at least 0, seven bits in each byte."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def contents(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield what stands in one field of bytes, as often as the message has it."""
    place = 0
    while place < len(message):
        key, place = _read(message, place)
        kind = key & 7
        if kind == VARINT:
            _, place = _read(message, place)
            continue
        size, place = _read(message, place) if kind == BYTES else ({FIXED64: 8, FIXED32: 4}[kind], place)
        if kind == BYTES and key >> 3 == wanted:
            yield message[place : place + size]
        place += size


def _read(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
