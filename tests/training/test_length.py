"""How long a run is: by time, by epochs, and made longer or shorter afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dragoman.config import read_toml
from dragoman.planning import TimePlan
from dragoman.runs.checkpoint import list_checkpoints
from dragoman.training import train
from dragoman.training import trainer as trainer_module
from small_runs import events, losses, small_config

pytestmark = pytest.mark.arithmetic
COSINE = ("schedule=cosine", "ema_decay=0.9")


def log_of(run) -> str:
    return (run.directory / "train.log").read_text(encoding="utf-8")


def rates(run) -> dict[int, float]:
    return {row["step"]: row["learning_rate"] for row in events(run.directory, "train")}


def test_minutes_become_updates_and_the_schedule_ends_there(tmp_path):
    began = time.monotonic()
    limits = ("max_minutes=4s", "max_steps=1000000", "validation.every=1000000", "length_penalties=[]")
    run = train(small_config(tmp_path, "run", *COSINE, *limits), quiet=True)
    assert time.monotonic() - began < 300, "not a million updates"
    assert run.progress.finished
    assert "time is up" in log_of(run)
    stored = read_toml(run.directory / "config.toml")["training"]
    assert stored["max_steps"] < 1_000_000
    assert stored["max_minutes"] == pytest.approx(4 / 60)
    again = train(small_config(tmp_path, "run", *COSINE, *limits), resume=True, quiet=True)
    assert again.progress.step == run.progress.step


def test_a_run_that_time_ended_early_stays_finished(tmp_path, monkeypatch):
    limits = ("max_minutes=10", "max_steps=40", "length_penalties=[]")
    with monkeypatch.context() as patched:
        patched.setattr(TimePlan, "is_up", lambda plan, seconds: seconds > 0.0)
        run = train(small_config(tmp_path, "run", *COSINE, *limits), quiet=True)
    assert run.progress.finished
    assert run.progress.step == 1
    again = train(small_config(tmp_path, "run", *COSINE, *limits), resume=True, quiet=True)
    assert again.progress.step == 1
    longer = train(small_config(tmp_path, "run", *COSINE, "max_steps=12", "max_minutes=20"), resume=True, quiet=True)
    assert longer.progress.step == 12


def test_patience_is_not_time(tmp_path):
    limits = ("max_minutes=60s", "max_steps=100000000", "learning_rate=1e-12", "validation.every=1", "patience=2")
    run = train(small_config(tmp_path, "run", *limits, "length_penalties=[]"), quiet=True)
    assert run.progress.finished
    assert "stopping early" in log_of(run)
    assert "time is up" not in log_of(run)


def test_time_to_spare_changes_nothing(tmp_path):
    timed = train(small_config(tmp_path, "timed", *COSINE, "max_minutes=60", "max_steps=12"), quiet=True)
    plain = train(small_config(tmp_path, "plain", *COSINE, "max_steps=12"), quiet=True)
    assert losses(timed.directory) == losses(plain.directory)


def test_going_on_with_nothing_is_told(tmp_path):
    run = train(small_config(tmp_path, "run", "max_steps=1", "length_penalties=[]"), resume=True, quiet=True)
    assert f"there is no run in {run.directory} to go on with: a new one begins" in log_of(run)
    train(small_config(tmp_path, "run", "max_steps=2", "length_penalties=[]"), resume=True, quiet=True)
    assert log_of(run).count("a new one begins") == 1


def test_epochs_become_updates(tmp_path):
    run = train(small_config(tmp_path, "run", "max_epochs=2", "max_steps=1000"), quiet=True)
    epochs = [row["epoch"] for row in events(run.directory, "train")]
    assert set(epochs) == {0, 1}
    assert epochs.count(0) == epochs.count(1)
    assert read_toml(run.directory / "config.toml")["training"]["max_steps"] == len(epochs)
    longer = train(small_config(tmp_path, "run", "max_epochs=3", "max_steps=1000"), resume=True, quiet=True)
    assert longer.progress.step == 3 * epochs.count(0)


def test_epochs_of_weighted_corpora_are_those_that_are_trained(tmp_path):
    files = {key: [str(tmp_path / f"{part}.{key}") for part in ("short", "long")] for key in ("source", "target")}
    for paths in files.values():
        for path, line, pairs in zip(paths, ("ba", "ce di fo gu ha ki lo mu"), (64, 16), strict=True):
            Path(path).write_text(f"{line}\n" * pairs, encoding="utf-8")
    made = small_config(tmp_path, "run", "max_epochs=2", "max_steps=1000", "length_penalties=[]")
    weighted = made.replace({"data": {**made.data.to_dict(), **files, "weights": [1, 9]}})
    run = train(weighted, quiet=True)
    epochs = [row["epoch"] for row in events(run.directory, "train")]
    assert set(epochs) == {0, 1}
    assert epochs.count(0) == epochs.count(1)
    assert len(epochs) == read_toml(run.directory / "config.toml")["training"]["max_steps"]


def test_a_finished_run_goes_on_along_the_curve_of_a_longer_one(tmp_path):
    short = train(small_config(tmp_path, "run", *COSINE, "max_steps=40"), quiet=True)
    ended = short.progress.step
    longer = train(small_config(tmp_path, "run", *COSINE, "max_steps=80"), resume=True, quiet=True)
    whole = train(small_config(tmp_path, "whole", *COSINE, "max_steps=80"), quiet=True)
    assert (ended, longer.progress.step) == (40, 80)
    after, planned = rates(longer), rates(whole)
    assert after[41] < after[42] < after[43], "it climbs"
    assert {step: rate for step, rate in after.items() if step > 44} == {
        step: rate for step, rate in planned.items() if step > 44
    }
    assert "40 updates were planned; training goes on to 80" in log_of(longer)


def test_a_run_may_end_sooner(tmp_path):
    train(small_config(tmp_path, "run", *COSINE, "max_steps=40"), quiet=True)
    shorter = train(small_config(tmp_path, "run", *COSINE, "max_steps=30"), resume=True, quiet=True)
    assert shorter.progress.step == 40
    assert shorter.progress.finished


def test_lines_and_the_first_checkpoint_come_by_time(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "SILENCE", 0.0)
    monkeypatch.setattr(trainer_module, "UNSAVED", 0.0)
    settings = ("log_every=1000", "every=1000", "max_steps=5")
    run = train(small_config(tmp_path, "run", *settings), quiet=True)
    assert [f"step {step}/5" in log_of(run) for step in range(1, 6)] == [True] * 5
    assert [row["step"] for row in events(run.directory, "train")] == [5]
    assert list_checkpoints(run.directory / "checkpoints")[0].name == "step-00000001"


def test_a_long_plan_is_told_with_a_cheaper_one(tmp_path, monkeypatch):
    for name, value in (("LONG", 0.0), ("FEW_SECONDS", 0.0), ("FEW_UPDATES", 2)):
        monkeypatch.setattr(trainer_module, name, value)
    run = train(small_config(tmp_path, "run", "max_steps=5"), quiet=True)
    assert log_of(run).count("at this speed") == 1
    assert "--time 30m" in log_of(run)
