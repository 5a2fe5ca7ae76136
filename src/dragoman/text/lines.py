"""Lines of text files, read strictly: what is not UTF-8 text is found and named, never guessed at.

A line ends at LF and only there; one CR before it is dropped. So CR, VT, FF, NEL, U+2028 and the like are ordinary
characters, and a file has as many lines as `wc -l` counts (plus one if text follows the last LF).
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from dragoman.errors import DataError, DragomanError
from dragoman.pace import silent
from dragoman.text.opening import open_bytes, open_raw, sort_of

T = TypeVar("T")
BadText = Literal["stop", "replace", "skip"]
MAX_LINE_BYTES = 16 * 2**20
_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_MOST_CHARACTERS = 2 << 20  # of lines that wait for each other
# How compressed files begin, for those whose name does not say it.
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}


class Line(NamedTuple):
    """One line without its end. `number` counts from 1; `problem` says what is wrong with a line that was not read."""

    number: int
    text: str
    problem: DataError | None = None


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the same items, `size` at a time, as they come; fewer where they have very many characters together.

    Where they end with an error, those before it come first.
    """
    chunk: list[T] = []
    held = 0
    try:
        for item in items:
            chunk.append(item)
            held += _characters(item)
            if len(chunk) == size or held >= _MOST_CHARACTERS:
                yield chunk
                chunk, held = [], 0
    except DragomanError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _characters(item: object) -> int:
    if isinstance(item, str):
        return len(item)
    return sum(map(_characters, item)) if isinstance(item, tuple) else 0


class LineNumbers:
    """Numbers of lines, for people: how many, and the first ten."""

    SHOWN = 10

    def __init__(self) -> None:
        self.count = 0
        self._first: list[int] = []

    def add(self, number: int) -> None:
        """Take a number."""
        self.count += 1
        if len(self._first) < self.SHOWN:
            self._first.append(number)

    def __str__(self) -> str:
        more = f" and {self.count - self.SHOWN:,} more" if self.count > self.SHOWN else ""
        return f"line{'s' if self.count > 1 else ''} {', '.join(map(str, self._first))}{more}"


@dataclass
class ReadCounts:
    """What a reader did, filled in while it reads.

    Attributes:
        read: lines or records.
        replaced: those of them with replaced text.
        skipped: those of them that were not text and are left out.
        incomplete: those of them that had not both sides, and are left out.
        headers: first lines that named columns, which are not among those read.
    """

    read: int = 0
    replaced: int = 0
    skipped: int = 0
    incomplete: int = 0
    headers: int = 0


def read_lines(path: str | Path, *, on_bad_text: BadText = "stop", counts: ReadCounts | None = None) -> Iterator[Line]:
    """Yield the lines of a UTF-8 text file, streaming; `.gz`, `.bz2`, `.xz` and `.zst` files are decompressed.

    Args:
        path: a file; a pipe, or "-" for standard input, is kept on the disk while the process lives, to be read again.
        on_bad_text: what a line with invalid UTF-8 or NUL does: stop with an error, have each bad byte replaced by
            U+FFFD, or be left out (line numbers keep counting the lines of the file).
        counts: filled in with the lines read, replaced and skipped.

    Raises:
        DataError: the file is missing, a directory, not readable, damaged, has the line ends of old Macs (CR alone), or
            (with "stop") has a bad line; names file, line and byte.
    """
    for line in scan_lines(path, on_bad_text=on_bad_text, counts=counts):
        if line.problem is None:
            yield line


def scan_lines(path: str | Path, *, on_bad_text: BadText = "stop", counts: ReadCounts | None = None) -> Iterator[Line]:
    """Yield lines as `read_lines`, a skipped one too, with its `problem`: for files that are read side by side.

    Raises:
        DataError: as for `read_lines`.
    """
    with open_bytes(path) as stream:
        yield from scan_stream(stream, str(path), on_bad_text=on_bad_text, counts=counts, refuse_cr_alone=True)


def scan_stream(
    stream: BufferedIOBase,
    name: str,
    *,
    on_bad_text: BadText = "stop",
    counts: ReadCounts | None = None,
    refuse_cr_alone: bool = False,
) -> Iterator[Line]:
    """Yield the lines of an open binary stream, such as standard input, by the rules of `scan_lines`.

    Args:
        stream: anything with `readline(limit)` that gives bytes.
        name: what errors call it.
        on_bad_text: as for `read_lines`.
        counts: as for `read_lines`.
        refuse_cr_alone: whether a stream without LF but with several CRs, the line ends of old Macs, is an error.

    Raises:
        DataError: with "stop", a line is not text, or longer than 16 MiB, which nothing can be replaced in; with
            `refuse_cr_alone`, the lines end in CR alone.
    """
    counts = ReadCounts() if counts is None else counts
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 8):
        number += 1
        counts.read += 1
        content = _content(raw, number)
        if len(content) > MAX_LINE_BYTES:
            expected = f"<= {MAX_LINE_BYTES} bytes"
            problem = DataError("the line is too long to be one sequence", file=name, line=number, expected=expected)
            if on_bad_text == "stop":
                raise problem
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            counts.skipped += 1
            yield Line(number, "", problem)
            continue
        is_one_line = number == 1 and not raw.endswith(b"\n") and b"\0" not in raw and not raw.startswith(tuple(_MAGIC))
        if refuse_cr_alone and is_one_line and content.count(b"\r") > 1:
            found, hint = "one line with CR in it, and no LF", "convert it: tr '\\r' '\\n' < FILE"
            raise DataError("lines end in CR alone", file=name, expected="LF", found=found, hint=hint)
        start, wrong = content.find(0), "a NUL byte"
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            if not 0 <= start < error.start:
                start, wrong = error.start, f"{content[error.start : error.end].hex(' ')} ({error.reason})"
        else:
            if start < 0:
                yield Line(number, text)
                continue
        if on_bad_text == "replace":
            counts.replaced += 1
            yield Line(number, content.decode("utf-8", "replace").replace("\0", "\ufffd"))
            continue
        problem = _problem(raw, name, number, raw.index(content) + start, wrong)
        if on_bad_text == "stop":
            raise problem
        counts.skipped += 1
        yield Line(number, "", problem)


def _content(raw: bytes, number: int) -> bytes:
    if raw.endswith(b"\n"):
        raw = raw[: -2 if raw.endswith(b"\r\n") else -1]
    return raw.removeprefix(_BOM) if number == 1 else raw


def _problem(raw: bytes, name: str, number: int, byte: int, wrong: str) -> DataError:
    hint = "convert it to UTF-8, or say what becomes of such lines: --on-bad-text replace (or skip)"
    if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        hint = "this looks like UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
    for magic, suffix in _MAGIC.items():
        if number == 1 and raw.startswith(magic):
            hint = f"this looks like {sort_of(suffix)}: decompress it, or let the name of a file end in {suffix}"
    return DataError(
        "the line is not text", file=name, line=number, byte=byte, expected="UTF-8", found=wrong, hint=hint
    )


def read_texts(
    path: str | Path, *, on_bad_text: BadText = "stop", tell: Callable[[str], None] = silent
) -> Iterator[str]:
    """Yield the text of each line of a file, as many as it has: one that is skipped is empty.

    Args:
        path: as for `read_lines`.
        on_bad_text: as for `read_lines`.
        tell: takes a line of plain text at the end, if lines were not text.

    Raises:
        DataError: as for `read_lines`.
    """
    with open_bytes(path) as stream:
        yield from stream_texts(stream, str(path), on_bad_text=on_bad_text, tell=tell)


def stream_texts(
    stream: BufferedIOBase, name: str, *, on_bad_text: BadText = "stop", tell: Callable[[str], None] = silent
) -> Iterator[str]:
    """Yield the text of each line of an open binary stream, as `read_texts` does for a file that is called `name`."""
    counts, bad = ReadCounts(), LineNumbers()
    for line in scan_stream(stream, name, on_bad_text=on_bad_text, counts=counts):
        if counts.replaced + counts.skipped > bad.count:
            bad.add(line.number)
        yield line.text
    if bad.count:
        became = "count as empty" if on_bad_text == "skip" else "have U+FFFD for what was wrong"
        tell(f"warning: {name}: {bad.count:,} of {counts.read:,} lines were not text and {became}: {bad}")


def check_text(path: str | Path) -> int:
    """Return how many lines a file has, all of which are text.

    Raises:
        DataError: as for `read_lines` with "stop": before any work is done on the lines before the bad one.
    """
    decoder, length = codecs.getincrementaldecoder("utf-8")(), 0
    try:
        with open_bytes(path) as stream:
            while block := stream.read(_BLOCK):
                decoder.decode(block)
                first = block.find(b"\n")
                if b"\0" in block or length + (len(block) if first < 0 else first) > MAX_LINE_BYTES:
                    raise ValueError
                length = length + len(block) if first < 0 else len(block) - 1 - block.rfind(b"\n")
            decoder.decode(b"", True)
    except ValueError:
        for _ in scan_lines(path):  # finds the line and says what is wrong with it
            pass
    return count_lines(path)


def count_lines(path: str | Path) -> int:
    """Return how many lines `read_lines` would find in a file, without decoding them.

    Raises:
        DataError: the file is missing, not readable, or damaged.
    """
    ends, last = 0, b"\n"
    with open_bytes(path) as stream:
        while block := stream.read(_BLOCK):
            ends, last = ends + block.count(b"\n"), block
    return ends + (not last.endswith(b"\n"))


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes as they lie on disk, in hex: what `sha256sum` prints.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with open_raw(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError("cannot read the file", file=path, found=error.strerror) from error
