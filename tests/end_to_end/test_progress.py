"""Verbs that work through many lines tell on standard error how far they are, and never among what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import pace
from end_to_end import small
from end_to_end.conftest import Command

TEXTS = small.sentences(6, seed=20)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of six lines, for verbs that are eager to tell."""
    monkeypatch.setattr(pace, "SECONDS", 0.0)
    path = tmp_path / "lines"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


def counted(err: str, total: str = " of 6, about (?:a second|\\d+ seconds) left") -> list[int]:
    """What each line of the progress says is done, but for what a verb says at its end."""
    found = [re.fullmatch(f"(?:lines:|pairs:|translated) (\\d+){total}", line) for line in err.split("\n")]
    return [int(one[1]) for one in found if one]


def test_verbs_tell_how_many_lines_are_done(
    dragoman: Command, model: Path, causal_model: Path, lines: Path, tmp_path: Path
) -> None:
    pairs = ("--source", lines, "--target", lines)
    for arguments in (
        ("translate", model, "--input", lines),
        ("synthesize", model, "--input", lines, "--output", tmp_path / "made.tsv"),
        ("complete", causal_model, "--input", lines),
        ("score", causal_model, "--text", lines),
        ("score", model, *pairs),
        ("evaluate", model, "--source", lines, "--reference", lines),
    ):
        found = dragoman(*arguments)
        assert (found.status, counted(found.err)) == (0, [1, 2, 3, 4, 5]), arguments


def test_of_a_stream_it_is_told_how_fast_it_is_read(dragoman: Command, model: Path, lines: Path) -> None:
    found = dragoman("translate", model, stdin=lines.read_bytes())
    assert counted(found.err, ", [\\d,.]+ a second") == [1, 2, 3, 4, 5]
    assert len(found.lines) == 6


def test_a_terminal_that_shows_the_outputs_is_left_alone(
    dragoman: Command, model: Path, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    told = dragoman("translate", model, "--input", lines).err
    assert all(line.startswith("warning: ") for line in told.splitlines())
    found = dragoman("translate", model, "--input", lines, "--output", tmp_path / "out")
    assert counted(found.err) == [1, 2, 3, 4, 5]


def test_whoever_stops_listening_to_the_progress_gets_the_outputs(model: Path, lines: Path, tmp_path: Path) -> None:
    script = "from dragoman import pace; pace.SECONDS = 0.0; from dragoman.cli import main; main()"
    arguments = ["translate", str(model), "--input", str(lines), "--output", str(tmp_path / "out")]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", script, *arguments], stderr=writing, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert len((tmp_path / "out").read_text(encoding="utf-8").split("\n")) == 7
