"""The sum over a file of tensors that stands in its own header, so that damage is noticed when the file is opened.

It is the CRC-32 (as of zlib and PNG) of the whole safetensors file, with zeros for the eight digits of the sum itself,
and the first entry of the header's metadata: `crc32`. One file is replaced at once, so sum and weights always belong
together. Files without a sum, older ones and those from elsewhere, are taken as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.files import opened

START = b'{"__metadata__":{"crc32":"'
ZEROS = b"00000000"
_LENGTH = 8  # bytes before the header, which say how long it is
_PIECE = 1 << 20  # what is read at once


def with_sum(data: bytes) -> bytes:
    """Return the bytes of a safetensors file without a checksum, with one put into its header."""
    length = int.from_bytes(data[:_LENGTH], "little")
    header = data[_LENGTH : _LENGTH + length].rstrip()
    empty = b'{"__metadata__":{'
    if header.startswith(empty):
        header = START + ZEROS + b'",' + header.removeprefix(empty)
    else:
        header = START + ZEROS + b'"}' + (b"}" if header == b"{}" else b"," + header[1:])
    header += b" " * (-len(header) % 8)  # tensors begin at a multiple of it
    head = len(header).to_bytes(_LENGTH, "little") + header
    body = memoryview(data)[_LENGTH + length :]
    place = _LENGTH + len(START)
    digits = b"%08x" % zlib.crc32(body, zlib.crc32(head))
    return b"".join((head[:place], digits, head[place + len(ZEROS) :], body))


def check_sum(path: Path) -> None:
    """Compare a file of tensors with its sum, if it has one.

    Raises:
        ModelError: it is damaged, is not a regular file, or cannot be read.
    """
    with opened(path) as file:
        head = file.read(_LENGTH + len(START))
        if head[_LENGTH:] != START:
            return
        told, found = file.read(len(ZEROS)), zlib.crc32(ZEROS, zlib.crc32(head))
        piece = memoryview(bytearray(_PIECE))
        while count := file.readinto(piece):
            found = zlib.crc32(piece[:count], found)
    if told != b"%08x" % found:
        raise ModelError(
            "damaged: wrong content", file=path, expected=f"CRC-32 {told.decode(errors='replace')}",
            found=f"CRC-32 {found:08x}",
            hint="get the file anew, or take an earlier checkpoint; a program that changes it on purpose should leave "
            "crc32 out of the metadata",
        )  # fmt: skip


def check_aside(path: Path) -> Callable[[], None]:
    """Begin `check_sum` on a thread of its own; what comes back waits for its end and raises what it raised."""
    import threading

    wrong: list[Exception] = []

    def check() -> None:
        try:
            check_sum(path)
        except Exception as error:
            wrong.append(error)

    thread = threading.Thread(target=check)
    thread.start()

    def wait() -> None:
        thread.join()
        if wrong:
            raise wrong[0]

    return wait
