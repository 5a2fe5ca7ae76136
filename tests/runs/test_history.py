"""The history of a run: what its events say, whatever else stands in the file, and when an update was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.errors import ModelError
from dragoman.runs import read_history
from dragoman.runs.history import last_stamp


def event(name: str, step: int, **values: object) -> dict[str, object]:
    return {"event": name, "step": step, **values}


EVENTS = [
    event("train", 10, loss=3.0, seconds=60.0),
    event("validation", 15, of="step-00000015", loss=2.5, bleu=10.0),
    event("train", 20, loss=2.0, seconds=180.0),
    event("validation", 20, of="step-00000020", loss=2.0, bleu=12.0),
    event("validation", 25, of="step-00000025", loss=2.1, bleu=12.0),
    event("validation", 25, of="average", loss=1.0, bleu=99.0),
    event("timing", 25, validation_seconds=1.0),
]


def written(folder: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_an_event_is_told_when_it_was(tmp_path: Path) -> None:
    found = read_history(written(tmp_path, *EVENTS))
    assert [found.minutes_at(step) for step in (0, 5, 10, 15, 20, 25)] == [0, 0.5, 1, 2, 3, 3]
    assert (found.steps, found.seconds) == (25, 180)


def test_the_best_is_the_first_of_equals_and_an_average_is_no_point_of_a_curve(tmp_path: Path) -> None:
    found = read_history(written(tmp_path, *EVENTS))
    assert [one["step"] for one in found.validations] == [15, 20, 25]
    assert [found.best(metric)["step"] for metric in ("bleu", "loss")] == [20, 20]  # type: ignore[index]
    assert found.best("chrf") is None
    assert found.metric == "bleu"


def test_what_is_no_event_is_passed_over_and_the_last_word_counts(tmp_path: Path) -> None:
    noise = ["{", "[1]", "", '{"event": "train"}', '{"event": "train", "step": -1}', '{"event": 3, "step": 1}',
             '{"event": "train", "step": true}', '{"event": "train", "step": 1e3}', "[" * 5000, "\x00"]  # fmt: skip
    plain = read_history(written(tmp_path, *EVENTS))
    again = read_history(written(tmp_path, event("train", 20, loss=9.0, seconds=9.0), *noise, *EVENTS, '{"event": "tr'))
    assert again == plain
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\xfe\n" + (tmp_path / "metrics.jsonl").read_bytes())
    assert read_history(tmp_path) == plain


def test_where_no_run_is_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no run here"):
        read_history(tmp_path)


def test_the_last_stamp_of_a_log(tmp_path: Path) -> None:
    assert last_stamp(tmp_path) is None
    (tmp_path / "train.log").write_text("2026-01-02 03:04:05 begun\n" + "x" * 100 + "\n2026-01-02 03:04:06 on\nrest")
    assert last_stamp(tmp_path) == "2026-01-02 03:04:06"
