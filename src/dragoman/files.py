"""Files that survive a crash, and files that nobody vouches for.

Writing: a file appears under its name complete and on the disk itself, or not at all: it is written to a temporary
sibling `.tmp-NAME-PID`, flushed, renamed, and the directory is flushed too. Permissions follow the umask.

Reading: only regular files (never a pipe or device), only JSON (safetensors: `models/tensors.py`), and only within
limits that are checked before anything is parsed: a damaged or hostile file is one `ModelError` that names it. Links
are followed, since stores of models are made of them; of what they reach nothing is quoted.
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
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, TextIO

from dragoman.archive import Window, window
from dragoman.errors import DragomanError, ModelError, SaveError

MAX_JSON_BYTES = 16 << 20
MAX_JSON_DEPTH = 64
MAX_SETTINGS_BYTES = 1 << 20  # of the JSON that describes other files
_MAX_JSON_GROUPS, _MAX_JSON_VALUES = 100_000, 400_000
_SMALL, _FILLED, _MOST_EXTENTS = 32 << 20, 16, 100_000

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
    remove_orphans(path)
    try:
        with written_as(temporary, path):
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


@contextmanager
def written_as(temporary: Path, path: Path) -> Iterator[None]:
    """Have what the system says of a temporary, or of what is in it, name `path`; a full disk names nothing."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or temporary)
        if error.errno is not None and name.startswith(str(temporary)):  # libraries raise such errors too
            error.filename, error.filename2 = str(path) + name[len(str(temporary)) :], None
        raise


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
            if number != str(os.getpid()):  # else of an earlier process: in a container all have the same number
                os.kill(int(number), 0)
                continue
            remove(entry)
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
    """Open a regular file for reading; a link to one is followed, also into a packed model (`dragoman.archive`).

    Raises:
        ModelError: it is missing, a pipe or a device, or reading it fails.
    """
    try:
        # A pipe does not block; what was opened is looked at, not what bears the name later.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ModelError("not a regular file", file=path)
            part = window(descriptor, path)
            with os.fdopen(descriptor, "rb", closefd=False) if part is None else BufferedReader(part) as file:
                yield file
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ModelError("cannot read the file", file=path, found=error.strerror or error) from error


def size_of(file: BufferedReader) -> int:
    """Return the bytes of a file that `opened` gave."""
    part = file.raw
    return part.size if isinstance(part, Window) else os.fstat(file.fileno()).st_size


def open_append(*paths: Path) -> list[TextIO]:
    """Open text files to write at their ends, made if missing; never through a link, into a pipe or into a device.

    Raises:
        SaveError: one is one of these, or cannot be opened; then none is open.
    """
    with ExitStack() as opened_files:
        files = [opened_files.enter_context(_open_append(path)) for path in paths]
        opened_files.pop_all()
    return files


def _open_append(path: Path) -> TextIO:
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise SaveError("cannot write the file", file=path, expected="a regular file or none", found=error.strerror,
                        hint="remove it, or give another directory") from error  # fmt: skip
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SaveError("cannot write the file", file=path, expected="a regular file or none")
    return os.fdopen(descriptor, "a", encoding="utf-8", newline="\n")


def check_own_directory(path: Path) -> None:
    """Refuse to write into what is not a directory of its own, but a link to another one or no directory at all.

    Raises:
        SaveError: it is there and no real directory.
    """
    if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
        raise SaveError("cannot write into the directory", file=path, expected="a real directory or none",
                        hint="remove it, or give another directory")  # fmt: skip


def check_filled(path: Path) -> None:
    """Refuse a large file that is mostly holes: it takes little room on the disk, and all of its size in memory.

    Raises:
        ModelError: it is one, is not a regular file, or cannot be read.
    """
    with opened(path) as file:
        size, place, held = os.fstat(file.fileno()).st_size, 0, 0
        if size <= _SMALL:
            return
        for _ in range(_MOST_EXTENTS):
            try:
                start = os.lseek(file.fileno(), place, os.SEEK_DATA)
                place = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:  # the file system does not tell
                    return
                break  # nothing but a hole is left
            held += place - start
            if held >= size // _FILLED:
                return
    raise ModelError("the file is mostly holes", file=path, expected=f"{size} bytes", found=f"{held} on the disk")


def verify_file(path: Path, size: int, sha256: str) -> None:
    """Check a file against its size in bytes and its SHA-256 in hexadecimal.

    Raises:
        ModelError: it is missing, is not a regular file, or differs.
    """
    with opened(path) as file:
        found = size_of(file)
        if found != size:
            raise ModelError("damaged: wrong size", file=path, expected=f"{size} bytes", found=f"{found} bytes")
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise ModelError("damaged: wrong content", file=path, expected=f"SHA-256 {sha256}", found=f"SHA-256 {digest}")


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal.

    Raises:
        ModelError: it is missing, a pipe or a device, or reading it fails.
    """
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(body: Mapping[str, Any], name: str = "sha256") -> dict[str, Any]:
    """Return a description with the SHA-256 of all it says, under `name`, so that no bit of it changes unseen."""
    return {**body, name: hashlib.sha256(encode_json(body)).hexdigest()}


def unsealed(tree: Mapping[str, Any], path: Path, name: str = "sha256") -> dict[str, Any]:
    """Return what `sealed` was given; descriptions without a seal, older ones, are taken as they are.

    Raises:
        ModelError: it says something else than was sealed.
    """
    body = {key: value for key, value in tree.items() if key != name}
    told, found = tree.get(name), sealed(body, name)[name]
    # A seal whose own name is damaged is none, but for one letter.
    almost = any(len(key) == len(name) and sum(map(str.__ne__, key, name)) == 1 for key in body)
    if almost or (name in tree and told != found):
        hint = f'get the file anew; whoever changed it on purpose takes "{name}" out of it'
        raise ModelError("damaged: wrong content", file=path, expected=f"SHA-256 {told}", found=f"SHA-256 {found}",
                         hint=hint)  # fmt: skip
    return body


@contextmanager
def unquoted(path: Path) -> Iterator[None]:
    """Let no message about a file that is reached by a link quote what it holds: it may be anybody's.

    Raises:
        DragomanError: as was raised inside; if `path` is a link only of what kind it was.
    """
    try:
        yield
    except DragomanError as error:
        if not (path.is_symlink() and path.is_file()):
            raise
        hint = "it is a link: look at what it leads to"
        raise type(error)("cannot be used as a file of a model", file=path, hint=hint) from None


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


def read_whole(path: Path, limit: int, what: str) -> bytes:
    """Return what is in a regular file.

    Raises:
        ModelError: it cannot be read, or has more than `limit` bytes, too many for `what`.
    """
    with opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ModelError(f"too large for {what}", file=path, expected=f"at most {limit} bytes")
    return data


def read_json(path: Path, *, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        ModelError: it is not such a file, is larger than `limit` bytes, holds too many values, is nested deeper than
            `MAX_JSON_DEPTH`, or says a key twice.
    """
    return parse_json(read_whole(path, limit, "JSON"), path)


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """Return one JSON object from bytes that were found in `path`.

    Raises:
        ModelError: as for `read_json`.
    """
    # Each takes far more memory than its sign in the file.
    if data.count(b"[") + data.count(b"{") > _MAX_JSON_GROUPS or data.count(b",") > _MAX_JSON_VALUES:
        limit = f"at most {_MAX_JSON_GROUPS} lists and objects, and {_MAX_JSON_VALUES} values"
        raise ModelError("too much for JSON", file=path, expected=limit)
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ModelError("JSON is nested too deeply", file=path, expected=f"{MAX_JSON_DEPTH} levels") from error
    except ValueError as error:
        # Of a character that is no UTF-8 Python quotes the byte, of all else the place.
        found = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise ModelError("not valid JSON", file=path, found=found) from error
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
