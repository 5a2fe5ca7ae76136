"""The demo of sounds to words, as small as can be: every step of it, but not what it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.demo import run_demo, sound
from dragoman.demo.commands import CommandGrammar, load_commands
from dragoman.demo.sound import run_sound_demo, sound_config
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
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.txt").write_text("of the other demo")
    for another in (run_sound_demo, run_demo):
        with pytest.raises(ConfigError, match="another run"):
            another(tmp_path)
    assert [one.name for one in (tmp_path / "corpus").iterdir()] == ["train.txt"]


@pytest.mark.parametrize(("time", "sentences"), [("2m", 3200), ("30m", 9000), (10.7, 3210), ("2h", 12_000)])
def test_the_longer_it_trains_the_more_is_spoken(
    time: str | float, sentences: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(grammar: CommandGrammar, language: str) -> None:
        raise InterruptedError(grammar.sizes["train"])

    monkeypatch.setattr(sound, "draw_commands", draw)
    with pytest.raises(InterruptedError, match=f"^{sentences}$"):
        run_sound_demo(tmp_path, time=time)


def test_time_takes_the_place_of_updates(tmp_path: Path) -> None:
    config = sound_config(tmp_path, tmp_path / "corpus", time="1h30m")
    assert (config.training.max_minutes, config.training.max_steps) == (90, None)
    assert config.audio.perturb == "speed"
    with pytest.raises(ConfigError, match="a time such as"):
        run_sound_demo(tmp_path, time="soon")
    assert not list(tmp_path.iterdir())


def test_time_is_of_sounds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["dragoman", "demo", "--time", "5m"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "only with --sound" in capsys.readouterr().err
