"""The processes of one training: what they share, alone and together."""

from __future__ import annotations

import sys

from dragoman.distributed import ALONE, join_world, launching, was_restarted, world_size
from forked import in_ranks


def test_one_process_alone_has_nothing_to_wait_for():
    assert join_world("cpu", 1.0) is ALONE
    assert ALONE.share(3) == 3
    assert ALONE.total([1.5]) == [1.5]
    assert ALONE.split([1, 2, 3], lambda part: [one * one for one in part]) == [1, 4, 9]


def test_work_is_split_and_comes_back_in_order(tmp_path):
    def work() -> None:
        world = join_world("cpu", 30.0)
        for count in range(8):
            found = world.split(list(range(count)), lambda part: [(one, world.rank) for one in part])
            assert found == [(one, one % 3) for one in range(count)]
        assert world.total([1.0, float(world.rank)]) == [3.0, 3.0]
        assert world.share(world.rank) == 0
        world.close()

    assert in_ranks(3, work) == [0, 0, 0]


def test_torchrun_is_recognised_by_what_it_sets(monkeypatch):
    assert (world_size(), was_restarted()) == (1, False)
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "2"}.items():
        monkeypatch.setenv(name, value)
    assert (world_size(), was_restarted()) == (4, True)


def test_several_devices_become_torchrun(monkeypatch):
    calls: list[list[str]] = []
    monkeypatch.setattr(launching.os, "execv", lambda program, command: calls.append(command))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launching.launch(1, 3, ["train"])
    launching.launch(2, 3, ["train", "--devices", "2"])
    launcher = ["dragoman.distributed.torchrun", "--standalone", "--nproc-per-node=2", "--max-restarts=3"]
    assert calls == [[sys.executable, "-m", *launcher, "-m", "dragoman", "train", "--devices", "2"]]
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    launching.launch(2, 3, ["train", "--devices", "2"])
    assert len(calls) == 1, "a process of torchrun starts no other"
