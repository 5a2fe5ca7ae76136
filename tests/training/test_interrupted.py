"""Signals at every stage of a run, weights that are no numbers, and a disk that is full."""

from __future__ import annotations

import errno
import signal
import time
from pathlib import Path

import pytest
import torch

from dragoman.errors import DivergenceError, SaveError
from dragoman.models.tensors import read_tensors
from dragoman.training import run as running
from dragoman.training import train
from dragoman.training.judging import Judge
from dragoman.training.signals import StopError, StopSignals
from small_runs import small_config


def interrupt(number: int = signal.SIGTERM) -> None:
    signal.raise_signal(number)
    time.sleep(60)  # what would be lost if the signal waited for it


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_validation_ends_at_once_and_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    config = small_config(tmp_path, "run", "max_steps=4", "validation.every=2")
    with monkeypatch.context() as patched:
        patched.setattr(Judge, "measure", lambda self: interrupt(number))
        stopped = train(config)
    assert (stopped.exit_status, stopped.progress.step, stopped.progress.validated) == (status, 2, 0)
    assert capfd.readouterr().err.count(f"{signal.Signals(number).name}: stopping") == 1
    went_on = train(config, resume=True, quiet=True)
    assert (went_on.exit_status, went_on.progress.finished) == (0, True)
    whole = train(small_config(tmp_path, "whole", "max_steps=4", "validation.every=2"), quiet=True)
    ours, theirs = (read_tensors(one.directory / "model.safetensors") for one in (went_on, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("stage", ["_average", "_remember", "tune_search", "write_card"])
def test_the_end_of_a_run_can_be_stopped_and_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    config = small_config(tmp_path, "run", "max_steps=2", "average_last=2", "validation.every=2")
    with monkeypatch.context() as patched:
        if stage == "_remember":
            pytest.importorskip("faiss")
            config = small_config(tmp_path, "run", "max_steps=2", "datastore=true", "validation.every=2")
        place = running._Session if stage.startswith("_") else running
        patched.setattr(place, stage, lambda *_: interrupt())
        stopped = train(config, quiet=True)
    assert stopped.exit_status == 143
    assert not (stopped.directory / "README.md").exists()
    assert train(config, resume=True, quiet=True).exit_status == 0
    assert (stopped.directory / "README.md").exists()


def test_reading_data_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(tmp_path, "run", "max_steps=2")
    with monkeypatch.context() as patched:
        patched.setattr(running, "prepare", lambda *_, **__: interrupt(signal.SIGINT))
        assert train(config, quiet=True).exit_status == 130
    assert train(config, quiet=True).exit_status == 0


def test_a_signal_before_the_work_keeps_it_from_beginning() -> None:
    with StopSignals(quiet=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StopError), stop.interruptible():
            raise AssertionError


@pytest.mark.parametrize("settings", [("learning_rate=1e30",), ("learning_rate=1e38", "warmup_steps=0")])
@pytest.mark.parametrize("every", [1, 3, 50])
def test_divergence_is_told_as_such_and_never_saved(tmp_path: Path, settings: tuple[str, ...], every: int) -> None:
    config = small_config(tmp_path, "run", "max_steps=50", f"validation.every={every}", *settings)
    with pytest.raises(DivergenceError, match=r"lower training\.learning_rate"):
        train(config, quiet=True)
    assert (tmp_path / "run" / "diverged.txt").exists()
    for file in (tmp_path / "run").rglob("model.safetensors"):
        assert all(bool(tensor.isfinite().all()) for tensor in read_tensors(file).values())


def test_a_full_disk_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(directory: Path, model: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dragoman.training.learned.save_weights", full)
    with pytest.raises(SaveError, match="No space left on device") as caught:
        train(small_config(tmp_path, "run", "max_steps=2", "validation.every=2"), quiet=True)
    assert str(caught.value.file).endswith(("run", "model.safetensors"))
    assert "(best so far)" not in (tmp_path / "run" / "train.log").read_text()
