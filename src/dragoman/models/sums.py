"""The sum over a file of tensors that stands in its own header, so that damage is noticed when the file is opened.

It is the CRC-32 (as of zlib and PNG) of the whole safetensors file, with zeros for the eight digits of the sum itself,
and the first entry of the header's metadata: `crc32`. One file is replaced at once, so sum and weights always belong
together. Files without a sum, older ones and those from elsewhere, are taken as they are.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.errors import ModelError

START = b'{"__metadata__":{"crc32":"'
ZEROS = b"00000000"
_LENGTH = 8  # bytes before the header, which say how long it is


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


def check_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Compare what was read of a file of tensors with its sum, if it has one.

    Args:
        path: of the file, for messages.
        pieces: all of it, end to end; the first one has the whole header.

    Raises:
        ModelError: it is damaged.
    """
    each = iter(pieces)
    start = next(each)
    head, rest = start[: _LENGTH + len(START)], memoryview(start)[_LENGTH + len(START) :]
    if (differing := _differing(head[_LENGTH:])) > 1:
        return
    told, found = bytes(rest[: len(ZEROS)]), zlib.crc32(ZEROS, zlib.crc32(head))
    found = zlib.crc32(rest[len(ZEROS) :], found)
    for piece in each:
        found = zlib.crc32(piece, found)
    if differing or told != b"%08x" % found:
        raise ModelError(
            "damaged: wrong content", file=path, expected=f"CRC-32 {told.decode(errors='replace')}",
            found=f"CRC-32 {found:08x}",
            hint="get the file anew, or take an earlier checkpoint; a program that changes it on purpose should leave "
            "crc32 out of the metadata",
        )  # fmt: skip


def _differing(start: bytes) -> int:
    """In how many places a header does not begin with a sum: in one it is the name of the sum that is damaged."""
    return len(START) - sum(map(operator.eq, start, START))


def aside(check: Callable[[], None]) -> Callable[[], None]:
    """Begin a check on a thread of its own; what comes back waits for its end and raises what it raised."""
    import threading

    wrong: list[Exception] = []

    def run() -> None:
        try:
            check()
        except Exception as error:
            wrong.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> None:
        thread.join()
        if wrong:
            raise wrong[0]

    return wait
