"""One training per run directory, across processes."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

import forked
from dragoman.errors import LockedError, SaveError
from dragoman.runs.lock import RunLock


def hold(directory: Path) -> int:
    """A child that holds the lock of a directory until it is killed; its process id, once it has the lock."""
    read, write = os.pipe()

    def work() -> None:
        with RunLock(directory):
            os.write(write, b"!")
            signal.pause()

    pid = forked.start(work)
    os.close(write)
    assert os.read(read, 1) == b"!"
    os.close(read)
    return pid


def test_a_second_process_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    pid = hold(tmp_path)
    try:
        with pytest.raises(LockedError) as caught, RunLock(tmp_path):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        forked.finish(pid)
    assert caught.value.exit_code == 5
    assert caught.value.file == str(tmp_path)
    assert f"process {pid} on {socket.gethostname()}, since 2" in str(caught.value)


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    pid = hold(tmp_path)
    os.kill(pid, signal.SIGKILL)
    assert forked.finish(pid) == -signal.SIGKILL
    with RunLock(tmp_path) as lock:
        assert lock.previous is not None
        assert lock.previous.startswith(f"process {pid} on")
    with RunLock(tmp_path) as lock:
        assert lock.previous is None


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    with lock, pytest.raises(LockedError, match=f"process {os.getpid()} "), RunLock(tmp_path):
        pass
    with RunLock(tmp_path):
        pass


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    go, done = os.pipe(), os.pipe()

    def work() -> None:
        os.close(go[1])
        os.close(done[1])
        os.read(go[0], 1)  # until the parent closes its end
        try:
            with RunLock(tmp_path):
                os.read(done[0], 1)
        except LockedError as error:
            os._exit(error.exit_code)

    pids = [forked.start(work) for _ in range(8)]
    os.close(go[1])
    statuses: dict[int, int] = {}
    while len(statuses) < 7:
        for pid in set(pids) - set(statuses):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                statuses[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    assert set(statuses.values()) == {5}
    os.close(done[1])
    (holder,) = set(pids) - set(statuses)
    assert forked.finish(holder) == 0
    for end in (go[0], done[0]):
        os.close(end)


def test_a_strange_lock_file_does_not_stop_anyone(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xfe", b"[1]", b"{}", b"x" * 10_000):
        (tmp_path / ".lock").write_bytes(content)
        with RunLock(tmp_path) as lock:
            assert lock.previous is None
        assert (tmp_path / ".lock").read_bytes() == b""


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="No such file"), RunLock(tmp_path / "missing"):
        pass
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SaveError), RunLock(tmp_path):
        pass
    assert (tmp_path / "elsewhere").read_text() == "untouched"


def test_a_file_system_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(LockedError, match="local disk"), RunLock(tmp_path):
        pass
