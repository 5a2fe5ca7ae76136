"""Opening what text is read from: files, compressed ones, pipes and standard input."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from io import BufferedIOBase, BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast

from dragoman.errors import DataError
from dragoman.remote import local_file

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSED = (*_OPENERS, ".zst")
_BLOCK = 1 << 20


@contextmanager
def open_bytes(path: str | Path) -> Generator[BufferedIOBase, None, None]:
    """Open a file for reading, decompressed as its name says; a failure while it is open is a DataError.

    What can be read only once (a pipe, a process substitution, a terminal, "-" for standard input) is copied to a
    temporary file first, so that it may be opened again.
    """
    suffix = Path(path).suffix if Path(path).suffix in COMPRESSED else ""
    try:
        with open_raw(path) as raw:
            if not suffix:
                yield raw
                return
            if not raw.peek(1):
                raise EOFError("the file is empty")
            with _decompressed(raw, suffix, path) as stream:
                yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"the {sort_of(suffix)} file is damaged or cut short", file=path, found=error) from error
    except OSError as error:
        if suffix and error.errno is None:  # what bz2 says of a damaged file
            raise DataError(f"the {sort_of(suffix)} file is damaged or cut short", file=path, found=error) from error
        raise DataError("cannot read the file", file=path, found=error.strerror or error) from error


@contextmanager
def create_bytes(path: str | Path, suffix: str | None = None) -> Generator[BufferedIOBase, None, None]:
    """Open a file for writing, compressed as its name says, or as a suffix that is given says.

    Raises:
        DataError: a package for it is not installed.
    """
    suffix = Path(path).suffix if suffix is None else suffix
    if suffix == ".zst":
        zstandard = _zstandard(path, "writing", "give a name that ends in .gz")
        with open(path, "wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as stream:
            yield stream
    else:
        opener: Any = _OPENERS.get(suffix, open)
        with opener(path, "wb") as stream:
            yield stream


@contextmanager
def create_text(path: str | Path) -> Generator[TextIO, None, None]:
    """Open a file for writing text, as UTF-8 with LF line ends, compressed as its name says.

    Raises:
        DataError: a package for it is not installed.
    """
    with create_bytes(path) as raw, TextIOWrapper(cast(Any, raw), encoding="utf-8", newline="\n") as stream:
        yield stream


def sort_of(suffix: str) -> str:
    """Return what sort of file a suffix of `COMPRESSED` stands for."""
    return {".gz": "gzip"}.get(suffix, suffix[1:])


def _decompressed(raw: BufferedReader, suffix: str, path: str | Path) -> BufferedIOBase:
    if suffix in _OPENERS:
        return cast(BufferedIOBase, _OPENERS[suffix](raw))
    zstandard = _zstandard(path, "reading", f"decompress it: zstd -d {Path(path).name}")
    return BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))


def _zstandard(path: str | Path, doing: str, instead: str) -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        hint = f"pip install zstandard, or {instead}"
        raise DataError(f"{doing} .zst needs the package zstandard", file=path, hint=hint) from error


def open_raw(path: str | Path) -> BufferedReader:
    """Return a reader of a file's bytes as they lie on the disk, or of a copy of a stream.

    Raises:
        DataError: it is a directory, or a device that is no text.
    """
    path = local_file(path)
    if str(path) == "-":
        sort = os.fstat(sys.stdin.fileno())
    else:
        sort = Path(path).stat()
        if stat.S_ISREG(sort.st_mode):
            return open(path, "rb")
    if not (stat.S_ISREG(sort.st_mode) or stat.S_ISFIFO(sort.st_mode) or stat.S_ISSOCK(sort.st_mode)
            or (stat.S_ISCHR(sort.st_mode) and _ends(path, sort))):  # fmt: skip
        found = "a directory" if stat.S_ISDIR(sort.st_mode) else "a device"
        raise DataError("not a file of text", file=path, found=found)
    copy = _kept(str(path), sort.st_dev, sort.st_ino)
    return cast(BufferedReader, BufferedReader(_Again(copy)))


def _ends(path: str | Path, sort: os.stat_result) -> bool:
    """Whether a device of characters has an end: standard input, a terminal, or the device that is empty."""
    if str(path) == "-" or sort.st_rdev == os.stat(os.devnull).st_rdev:
        return True
    with open(path, "rb", buffering=0) as stream:
        return stream.isatty()


@cache
def _kept(path: str, device: int, inode: int) -> int:
    """The descriptor of an unnamed file that holds all that a stream gave: it ends with the process.

    Device and inode are of the stream, so that another one under the same name is read too.
    """
    del device, inode
    source = sys.stdin.fileno() if path == "-" else path
    with tempfile.TemporaryFile(prefix="dragoman-") as copy:
        with open(source, "rb", closefd=path != "-") as stream:
            shutil.copyfileobj(stream, copy, _BLOCK)
        copy.flush()
        return os.dup(copy.fileno())


class _Again(RawIOBase):
    """Reads a descriptor from its beginning, whatever others have read of it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._place = descriptor, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        data = os.pread(self._descriptor, len(view), self._place)
        view[: len(data)] = data
        self._place += len(data)
        return len(data)


def is_stream(path: str | Path) -> bool:
    """Return whether a path names what can be read only once, or the standard input."""
    try:
        return str(path) == "-" or not (stat.S_ISREG(mode := Path(path).stat().st_mode) or stat.S_ISDIR(mode))
    except OSError:
        return False
