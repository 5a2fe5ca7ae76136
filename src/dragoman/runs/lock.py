"""One training per run directory."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from dragoman.errors import DragomanError, LockedError, SaveError
from dragoman.files import make_directory


class RunLock:
    """Holds a run directory for this process: `with RunLock(directory): ...`.

    The directory must exist. The kernel keeps the lock (`flock` on `.lock`) and frees it when the process ends, however
    it ends. The file says who holds it, for the message only; it is emptied on release and never deleted, since another
    process may be about to lock it.

    Attributes:
        previous: who held it last, if that process died without releasing it; known once the lock is held.

    Raises:
        LockedError: on entering: another process, or another lock of this one, holds the directory.
        SaveError: on entering: the directory cannot be written to.
    """

    NAME = ".lock"

    def __init__(self, directory: Path) -> None:
        self.path = directory / self.NAME
        self.previous: str | None = None
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise SaveError("cannot write to the run directory", file=self.path.parent, found=error.strerror) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                hint = "wait for it or stop it, or give another --out; the lock of a dead process frees itself"
                raise LockedError(
                    "another process trains here", file=self.path.parent, found=holder, hint=hint
                ) from error
            hint = "this file system cannot lock files: put the run on a local disk"
            raise LockedError("cannot lock", file=self.path, found=error.strerror, hint=hint) from error
        self._descriptor = descriptor
        self.previous = _holder(descriptor)
        os.ftruncate(descriptor, 0)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        note = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # also for children that inherited it
            os.close(self._descriptor)
            self._descriptor = None


def _holder(descriptor: int) -> str | None:
    """What the lock file says of its holder, in words; None if it says nothing."""
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {note['pid']} on {note['host']}, since {note['started']}"
    except (ValueError, KeyError, TypeError):
        return None


def is_locked(directory: Path) -> bool:
    """Return whether a process trains into a directory just now."""
    try:
        descriptor = os.open(directory / RunLock.NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)  # and with it the lock
    return False


@contextmanager
def new_directory(directory: Path) -> Iterator[None]:
    """Make a run directory; if the run is refused before anything was written to it, it goes again."""
    there = directory.is_dir()
    make_directory(directory)
    try:
        yield
    except DragomanError:
        with suppress(OSError):
            if {one.name for one in directory.iterdir()} <= {RunLock.NAME} and not there:
                (directory / RunLock.NAME).unlink(missing_ok=True)
                directory.rmdir()
        raise
