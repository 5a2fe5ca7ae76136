"""The demo of sounds to words, as small as can be: every step of it, but not what it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.demo import sound
from dragoman.demo.commands import load_commands
from dragoman.demo.sound import run_sound_demo
from dragoman.errors import ConfigError


def test_it_goes_through_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = replace(load_commands(), sizes={"train": 24, "dev": 4, "test": 6})
    monkeypatch.setattr(sound, "load_commands", lambda: grammar)
    told: list[str] = []
    demo = run_sound_demo(tmp_path / "run", updates=3, report=told.append)
    assert demo.exit_status == 0
    assert set(demo.scores) == {"test", "test_unseen"}
    for score in demo.scores.values():
        assert score.edits is not None
        assert score.low is not None
        assert score.lines == 6
    text = "\n".join(told)
    assert "Show me my files please" in text
    assert "insertions" in text
    again = run_sound_demo(tmp_path / "run", updates=3, report=told.append)
    assert again.scores == demo.scores


def test_what_is_no_demo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such voices"):
        run_sound_demo(tmp_path / "run", language="fr")
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(ConfigError, match="another run"):
        run_sound_demo(tmp_path)
