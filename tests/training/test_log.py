"""The log of a run, where nobody listens."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from dragoman.training.log import RunLog


class Broken(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_who_goes_away_stops_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Broken())
    with RunLog(tmp_path) as log:
        log.line("one")
        log.line("two")
        log.event("train", 1, {"loss": 2.0})
    text = (tmp_path / "train.log").read_text(encoding="utf-8")
    assert [line.split(" ", 2)[2] for line in text.split("\n")[:-1]] == ["one", "two"]
    assert '"loss": 2.0' in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        log.event("train", 1, {"gradient_norm": float("inf"), "loss": float("nan")})
    row = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert row == {"event": "train", "step": 1, "gradient_norm": None, "loss": None}
