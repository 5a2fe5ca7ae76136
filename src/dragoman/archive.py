"""A model as one file: a zip archive whose files are stored as they are, so that weights are read where they lie.

Only what `write_archive` makes is read: no compression, no folders, no links, few files, none of which overlap; names
are plain. So an archive from a stranger costs no more than its own size, and nothing is written outside one's own
folder. Other programs can open it as any zip.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import ModelError

ENDING = ".dragoman"
PAGE = 4096
MOST_FILES, MOST_SMALL = 32, 96 << 20
_LARGEST = (1 << 32) - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9]+)+")
_LOCAL, _ENTRY, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
_VERSION, _DAY = 20, 0x5821  # 1 January 2024: the same files give the same bytes
_PIECE = 1 << 20


class Member(NamedTuple):
    """Where a file lies in an archive: the place of its first byte, its bytes and their CRC-32."""

    start: int
    size: int
    crc: int


class Window(io.RawIOBase):
    """A part of a file that is open, as a file of its own; whoever opened it closes it.

    Args:
        descriptor: of the whole file.
        start: of the part.
        size: of the part.
    """

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        super().__init__()
        self._descriptor, self._start, self._place, self.size = descriptor, start, 0, size

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the whole file."""
        return self._descriptor

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a place, counted from the start, from here or from the end (`whence` 0, 1, 2)."""
        self._place = max(0, offset + (0, self._place, self.size)[whence])
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        """Read as much as there is room for, or is left."""
        room = memoryview(buffer)[: max(0, self.size - self._place)]
        count = os.preadv(self._descriptor, [room], self._start + self._place) if len(room) else 0
        self._place += count
        return count


def read_members(descriptor: int, path: Path) -> dict[str, Member]:
    """Return the files of an archive that is open, by name.

    Raises:
        ModelError: it is not one that `write_archive` made.
    """
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _END.size, max(0, size - _END.size))
    if len(tail) < _END.size:
        raise _unfit(path, "a file that is too short")
    mark, disk, first, here, count, length, start, comment = _END.unpack(tail)
    if mark != b"PK\5\6" or comment or disk or first or here != count:
        raise _unfit(path, "no end of an archive, or one with a comment")
    if not 0 < count <= MOST_FILES or start + length + _END.size != size:
        raise _unfit(path, f"{count} files, or bytes between them and the end")
    if length > count * (_ENTRY.size + 255):
        raise _unfit(path, "a list of files that is too long")
    listed = os.pread(descriptor, length, start)
    found: dict[str, Member] = {}
    place = end = 0
    for _ in range(count):
        if place + _ENTRY.size > len(listed):
            raise _unfit(path, "a list of files that was cut short")
        entry = _ENTRY.unpack_from(listed, place)
        name = listed[place + _ENTRY.size : place + _ENTRY.size + entry[10]].decode("ascii", "replace")
        place += _ENTRY.size + entry[10]
        member = _member(descriptor, path, entry, name)
        if name in found or member.start < end or member.start + member.size > start:
            raise _unfit(path, f"{name!r} twice, or over something else")
        found[name], end = member, member.start + member.size
    if place != len(listed):
        raise _unfit(path, "a list of files that is too long")
    return found


def _member(descriptor: int, path: Path, entry: tuple, name: str) -> Member:
    mark, _, _, flags, method, _, _, crc, packed, size, _, extra, comment, disk, _, mode, offset = entry
    if mark != b"PK\1\2" or flags or extra or comment or disk:
        raise _unfit(path, "an entry of another kind")
    if method or packed != size:
        raise _unfit(path, f"{name!r}, which is compressed")
    if not _NAME.fullmatch(name) or mode >> 16 not in (0, 0o100644):
        raise _unfit(path, f"{name!r}, which is no plain file")
    head = os.pread(descriptor, _LOCAL.size, offset)
    if len(head) < _LOCAL.size:
        raise _unfit(path, f"{name!r} beyond the end")
    local = _LOCAL.unpack(head)
    own = os.pread(descriptor, local[9], offset + _LOCAL.size)
    if local[0] != b"PK\3\4" or local[2:4] != (0, 0) or own != name.encode() or local[6:9] != (crc, size, size):
        raise _unfit(path, f"{name!r}, which is told of in two ways")
    return Member(offset + _LOCAL.size + local[9] + local[10], size, crc)


def _unfit(path: Path, found: str) -> ModelError:
    return ModelError("not a packed model", file=path, expected="what `dragoman pack` makes", found=found)


def window(descriptor: int, path: Path) -> Window | None:
    """Return the part of an open archive that a link stands for, one of `unpacked`; None if it is no such link.

    Raises:
        ModelError: the archive is none, or has no such file any more.
    """
    if not (path.is_symlink() and os.readlink(path).endswith(ENDING) and not path.name.endswith(ENDING)):
        return None
    members = read_members(descriptor, path)
    if path.name not in members:
        raise _unfit(path, f"no {path.name}")
    return Window(descriptor, members[path.name].start, members[path.name].size)


def unpacked(archive: Path) -> Path:
    """Return a folder, kept until the process ends, with the files of an archive: small ones copied, tensors linked.

    Raises:
        ModelError: it is not an archive that `write_archive` made, or a file in it is damaged.
    """
    import atexit
    import shutil
    import tempfile

    given, archive = archive, Path(os.path.abspath(archive))
    try:
        descriptor = os.open(archive, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ModelError("cannot read the file", file=given, found=error.strerror or error) from error
    parent = tempfile.mkdtemp(prefix="dragoman-")
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    folder = Path(parent) / archive.name  # which is what messages name
    try:
        members = read_members(descriptor, given)
        folder.mkdir()
        for name, member in members.items():
            if name.endswith(".safetensors"):
                os.symlink(archive, folder / name)
                continue
            if member.size > MOST_SMALL:
                raise _unfit(given, f"{name!r} of {member.size} bytes")
            data = os.pread(descriptor, member.size, member.start)
            if zlib.crc32(data) != member.crc:
                raise ModelError("damaged: wrong content", file=given, found=name)
            (folder / name).write_bytes(data)
    finally:
        os.close(descriptor)
    return folder


def as_directory(path: Path) -> Path:
    """Return a directory as it is, and of an archive the folder where it is unpacked.

    Raises:
        ModelError: a file is given that is no packed model.
    """
    return unpacked(path) if path.is_file() else path


def write_archive(out: Path, files: Mapping[str, Path]) -> None:
    """Write an archive, in which each file begins at a multiple of 4,096 bytes.

    Args:
        out: a new file.
        files: by the names that they get; at most 32, and 4 GiB together.

    Raises:
        ModelError: they are too many or too large.
    """
    total = sum(path.stat().st_size for path in files.values())
    if len(files) > MOST_FILES or total + len(files) * 2 * PAGE > _LARGEST:
        expected = f"{MOST_FILES} files and 4 GiB at most"
        raise ModelError("the model does not fit one file", expected=expected, found=f"{len(files)}, {total} bytes")
    entries = []
    with out.open("xb") as stream:
        for name, path in files.items():
            offset, size, crc = stream.tell(), path.stat().st_size, 0
            bare = offset + _LOCAL.size + len(name)
            padding = -bare % PAGE
            stream.write(bytes(_LOCAL.size + len(name) + padding))
            with path.open("rb") as source:
                while piece := source.read(_PIECE):
                    crc = zlib.crc32(piece, crc)
                    stream.write(piece)
            stream.seek(offset)
            common = (_VERSION, 0, 0, 0, _DAY, crc, size, size, len(name))
            stream.write(_LOCAL.pack(b"PK\3\4", *common, padding) + name.encode())
            stream.seek(0, os.SEEK_END)
            entries.append(_ENTRY.pack(b"PK\1\2", 3 << 8 | _VERSION, *common, 0, 0, 0, 0, 0o100644 << 16, offset)
                           + name.encode())  # fmt: skip
        start = stream.tell()
        stream.write(b"".join(entries))
        stream.write(_END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), stream.tell() - start, start, 0))
        stream.flush()
        os.fsync(stream.fileno())
