"""The model card: what it shows can be typed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from dragoman.training import train
from dragoman.training.card import typed_command
from training.runs import small_config

NAME = "模型 it's"


def test_a_command_is_shown_as_a_shell_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["train", "--out", f"runs/{NAME}", "--set", "kind=word"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dragoman", *typed])
    assert shlex.split(typed_command()) == ["dragoman", *typed]
    monkeypatch.setattr(sys, "argv", ["/site/dragoman/__main__.py", *typed])
    assert shlex.split(typed_command()) == ["dragoman", *typed]
    monkeypatch.setattr(sys, "argv", ["script.py", "--secret"])
    assert typed_command() == "dragoman.train(...)"


def test_what_the_card_tells_to_do_can_be_done(tmp_path: Path) -> None:
    run = train(small_config(tmp_path, NAME, "max_steps=2"), quiet=True)
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    (command,) = [line for line in card.split("\n") if "dragoman translate" in line]
    assert shlex.split(command)[-1] == NAME
    (call,) = [line for line in card.split("\n") if "from_pretrained" in line]
    assert compile(call, "card", "eval").co_consts[0] == NAME


def test_the_card_tells_how_many_outputs_were_scored(tmp_path: Path) -> None:
    for most, told in ((3, True), (1000, False)):
        run = train(
            small_config(tmp_path, f"scored-{most}", "max_steps=2", f"validation.max_sentences={most}"), quiet=True
        )
        card = (run.directory / "README.md").read_text(encoding="utf-8")
        assert ("Outputs were scored for the first 3;" in card) == told
