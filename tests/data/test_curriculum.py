"""A curriculum: which corpora a stage has, where it begins, and a run that goes on within one or at its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import DataConfig, TrainConfig
from dragoman.data import shards
from dragoman.data.mixing import Mixing
from dragoman.errors import ConfigError
from dragoman.training import train
from dragoman.training.trainer import Trainer
from forked import in_ranks
from small_runs import assert_killed_is_whole, events, small_config, write_corpus

SIZES = (40, 120)
STAGES = ((0, (1.0, 0.0)), (7, (1.0, 3.0)), (22, ()))


def config_of(folder: Path, out: str, *settings: str, stages: object = STAGES) -> TrainConfig:
    """Two corpora of 40 and 120 pairs, and stages of their weights."""
    for name, pairs in zip("ab", SIZES, strict=True):
        if not (folder / name).exists():
            (folder / name).mkdir()
            write_corpus(folder / name, pairs, seed=pairs)
    made = small_config(folder / "a", out, "validation.every=36", "training.max_steps=36", *settings)
    files = {side: [str(folder / one / f"{side}.txt") for one in "ab"] for side in ("source", "target")}
    data = {**made.data.to_dict(unset=False), **files, "curriculum": stages}
    return made.replace({"data": data, "out": str(folder / out)})


@pytest.mark.parametrize("windows", [False, True])
def test_each_stage_has_its_shares_and_begins_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: bool
) -> None:
    if windows:
        for name, value in (("MOST_AT_ONCE", 100), ("CHUNK", 20), ("CHUNKS", 2)):
            monkeypatch.setattr(shards, name, value)
    learned, learn = list[tuple[int, int, np.ndarray]](), Trainer.learn

    def watched(self: Trainer, batches: list[np.ndarray]) -> None:
        learned.append((self.progress.epoch, self.progress.update, np.concatenate(batches)))
        learn(self, batches)

    monkeypatch.setattr(Trainer, "learn", watched)
    train(config_of(tmp_path, "run", *(("data.shard_pairs=50",) if windows else ())), quiet=True)
    assert len(learned) == 36
    assert [update for step, (_, update, _) in enumerate(learned) if step in (0, 7, 22)] == [0, 0, 0]
    assert [epoch for epoch, _, _ in learned] == sorted(epoch for epoch, _, _ in learned)
    assert all((rows < 40).all() for _, _, rows in learned[:7])
    whole = {
        epoch: np.concatenate([rows for one, _, rows in learned if one == epoch])
        for epoch in {epoch for epoch, _, _ in learned[7:]}
    }
    second, third = ({epoch for epoch, _, _ in part} for part in (learned[7:22], learned[22:]))
    assert not second & third
    # An epoch that the next stage, or the end, cuts has a part of these.
    whole = {epoch: rows for epoch, rows in whole.items() if epoch not in (max(second), max(third))}
    assert {epoch in second for epoch in whole} == {True, False}
    for epoch, rows in whole.items():
        counts = np.bincount(rows, minlength=160)
        if epoch in second:
            assert len(rows) == 160
            assert counts[:40].tolist() == [1] * 40
        else:
            assert counts.tolist() == [1] * 160
    told = (tmp_path / "run" / "train.log").read_text(encoding="utf-8")
    assert "after update 7 the training files have the weights 1, 3" in told
    assert "after update 22 each pair is seen once in an epoch" in told


@pytest.mark.arithmetic
@pytest.mark.parametrize(("killed_at", "shards_of"), [(7, 0), (10, 50)])
def test_a_run_goes_on_bit_for_bit_within_a_stage_and_where_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int, shards_of: int
) -> None:
    settings = [f"training.save_every={killed_at}", "training.max_steps=16", "validation.every=16"]
    if shards_of:
        settings.append(f"data.shard_pairs={shards_of}")
        for name, value in (("MOST_AT_ONCE", 100), ("CHUNK", 20), ("CHUNKS", 2)):
            monkeypatch.setattr(shards, name, value)
    assert_killed_is_whole(*(config_of(tmp_path, name, *settings) for name in ("whole", "broken")), killed_at)


@pytest.mark.arithmetic
def test_two_processes_are_in_one_stage(tmp_path: Path) -> None:
    short = ("training.adam_eps=1e-4", "training.max_steps=10", "validation.every=10", "training.batch_tokens=256")
    stages = ((0, (1, 0)), (4, (0, 1)))
    both = config_of(tmp_path, "both", *short, stages=stages)
    assert in_ranks(2, lambda: train(both, quiet=True)) == [0, 0]
    train(config_of(tmp_path, "alone", *short, "training.accumulate=2", stages=stages), quiet=True)
    for one, other in zip(events(tmp_path / "alone", "train"), events(tmp_path / "both", "train"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert (one["epoch"], one["target_tokens"]) == (other["epoch"], other["target_tokens"])


@pytest.mark.parametrize("epochs", [0.01, 0.5, 1.0, 2.5, 4.0, 9.0])
def test_epochs_are_counted_through_the_stages(epochs: float) -> None:
    """Each stage that ends early has as much of them as it has updates of one."""
    lengths = {(True, False): 10, (True, True): 30, None: 20}  # updates of an epoch, by the corpora in it
    mixing = Mixing(DataConfig(curriculum=STAGES), SIZES, 1)

    def count(rows: np.ndarray | None) -> int:
        return lengths[None if rows is None else (bool((rows < 40).any()), bool((rows >= 40).any()))]

    updates, counts = mixing.updates(epochs, count)
    assert counts == [10, 30, 20][: len(counts)]
    done, each = 0.0, {0: 10, 7: 30, 22: 20}
    for update in range(updates):
        assert done < epochs
        done += 1 / each[max(start for start in each if start <= update)]
    assert done >= epochs - 1e-9


def test_what_a_stage_has_follows_from_the_updates_before_an_epoch() -> None:
    mixing = Mixing(DataConfig(curriculum=STAGES), SIZES, 1)
    for begun, end in ((0, 7), (6, 7), (7, 22), (21, 22), (22, None), (1000, None)):
        assert mixing.end(begun) == end
    first, second, third = (mixing.rows(3, begun) for begun in (6, 7, 22))
    assert first is not None
    assert second is not None
    assert (first < 40).all()
    assert int((second < 40).sum()) == 40
    assert third is None
    # Any stretch has the shares, so that a window over very many pairs has them.
    for start in range(0, 160, 20):
        assert abs(int((second[start : start + 20] < 40).sum()) - 5) <= 1


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ([[5, [1, 1]]], "begins at update 5, not at 0"),
        ([[0, [1, 1]], [9, [1, 0]], [9, [0, 1]]], "update 9, after one that begins at 9"),
        ([[0, [0, 0]]], "all 0"),
        ([[0, [1, 1]], [5, [1, 1, 1]]], "3 weights at update 5 for 2 training files"),
        ([[0, [1, -1]]], r"data\.curriculum\.0\.1\.1: expected a number of at least 0"),
        ([[0.5, [1, 1]]], r"data\.curriculum\.0\.0: expected a whole number"),
        ([[0, 1]], r"data\.curriculum\.0\.1: expected a list"),
        ([0, [1, 1]], r"data\.curriculum\.0: expected \[update, "),
        ("slowly", r"expected a list of stages, each \[update, "),
    ],
)
def test_stages_that_cannot_be_are_refused(stages: Sequence[object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        DataConfig(source=["a", "b"], target=["c", "d"], curriculum=stages)


def test_stages_and_other_ways_to_say_it_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="weights and curriculum each say"):
        DataConfig(source=["a", "b"], target=["c", "d"], weights=(1, 1), curriculum=STAGES)
    with pytest.raises(ConfigError, match="different numbers of weights"):
        DataConfig(curriculum=[[0, [1, 1]], [5, [1]]])
    with pytest.raises(ConfigError, match="has no pairs"):
        Mixing(DataConfig(curriculum=STAGES), (40, 0), 1)
    with pytest.raises(ConfigError, match="2 for 3"):
        Mixing(DataConfig(curriculum=STAGES), (40, 1, 1), 1)


def test_stages_that_a_run_does_not_reach_are_warned_of() -> None:
    mixing = Mixing(DataConfig(curriculum=STAGES), SIZES, 1)
    assert "before the stages that begin at 7, 22" in str(mixing.doubt(7))
    assert "begin at 22" in str(mixing.doubt(20))
    assert mixing.doubt(26) is mixing.doubt(None) is None
