"""Curves are drawn of any run there may be, or it is said why not; a training never ends for its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import DragomanError, ModelError
from dragoman.runs import curves, plot
from runs.test_history import EVENTS, event, written

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_is_written_and_the_same_again(suffix: str, tmp_path: Path) -> None:
    run = written(tmp_path, *EVENTS)
    first, again = (plot(run, tmp_path / f"{name}.{suffix}").path.read_bytes() for name in "ab")
    assert first == again
    assert len(first) > 5000


def test_several_runs_of_strange_names_are_told_apart(tmp_path: Path) -> None:
    runs = []
    for place in ("a/同名", "b/同名", "b/$x_{2}$ & <i>"):
        (tmp_path / place).mkdir(parents=True)
        runs.append(written(tmp_path / place, *EVENTS))
    picture = plot(runs, tmp_path / "c.svg").path.read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert curves._names(runs[:2]) == ["a/同名", "b/同名"]


@pytest.mark.parametrize(
    "events",
    [
        [event("train", 1, loss=float("nan"), updates=499)],
        [event("train", 1)],
        [event("validation", step, loss=1.0) for step in (1, 2)],
        [event("validation", step, loss=0.0, bleu=0.0) for step in (0, 1)],
        [event("train", step, loss=1e9, seconds=1e6 * step, learning_rate=0.0) for step in (1, 2)],
    ],
    ids=["no number", "no loss", "validations alone", "zeros", "large"],
)
def test_odd_runs_are_drawn(events: list[dict[str, object]], tmp_path: Path) -> None:
    assert plot(written(tmp_path, *events)).path == tmp_path / "curves.png"


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no curves"):
        plot(written(tmp_path, event("validation", 1, loss=1.0)))
    with pytest.raises(DragomanError, match="no such picture format"):
        plot(written(tmp_path, *EVENTS), tmp_path / "c.gif")
    with pytest.raises(ModelError, match="so many runs"):
        plot([tmp_path] * 8)


def test_no_picture_is_missed_and_no_failure_ends_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves.draw_if_possible(written(tmp_path, *EVENTS), updates=499)
    assert not (tmp_path / "curves.png").exists(), "a short run is not made longer"
    curves.draw_if_possible(tmp_path, updates=500)
    assert (tmp_path / "curves.png").exists()
    monkeypatch.setattr(curves, "draw", lambda *_: 1 / 0)
    curves.draw_if_possible(tmp_path, updates=500)
