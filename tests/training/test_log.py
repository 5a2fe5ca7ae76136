"""The log of a run, where nobody listens."""

from __future__ import annotations

import io
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
