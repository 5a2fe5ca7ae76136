"""Files that survive a crash, and files that nobody vouches for.

Writing: a file appears under its name complete and on the disk itself, or not at all: it is written to a temporary
sibling `.tmp-NAME-PID`, flushed, renamed, and the directory is flushed too. Permissions follow the umask.

Reading: only regular files (never a link, pipe or device), only JSON (safetensors: `models/tensors.py`), and only
within limits that are checked before anything is parsed: a damaged or hostile file is one `ModelError` that names it.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from dragoman.errors import ModelError

MAX_JSON_BYTES = 16 << 20
MAX_JSON_DEPTH = 64

_WRITE_BYTES = 64 << 20  # per system call; some systems refuse more than 2 GiB
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY}  # what a file system answers that knows no flushing
_TEMPORARY = re.compile(r"\.tmp-.+-\d+")


# Writing


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` under `path`, whole and durable, in place of what was there before.

    Raises:
        OSError: it could not be written; what was there before still is.
    """
    temporary = temporary_sibling(path)
    try:
        write_new_file(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    flush_directory(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a value as JSON: `write_bytes` of `encode_json(value)`."""
    write_bytes(path, encode_json(value))


def write_new_file(path: Path, data: bytes) -> None:
    """Write and flush a file that must not exist yet. Its name is durable once its directory is flushed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest[:_WRITE_BYTES]) :]
        _flush(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory, and its parents, so that they outlive a power cut; nothing to do if it exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Make the names in a directory durable: those that came, went or changed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _flush(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(descriptor)


def _flush(descriptor: int) -> None:
    command = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: there fsync stops at the cache of the drive
    if command is not None:
        try:
            fcntl.fcntl(descriptor, command)
            return
        except OSError as error:
            if error.errno not in _CANNOT_FLUSH:
                raise
    os.fsync(descriptor)


def temporary_sibling(path: Path) -> Path:
    """Return the name under which this process prepares `path`: in the same directory, so on the same file system."""
    return path.with_name(f".tmp-{path.name}-{os.getpid()}")


def remove_temporaries(directory: Path) -> None:
    """Delete what writers that were killed left behind. Only for the one process that may write there."""
    for entry in sorted(directory.iterdir()):
        if _TEMPORARY.fullmatch(entry.name):
            remove(entry)


def remove_orphans(path: Path) -> None:
    """Delete what processes that have ended left of `path`; those that still prepare one keep theirs."""
    for entry in path.parent.glob(f".tmp-{glob.escape(path.name)}-*"):
        number = entry.name.rpartition("-")[2]
        try:
            os.kill(int(number), 0)
        except (ProcessLookupError, OverflowError):
            remove(entry)
        except (PermissionError, ValueError):
            pass  # it lives and is another user's, or is no number


def remove(path: Path) -> None:
    """Delete a file, a link (not what it points to) or a whole directory."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


# Reading


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading.

    Raises:
        ModelError: it is missing, a link, a pipe or a device, or reading it fails.
    """
    try:
        # Links are refused and a pipe does not block; what was opened is looked at, not what bears the name later.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ModelError("not a regular file", file=path)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelError("a symbolic link, which is not followed", file=path, expected="a file") from error
        raise ModelError("cannot read the file", file=path, found=error.strerror or error) from error


def verify_file(path: Path, size: int, sha256: str) -> None:
    """Check a file against its size in bytes and its SHA-256 in hexadecimal.

    Raises:
        ModelError: it is missing, is not a regular file, or differs.
    """
    with opened(path) as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise ModelError("damaged: wrong size", file=path, expected=f"{size} bytes", found=f"{found} bytes")
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise ModelError("damaged: wrong content", file=path, expected=f"SHA-256 {sha256}", found=f"SHA-256 {digest}")


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Return JSON in its one form here: keys sorted, ASCII, one final LF; NaN and infinities as Python has them."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON for other programs: null for what is not finite, every character as itself."""
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def finite(value: Any) -> Any:
    """Return the same plain values, None for each NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        ModelError: it is not such a file, is larger than `MAX_JSON_BYTES`, is nested deeper than `MAX_JSON_DEPTH`, or
            says a key twice.
    """
    with opened(path) as file:
        data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise ModelError("too large for JSON", file=path, expected=f"at most {MAX_JSON_BYTES} bytes")
    return parse_json(data, path)


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """Return one JSON object from bytes that were found in `path`.

    Raises:
        ModelError: as for `read_json`.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ModelError("JSON is nested too deeply", file=path, expected=f"{MAX_JSON_DEPTH} levels") from error
    except ValueError as error:
        raise ModelError("not valid JSON", file=path, found=error) from error
    if not isinstance(value, dict):
        raise ModelError("not a JSON object", file=path, found=f"a {type(value).__name__}")
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    if level:
        raise ModelError("JSON is nested too deeply", file=path, expected=f"{MAX_JSON_DEPTH} levels")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice in one object")
    return found
