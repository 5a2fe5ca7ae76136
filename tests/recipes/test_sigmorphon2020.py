"""Fifteen languages in one model: words in, rows out, on toy files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sigmorphon2020 as recipe

SMALL = ("d_model=16", "d_ff=32", "num_heads=2", "num_encoder_layers=1", "num_decoder_layers=1", "max_steps=2")
SETTINGS = [part for setting in (*SMALL, "warmup_steps=1", "validation.every=2") for part in ("--set", setting)]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "data/sigmorphon2020-g2p"
    folder.mkdir(parents=True)
    for language in recipe.LANGUAGES:
        for part, words in (("train", ("ab", "ba")), ("dev", ("aa", "bb")), ("test", ("ab", "bab"))):
            lines = (f"{word}\t{' '.join(word.upper())}\n" for word in words)
            (folder / f"{language}.{part}.tsv").write_text("".join(lines), encoding="utf-8")

    def call(*options: str) -> list[dict[str, Any]]:
        where = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["sigmorphon2020.py", *where, *SETTINGS, *options])
        capsys.readouterr()
        recipe.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]

    return call


def test_words_are_taken_apart_behind_their_language(tmp_path: Path):
    file = tmp_path / "kor.train.tsv"
    file.write_text("\uac00\tk a\nx y\tks i\n", encoding="utf-8")
    assert recipe.read_words(file, "kor") == (["kor \u1100 \u1161", "kor x _ y"], ["k a", "ks i"])


def test_members_decide_together(measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened, real = [], recipe.dragoman.Translator.from_pretrained
    monkeypatch.setattr(
        recipe.dragoman.Translator, "from_pretrained", lambda models: opened.append(models) or real(models)
    )
    rows = measure("--seeds", "1,2")
    assert [row["language"] for row in rows] == [*recipe.LANGUAGES, "mean"]
    assert (rows[-1]["seeds"], rows[-1]["words"], rows[-1]["part"]) == ([1, 2], 30, "dev")
    assert opened == [[tmp_path / "out/seed-1", tmp_path / "out/seed-2"]]


def test_every_language_counts_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Speller:
        """Capital letters: right but for the word that is spelt with a u."""

        def translate(self, sources: list[str]) -> list[SimpleNamespace]:
            return [SimpleNamespace(text=source.partition(" ")[2].upper()) for source in sources]

    for language in recipe.LANGUAGES:
        words = "au\tA O\nba\tB A\n" if language == "fre" else "ba\tB A\n" * 30
        (tmp_path / f"{language}.dev.tsv").write_text(words, encoding="utf-8")
    monkeypatch.setattr(recipe.dragoman.Translator, "from_pretrained", lambda _: Speller())
    *rows, mean = recipe.judge([tmp_path], tmp_path, "dev")
    assert {row["language"]: row["word_error"] for row in rows if row["word_error"]} == {"fre": 50.0}
    assert mean["word_error"] == pytest.approx(50 / 15)
    assert mean["per"] == pytest.approx(25 / 15)
    assert mean["word_error_interval"] == pytest.approx((0, 100 / 15)), "only French can come out otherwise"


def test_seeds_are_numbers(measure, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        measure("--seeds", "1,a")
    assert "argument --seeds: whole numbers" in capsys.readouterr().err


def test_the_test_set_is_looked_at_once(measure, monkeypatch: pytest.MonkeyPatch):
    first = measure("--test")
    monkeypatch.setattr(recipe, "judge", lambda *_: pytest.fail("looked again"))
    assert measure("--test") == first
    with pytest.raises(pytest.fail.Exception, match="looked again"):
        measure()
