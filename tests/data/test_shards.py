"""Large corpora: shards, going on where a preparation was stopped, and the order of an epoch over very many pairs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import TrainConfig
from dragoman.data import Prepared, TokenStore, prepare, sharing
from dragoman.data import shards as room
from dragoman.data.large import unfinished
from dragoman.data.repetitions import Repetitions, is_marked
from dragoman.data.shards import ShardedStore, WindowPlan, open_store, plan_of
from dragoman.errors import ConfigError, DataError
from dragoman.training import train
from dragoman.workers import Cluster
from small_runs import assert_goes_on_bit_for_bit, small_config

SETTINGS = ("tokenizer.kind=bpe", "tokenizer.vocab_size=300")


def rows(store: TokenStore) -> list[tuple[list[int], list[int]]]:
    return [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))]


def config_of(folder: Path, *more: str, split: bool = False) -> TrainConfig:
    """Two hundred pairs, of which some are repeated and some empty; held-out ones are their own or split off."""
    first = not (folder / "source.txt").exists()
    config = small_config(folder, "run", *SETTINGS, *more)
    if first:
        for side in ("source", "target"):
            path = folder / f"{side}.txt"
            lines = path.read_text(encoding="utf-8").splitlines()
            path.write_text("\n".join([*lines, *lines[:30], "", *lines[5:9]]) + "\n", encoding="utf-8")
    empty = {"dev_source": (), "dev_target": ()} if split else {}
    return config.replace({"data": {**config.data.to_dict(unset=False), **empty}}) if split else config


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    "more", [(), ("data.drop_duplicates=true", "data.drop_overlap=true"), ("data.max_length_ratio=2",)]
)
def test_shards_hold_what_one_store_does(tmp_path: Path, split: bool, more: tuple[str, ...]) -> None:
    whole = prepare(config_of(tmp_path, *more, split=split), tmp_path / "whole")
    parts = prepare(config_of(tmp_path, "data.shard_pairs=50", *more, split=split), tmp_path / "parts")
    assert isinstance(parts.train, ShardedStore)
    assert not isinstance(whole.train, ShardedStore)
    for name in ("train", "dev"):
        assert rows(getattr(parts, name)) == rows(getattr(whole, name))
        assert parts.counts[name] == whole.counts[name]
    assert parts.dev_source == whole.dev_source
    assert parts.sizes == whole.sizes
    assert parts.key == whole.key
    assert parts.train.source_lengths.tolist() == whole.train.source_lengths.tolist()
    assert np.array_equal(parts.train.tokens("target"), whole.train.tokens("target"))


def stop_at(monkeypatch: pytest.MonkeyPatch, store: int) -> list[str]:
    """Have the work stopped where it begins this store, the held-out part being the first; return what is begun."""
    write, written = TokenStore.write, list[str]()

    def stopped(directory: Path, *given: object, **named: object) -> TokenStore:
        written.append(Path(directory).name)
        if len(written) == store:
            raise KeyboardInterrupt
        return write(directory, *given, **named)

    monkeypatch.setattr(TokenStore, "write", stopped)
    return written


def test_several_processes_write_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "BLOCK", 17)
    more = ("data.shard_pairs=100", "data.drop_duplicates=true", "data.drop_overlap=true", "data.max_length_ratio=2")
    config, told = config_of(tmp_path, *more, split=True), list[str]()
    one = prepare(config, tmp_path / "one")
    with monkeypatch.context() as patched:
        stop_at(patched, 3)
        with pytest.raises(KeyboardInterrupt):
            prepare(config, tmp_path / "two", workers=2)
    two = prepare(config, tmp_path / "two", workers=2)
    assert one.counts == two.counts
    assert one.sizes == two.sizes
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 12
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    prepare(small_config(tmp_path, "run", *SETTINGS), tmp_path / "small", workers=2, report=told.append)
    assert any("one process" in line for line in told)
    for wrong in (0, 10**9, Cluster(workers=(3, 2))):  # of a small corpus too
        with pytest.raises(ConfigError, match="so many workers"):
            prepare(small_config(tmp_path, "run", *SETTINGS), tmp_path / "none", workers=wrong)
    assert not (tmp_path / "none").exists()


def test_a_stopped_preparation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, "data.shard_pairs=50")
    whole = prepare(config, tmp_path / "whole")
    written = stop_at(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        prepare(config, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    (unfinished(tmp_path / "data") / "train" / ".tmp-00002-1").mkdir()  # of a process that was killed
    told = list[str]()
    data = prepare(config, tmp_path / "data", report=told.append)
    assert any("going on" in line for line in told)
    assert written[3:] == ["00002", "00002", "00003", "00004"]
    assert not unfinished(tmp_path / "data").exists()
    for path in (tmp_path / "whole").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "data" / path.relative_to(tmp_path / "whole")).read_bytes(), path
    assert {path.name for path in (tmp_path / "data").rglob("*")} == {
        path.name for path in (tmp_path / "whole").rglob("*")
    }
    assert len(data.train) == len(whole.train)


def test_a_preparation_that_was_stopped_at_its_end_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, "data.shard_pairs=50")
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules[prepare.__module__], "tell_unknown", lambda *_: sys.exit(1))
        with pytest.raises(SystemExit):
            prepare(config, tmp_path / "data")
    monkeypatch.setattr(sys.modules[prepare.__module__], "begin", None)
    data = prepare(config, tmp_path / "data")
    assert data.counts["train"].kept == len(data.train) == 234


def test_what_was_begun_of_other_files_is_not_used(tmp_path: Path) -> None:
    config = config_of(tmp_path, "data.shard_pairs=50")
    folder = unfinished(tmp_path / "data")
    folder.mkdir()
    (folder / "begun.json").write_text('{"key": "other"}')
    (folder / "rubbish").write_text("")
    prepare(config, tmp_path / "data")
    assert not list((tmp_path / "data").glob("rubbish"))


def test_a_damaged_shard_is_refused_when_it_is_read(tmp_path: Path) -> None:
    data = prepare(config_of(tmp_path, "data.shard_pairs=50"), tmp_path / "data")
    path = data.train.directory / "00002" / "target.tokens"
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    store = Prepared.open(tmp_path / "data").train
    store.target(0)
    with pytest.raises(DataError, match="changed") as caught:
        store.target(120)
    assert caught.value.file == str(path)
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match="cut short"):
        Prepared.open(tmp_path / "data")


def test_shards_of_another_store_and_unknown_descriptions_are_refused(tmp_path: Path) -> None:
    for name, pair in (("a", ([5], [6])), ("b", ([7], [8]))):
        TokenStore.write(tmp_path / name / "00000", [pair], vocabulary_size=10)
        room.finish(tmp_path / name)
    (tmp_path / "a" / "00000").rename(tmp_path / "old")
    (tmp_path / "b" / "00000").rename(tmp_path / "a" / "00000")
    with pytest.raises(DataError, match="another store"):
        open_store(tmp_path / "a")
    (tmp_path / "a" / "store.json").write_text('{"format": 3, "shards": []}')
    with pytest.raises(DataError, match="unknown format"):
        open_store(tmp_path / "a")


def test_training_on_shards_is_training_on_one_store(tmp_path: Path) -> None:
    for name, more in (("whole", ()), ("parts", ("data.shard_pairs=50",))):
        config = config_of(tmp_path, "training.max_steps=4", "validation.every=4", *more)
        train(config.replace({"out": str(tmp_path / name)}), quiet=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_a_run_over_windows_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MOST_AT_ONCE", 100), ("CHUNK", 20), ("CHUNKS", 3)):
        monkeypatch.setattr(room, name, value)
    settings = ("data.shard_pairs=50", "training.save_every=3", "training.max_steps=18")
    assert_goes_on_bit_for_bit(tmp_path, 9, *settings)


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Of 1,000 pairs, in chunks of 50, of which 4 make a window."""
    monkeypatch.setattr(room, "CHUNK", 50)
    monkeypatch.setattr(room, "CHUNKS", 4)
    random = np.random.default_rng(1)
    return random.integers(1, 30, 990), random.integers(1, 30, 990)


def test_windows_have_each_pair_once_within_the_budget(lengths: tuple[np.ndarray, np.ndarray]) -> None:
    plan = WindowPlan(*lengths, batch_tokens=120, seed=3, epoch=0, accumulate=2)
    updates = [plan[i] for i in range(len(plan))]
    batches = [batch for update in updates for batch in update]
    assert sorted(np.concatenate(batches).tolist()) == list(range(990))
    for batch in batches:
        longest = max((lengths[0][batch] + 1).max(), (lengths[1][batch] + 2).max())
        assert len(batch) * longest <= 120
    first = {int(row) // 50 for update in plan.window(0) for batch in update for row in batch}
    assert len(first) == 4
    with pytest.raises(IndexError):
        plan[len(plan)]


def test_a_plan_of_windows_is_a_function_of_its_arguments(lengths: tuple[np.ndarray, np.ndarray]) -> None:
    def plan(seed: int = 3, epoch: int = 1) -> WindowPlan:
        return WindowPlan(*lengths, batch_tokens=120, seed=seed, epoch=epoch)

    def said(one: WindowPlan, first: int = 0) -> list[list[list[int]]]:
        return [[batch.tolist() for batch in one[i]] for i in range(first, len(one))]

    assert said(plan()) == said(plan())
    assert said(plan(), 37) == said(plan())[37:]  # as a run that goes on sees it
    assert said(plan()) != said(plan(epoch=2))
    assert said(plan()) != said(plan(seed=4))


def test_windows_of_mixed_corpora_have_their_rows(lengths: tuple[np.ndarray, np.ndarray]) -> None:
    drawn = np.concatenate([np.arange(300), np.arange(300), np.arange(700, 900)])
    plan = WindowPlan(*lengths, batch_tokens=120, seed=3, epoch=0, rows=drawn)
    found = Counter(int(row) for i in range(len(plan)) for batch in plan[i] for row in batch)
    assert found == Counter(drawn.tolist())


def test_only_very_many_pairs_in_shards_have_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_AT_ONCE", 150)
    small = prepare(config_of(tmp_path), tmp_path / "whole").train
    large = prepare(config_of(tmp_path, "data.shard_pairs=50"), tmp_path / "parts").train
    kinds = [type(plan_of(store, batch_tokens=100, seed=1, epoch=0)) for store in (small, large)]
    assert kinds == [list, WindowPlan]
    with pytest.raises(ConfigError, match="not changed in memory"):
        large.with_rows({})


@pytest.mark.parametrize("count", [0, 1, 7, 3000])
def test_repetitions_are_those_of_a_set(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.data.repetitions._WAITING", 3)
    keys = np.random.default_rng(count).integers(0, 2 * count + 1, count).tolist()
    found, seen, expected = Repetitions(tmp_path / "keys"), set(), []
    for key in keys:
        found.add(key)
        expected.append(key in seen)
        seen.add(key)
    bits = found.found()
    assert [is_marked(bits, place) for place in range(count)] == expected
    assert not list((tmp_path / "keys").iterdir())
