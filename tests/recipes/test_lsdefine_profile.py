"""The recipe of lsdefine's own architecture, on a toy corpus."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lsdefine_profile
import pytest
import torch
from test_recipe_run import RECIPE

from dragoman.errors import ConfigError, LockedError
from dragoman.profiles import lsdefine
from dragoman.runs.lock import RunLock
from end_to_end import small

Measure = Callable[..., dict[str, Any]]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Measure:
    for number, part in enumerate(("train", "dev")):
        lines = small.sentences(120 if part == "train" else 15, number, 4)
        for side in "st":
            (tmp_path / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "toy.toml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.setattr(lsdefine_profile, "RECIPE", tmp_path / "toy.toml")
    monkeypatch.setenv("DATA", "")

    def call(*changes: str) -> dict[str, Any]:
        settings = [part for change in ("dropout=0.2", *changes) for part in ("--set", change)]
        arguments = ["lsdefine_profile.py", "--data", str(tmp_path), "--out", str(tmp_path / "run"), *settings]
        monkeypatch.setattr(sys, "argv", arguments)
        capsys.readouterr()
        lsdefine_profile.main()
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def test_it_trains_once_from_embeddings_as_long_as_positions(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    began: list[float] = []
    trainer = lsdefine_profile.Trainer

    def seen(model: lsdefine.KerasTransformer, *rest: object) -> object:
        for embedding in (model.source_embedding, model.target_embedding):
            began.append(float(embedding.tokens.weight.detach().abs().max()))
        return trainer(model, *rest)

    monkeypatch.setattr(lsdefine_profile, "Trainer", seen)
    rows = [measure(), measure()]
    assert began == pytest.approx([0.05 * 16**0.5] * 4, rel=0.1)
    assert rows[0] == rows[1] == json.loads((tmp_path / "run/result.json").read_text(encoding="utf-8"))
    assert rows[0]["updates"] == 20
    assert 0 < rows[0]["token_accuracy"] < 100
    assert torch.get_num_threads() == 1


def test_a_run_goes_on_with_its_own_settings_alone(measure: Measure, tmp_path: Path):
    row = measure("max_steps=4", "warmup_steps=1")
    stored = (tmp_path / "run/result.json").read_bytes()
    for change in ("training.seed=7", "learning_rate=5e-2", "max_steps=8"):
        with pytest.raises(ConfigError, match="other settings or data"):
            measure("max_steps=4", "warmup_steps=1", change)
    with RunLock(tmp_path / "run"), pytest.raises(LockedError):
        measure("max_steps=4", "warmup_steps=1")
    assert (tmp_path / "run/result.json").read_bytes() == stored
    assert measure("max_steps=4", "warmup_steps=1") == row


def test_time_enough_changes_nothing(measure: Measure):
    assert measure("max_minutes=5")["updates"] == 20


def test_a_limit_of_time_ends_it_sooner(measure: Measure):
    assert measure("max_minutes=1e-6", "max_steps=100000")["updates"] < 50_000
