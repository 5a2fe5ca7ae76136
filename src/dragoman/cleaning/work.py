"""What a cleaning leaves beside its output while it works, so that the same call goes on where it was stopped."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dragoman.errors import DataError, DragomanError
from dragoman.files import encode_json, make_directory, read_json, remove_temporaries, write_bytes, write_json
from dragoman.remote import local_file
from dragoman.text.opening import is_stream

PLAN, LOCK = "work.json", ".lock"
LAYOUT = 1  # of the blocks; they are no format: another layout starts anew


class Blocks:
    """Arrays of blocks of a corpus, numbered from 0, each complete or absent.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __len__(self) -> int:
        """Return how many there are, without a gap."""
        return next(number for number in count() if not self._path(number).exists())

    def each(self, name: str | None = None) -> Iterator[Any]:
        """Yield one array of each block, or all of them by name.

        Raises:
            DataError: a block is damaged.
        """
        for number in range(len(self)):
            try:
                with np.load(self._path(number), allow_pickle=False) as arrays:
                    found = dict(arrays) if name is None else arrays[name]
            except (ValueError, KeyError, EOFError, BadZipFile) as error:
                hint = "remove its folder: all is then done anew"
                raise DataError("what was kept to go on with is damaged", file=self._path(number), found=error,
                                hint=hint) from error  # fmt: skip
            yield found

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a block, whole or not at all."""
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, **arrays)
        write_bytes(self._path(number), data.getvalue())

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.npz"


class Work:
    """The folder of a cleaning that is not finished; made by `begun`.

    Attributes:
        folder: where it lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def blocks(self, name: str) -> Blocks:
        """Return the blocks of one reading."""
        (self.folder / name).mkdir(exist_ok=True)
        remove_temporaries(self.folder / name)
        return Blocks(self.folder / name)

    def scratch(self, name: str) -> Path:
        """Return a folder that is not there: what an earlier process left in it cannot be used."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    @property
    def _is_idle(self) -> bool:
        return not any(self.folder.glob("*/*.npz"))


@contextmanager
def begun(folder: Path, plan: Mapping[str, Any], report: Callable[[str], None]) -> Iterator[Work]:
    """Open the folder of a cleaning; what is there of the same plan is used, of another one it is deleted.

    Args:
        folder: beside the output.
        plan: all that the output depends on.
        report: takes a line of plain text.

    Raises:
        DataError: another process works there.
    """
    make_directory(folder)
    with _locked(folder):
        if not _is_of(folder, plan):
            if not Work(folder)._is_idle:
                report("cleaning: what was begun with other files or other settings is deleted, and all is done anew")
            for entry in folder.iterdir():
                if entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            write_json(folder / PLAN, plan)
        elif not Work(folder)._is_idle:
            report("cleaning: going on where it was stopped")
        work = Work(folder)
        try:
            yield work
        except BaseException:
            if work._is_idle:  # nothing to go on with
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _is_of(folder: Path, plan: Mapping[str, Any]) -> bool:
    with suppress(DragomanError):
        return encode_json(read_json(folder / PLAN)) == encode_json(plan)
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "wait for it or stop it, or give another --out"
            raise DataError("another process is cleaning into this directory", file=folder, hint=hint) from error
        except OSError:
            pass  # a file system that knows no locks
        yield
    finally:
        os.close(descriptor)


def facts_of(files: Sequence[str]) -> list[Any]:
    """Return what tells files from others: name, size and time of each; of a stream something that never comes again.

    Raises:
        DataError: one is not there.
    """
    try:
        told = [os.stat(local_file(path)) if not is_stream(path) else None for path in files]
    except OSError as error:
        raise DataError("cannot read the file", file=error.filename, found=error.strerror) from error
    return [
        [os.path.abspath(path), one.st_size, one.st_mtime_ns] if one is not None else uuid.uuid4().hex
        for path, one in zip(files, told, strict=True)
    ]
