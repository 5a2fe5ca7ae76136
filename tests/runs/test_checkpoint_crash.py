"""A save that dies, or that the disk refuses, at each of its file-system operations."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import shutil
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import forked
from dragoman import files
from dragoman.errors import SaveError
from dragoman.runs.checkpoint import (
    clean_temporaries,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    prune,
    save_checkpoint,
    verify_checkpoint,
)

OPERATIONS = ["open", "write", "fsync", "close", "mkdir", "rename", "replace", "unlink", "rmdir"]
OPERATIONS += ["scandir", "listdir", "stat", "lstat", "fstat"]
REALLY = {name: getattr(os, name) for name in OPERATIONS}


def mode_of(path: str | Path) -> int:
    """What kind of thing is there, without the stand-in noticing; 0 if nothing."""
    try:
        return REALLY["lstat"](path).st_mode
    except OSError:
        return 0


class Died(BaseException):
    """The power is gone: nothing the code does from here on reaches the disk."""


class Disk:
    """Stands between the code and the operating system, and strikes at operation number `at`.

    It also knows what a power cut would take: bytes and names that were not flushed, renames whose directory was not.
    """

    def __init__(self, at: int = 0, strike: Callable[[Disk, str, tuple[Any, ...]], None] | None = None) -> None:
        self.at, self.strike = at, strike
        self.dead = False
        self.log: list[str] = []
        self.opened: dict[int, str] = {}
        self.unflushed: set[str] = set()
        self.created: list[str] = []
        self.renamed: list[tuple[str, str, bytes | None]] = []

    def __enter__(self) -> Disk:
        self.thread = threading.get_ident()
        for name in OPERATIONS:
            setattr(os, name, self._stand_in(name))
        return self

    def __exit__(self, *error: object) -> None:
        for name, function in REALLY.items():
            setattr(os, name, function)

    def _stand_in(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if threading.get_ident() != self.thread:
                return REALLY[name](*args, **options)
            if self.dead and name == "close":  # of what is open anyway, or was closed when death came
                with suppress(OSError):
                    REALLY[name](*args)
                return None
            self.log.append(name)
            if self.dead:
                raise Died
            if self.strike and len(self.log) == self.at:
                self.strike(self, name, args)
            existed = name == "open" and mode_of(args[0]) != 0
            if name in ("rename", "replace"):
                self._move(str(args[0]), str(args[1]))
            result = None if name == "fsync" else REALLY[name](*args, **options)  # nobody pulls the plug: no waiting
            self._note(name, args, result, existed)
            return result

        return call

    def _note(self, name: str, args: tuple[Any, ...], result: Any, existed: bool) -> None:
        path = str(args[0])
        if name == "open":
            self.opened[result] = path
            if not existed:
                self.created.append(path)
        elif name == "mkdir":
            self.created.append(path)
        elif name == "write":
            self.unflushed.add(self.opened[args[0]])
        elif name == "fsync":
            self._flushed(self.opened[args[0]])

    def _flushed(self, path: str) -> None:
        self.unflushed.discard(path)
        self.created = [name for name in self.created if os.path.dirname(name) != path]
        self.renamed = [move for move in self.renamed if os.path.dirname(move[1]) != path]

    def _move(self, source: str, target: str) -> None:
        def follow(name: str) -> str:
            return target + name.removeprefix(source) if name == source or name.startswith(source + "/") else name

        self.unflushed = {follow(name) for name in self.unflushed}
        self.created = [follow(name) for name in self.created]
        replaced = Path(target).read_bytes() if stat.S_ISREG(mode_of(target)) else None
        self.renamed.append((source, target, replaced))


def die(disk: Disk, name: str, args: tuple[Any, ...]) -> None:
    """kill -9, in the middle of a write if it is one."""
    if name == "write":
        REALLY["write"](args[0], bytes(args[1])[: len(args[1]) // 2])
    os._exit(forked.DIED)


def cut_power(disk: Disk, name: str, args: tuple[Any, ...]) -> None:
    disk.dead = True
    if name == "close":
        REALLY["close"](*args)
    raise Died


def lose_bytes(disk: Disk) -> None:
    """What was written and not flushed is gone, though the names are there."""
    for path in disk.unflushed:
        if os.path.exists(path):
            os.truncate(path, 0)


def lose_names(disk: Disk) -> None:
    """New names and renames are gone where the directory was not flushed, though deletions are not."""
    for path in reversed(disk.created):
        if os.path.lexists(path):
            files.remove(Path(path))
    for source, target, replaced in reversed(disk.renamed):
        if os.path.lexists(target) and not os.path.lexists(source):
            os.rename(target, source)
        if replaced is not None:
            Path(target).write_bytes(replaced)


def dies(work: Callable[[], object], at: int, loss: Callable[[Disk], None] | None) -> bool:
    """Do `work` and die at operation `at`, by a kill or, if `loss` is given, a power cut; False: it ended before."""
    if loss is None:

        def in_child() -> None:
            with Disk(at, die):
                work()

        status = forked.run(in_child)
        assert status in (0, forked.DIED)
        return status != 0
    disk = Disk(at, cut_power)
    with suppress(Died), disk:
        work()
    loss(disk)  # what was done in full must stand it too
    return disk.dead


LOSSES = [None, lose_bytes, lose_names]


def save(directory: Path, step: int, content: int) -> Path:
    tensors = {"model": {"weight": torch.full((4, 5), float(content))}, "optimizer": {"m": torch.ones(3) * content}}
    return save_checkpoint(directory, step, tensors, {"epoch": content}, "settings")


def newest(directory: Path) -> tuple[int, int] | None:
    """(step, content) of the newest checkpoint, None if there is none; an exception if it does not load."""
    path = newest_checkpoint(directory)
    if path is None:
        return None
    checkpoint = load_checkpoint(path)
    content = checkpoint.values["epoch"]
    assert checkpoint.tensors["model"]["weight"].eq(content).all()
    assert checkpoint.tensors["optimizer"]["m"].eq(content).all()
    return checkpoint.step, content


def save_and_prune(directory: Path) -> None:
    save(directory, 30, 3)
    prune(directory, keep=1)


# name: what is there before, what is done, the newest (step, content) before and after
SCENES: dict[str, tuple[list[tuple[int, int]], Callable[[Path], object], Any, Any]] = {
    "first": ([], lambda there: save(there, 10, 1), None, (10, 1)),
    "next": ([(10, 1)], lambda there: save(there, 20, 2), (10, 1), (20, 2)),
    "same step": ([(10, 1)], lambda there: save(there, 10, 5), (10, 1), (10, 5)),
    "prune": ([(10, 1), (20, 2)], save_and_prune, (20, 2), (30, 3)),
}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)  # macOS: flush by the call that the stand-in watches


def crash_everywhere(scene: str, tmp_path: Path, loss: Callable[[Disk], None] | None) -> tuple[int, list[str]]:
    """Play a scene once for each operation, dying there: the number of operations, and what went wrong after."""
    before, work, old, new = SCENES[scene]
    original, there = tmp_path / "original", tmp_path / "checkpoints"
    original.mkdir()
    for step, content in before:
        save(original, step, content)
    failures = []
    for at in itertools.count(1):
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(original, there)
        died = dies(lambda: work(there), at, loss)
        try:
            found = newest(there)
            assert found in ((old, new) if died else (new,))
            for path in list_checkpoints(there):
                verify_checkpoint(path)
            clean_temporaries(there)
            assert newest(there) in (found, new)
            assert {path.name for path in there.iterdir()} == {path.name for path in list_checkpoints(there)}
            work(there)
            assert newest(there) == new
        except Exception as error:
            failures.append(f"operation {at}: {type(error).__name__}: {error}")
        if not died:
            return at - 1, failures
    raise AssertionError


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scene", SCENES)
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_checkpoint(
    scene: str, loss: Callable[[Disk], None] | None, tmp_path: Path
) -> None:
    operations, failures = crash_everywhere(scene, tmp_path, loss)
    assert operations > 25
    assert not failures


def test_without_flushing_the_power_cut_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_flush", lambda descriptor: None)
    _, failures = crash_everywhere("prune", tmp_path, lose_bytes)
    assert failures


def test_the_stand_in_sees_every_operation(tmp_path: Path) -> None:
    save(tmp_path, 10, 1)
    seen: Counter[str] = Counter()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") or (
            event == "open" and type(args[0]) is not int
        ):
            seen[event] += 1

    def work() -> None:
        save(tmp_path, 10, 2)
        sys.addaudithook(audit)  # for good, which is why this is a child
        seen.clear()
        with Disk() as disk:
            save(tmp_path, 10, 3)
        events = {"open": "open", "mkdir": "os.mkdir", "rename": "os.rename", "replace": "os.rename"}
        events |= {"unlink": "os.remove", "rmdir": "os.rmdir"}
        assert sum(seen.values()) > 15
        assert seen == Counter(events[name] for name in disk.log if name in events)

    assert forked.run(work) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("scene", ["next", "same step"])
def test_a_refusal_at_any_operation_is_an_error_and_harms_nothing(
    scene: str, lasting: bool, code: int, tmp_path: Path
) -> None:
    before, work, old, new = SCENES[scene]

    def refuse(disk: Disk, name: str, args: tuple[Any, ...]) -> None:
        if lasting:
            disk.at += 1
        if name == "close":
            REALLY["close"](*args)
        raise OSError(code, os.strerror(code))

    for at in itertools.count(1):
        there = tmp_path / str(at)
        for step, content in before:
            save(there, step, content)
        disk, failure = Disk(at, refuse), None
        try:
            with disk:
                work(there)
        except SaveError as error:
            failure = error
        if failure:
            assert failure.file == str(there / f"step-{new[0]:08d}")
            assert newest(there) in (old, new)
        else:  # done before operation `at`, or in spite of its refusal
            assert newest(there) == new
            if len(disk.log) < at:
                return
            assert disk.log[at - 1] == "lstat"
        save(there, 40, 4)
        assert {path.name for path in there.iterdir()} == {path.name for path in list_checkpoints(there)}
        assert newest(there) == (40, 4)
        assert load_checkpoint(there / "step-00000010").values["epoch"] in (1, new[1])
        shutil.rmtree(there)


def test_a_full_disk_is_survived_without_a_restart(tmp_path: Path) -> None:
    save(tmp_path, 10, 1)

    def work() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
        with pytest.raises(SaveError, match=os.strerror(errno.EFBIG)):
            save(tmp_path, 20, 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        assert newest(tmp_path) == (10, 1)
        assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]
        save(tmp_path, 20, 2)

    assert forked.run(work) == 0
    assert newest(tmp_path) == (20, 2)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_single_file_is_the_old_or_the_new_one_after_a_crash(
    loss: Callable[[Disk], None] | None, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    for at in itertools.count(1):
        path.write_bytes(b"old")
        died = dies(lambda: files.write_bytes(path, b"the new one"), at, loss)
        assert path.read_bytes() in (b"old", b"the new one")
        files.remove_temporaries(tmp_path)
        assert list(tmp_path.iterdir()) == [path]
        if not died:
            break
    assert at > 5
    assert path.read_bytes() == b"the new one"
