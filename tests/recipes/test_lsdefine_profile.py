"""The recipe of lsdefine's own architecture, on a toy corpus."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lsdefine_profile
import pytest
import torch
from test_recipe_run import RECIPE

from dragoman.profiles import lsdefine
from end_to_end import small


def test_it_trains_once_from_embeddings_as_long_as_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for number, part in enumerate(("train", "dev")):
        lines = small.sentences(120 if part == "train" else 15, number, 4)
        for side in "st":
            (tmp_path / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "toy.toml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.setattr(lsdefine_profile, "RECIPE", tmp_path / "toy.toml")
    monkeypatch.setenv("DATA", "")
    began: list[float] = []
    trainer = lsdefine_profile.Trainer

    def seen(model: lsdefine.KerasTransformer, *rest: object) -> object:
        for embedding in (model.source_embedding, model.target_embedding):
            began.append(float(embedding.tokens.weight.detach().abs().max()))
        return trainer(model, *rest)

    monkeypatch.setattr(lsdefine_profile, "Trainer", seen)
    arguments = ["lsdefine_profile.py", "--data", str(tmp_path), "--out", str(tmp_path / "run"), "--set", "dropout=0.2"]
    monkeypatch.setattr(sys, "argv", arguments)
    rows = []
    for _ in range(2):
        lsdefine_profile.main()
        rows.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert began == pytest.approx([0.05 * 16**0.5] * 4, rel=0.1)
    assert rows[0] == rows[1] == json.loads((tmp_path / "run/result.json").read_text(encoding="utf-8"))
    assert rows[0]["updates"] == 20
    assert 0 < rows[0]["token_accuracy"] < 100
    assert torch.get_num_threads() == 1
