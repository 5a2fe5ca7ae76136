"""The model card: what it shows can be typed."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import DecodingConfig
from dragoman.studies import tune
from dragoman.training import train
from dragoman.training.card import retell_search, typed_command
from end_to_end import small
from small_runs import small_config

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


@pytest.mark.parametrize("searched", [True, False], ids=["told before", "told of none"])
def test_a_search_that_is_found_later_is_told(tmp_path: Path, searched: bool) -> None:
    tried = f"validation.length_penalties={'[0, 1]' if searched else '[]'}"
    run = train(small_config(tmp_path, "run", "max_steps=2", "decoding.beam_size=2", tried), quiet=True)
    path, lines = run.directory / "README.md", tmp_path / "lines"
    before = path.read_text(encoding="utf-8")
    assert before.count("`translate` searches with a beam of 2 and a length penalty of") == searched
    lines.write_text("a b\nb a\n", encoding="utf-8")
    for weight in (None, 0.5):  # the second takes the place of the first
        found = tune(
            run.directory, lines, lines, beam_sizes=(3,), length_penalties=(1.5,), formulas=("power",), samples=9,
            decoding=DecodingConfig(right_to_left_weight=0.0),
        )  # fmt: skip
        trial = replace(found.trials[1], decoding=found.trials[1].decoding.replace({"knn_weight": weight}))
        retell_search(run.directory, trial)
    card = path.read_text(encoding="utf-8")
    told = (
        "`translate` searches with a beam of 3 and a length penalty of 1.5 (`power`) and a weight of 0.5 of its "
        "datastore and a weight of 0 of the right-to-left direction (found by `tune`):\n"
        f"{trial.score.label} {trial.score.value:.2f} "
    )
    assert told in card
    assert (card.count("searches with"), card.count("The held-out")) == (1, 1)
    kept = [part for part in before.split("\n\n") if "searches with" not in part]
    assert all(part in card for part in kept), "nothing else has changed"


def test_a_card_that_tells_no_scores_is_left_alone(tmp_path: Path) -> None:
    small.saved(tmp_path / "model", small.word_pair())
    (tmp_path / "lines").write_text("a b\n", encoding="utf-8")
    found = tune(tmp_path / "model", tmp_path / "lines", tmp_path / "lines", beam_sizes=(1,), samples=9)
    retell_search(tmp_path / "model", found.best)
    assert not (tmp_path / "model" / "README.md").exists()
    (tmp_path / "model" / "README.md").write_text("My model.\n", encoding="utf-8")
    retell_search(tmp_path / "model", found.best)
    assert (tmp_path / "model" / "README.md").read_text(encoding="utf-8") == "My model.\n"
