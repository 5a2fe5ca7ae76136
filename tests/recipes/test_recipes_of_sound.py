"""Recipes whose sounds are made: nothing that is judged is learned from, and voices are whose they should be."""

from __future__ import annotations

from pathlib import Path

import heard
import pytest
import speech_translation
import spoken_forms

from dragoman.demo.commands import CommandCorpus
from small_sounds import write_spoken


def texts(corpus: CommandCorpus, part: str, language: str) -> set[str]:
    return {getattr(one.command, language) for one in getattr(corpus, part)}


def test_no_sentence_is_learned_and_judged_in_either_language() -> None:
    corpus = speech_translation.commands(400)
    assert len(corpus.train) == 400
    assert len(corpus.test) == len(corpus.test_unseen) == speech_translation.TESTED
    for language in ("en", "zh"):
        assert not texts(corpus, "train", language) & texts(corpus, "test", language)
    assert {one.voice.language for one in corpus.train} == {"cmn"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_numbers_are_held_out_with_their_voices(language: str) -> None:
    drawn = spoken_forms.numbers(1500)
    assert drawn == spoken_forms.numbers(1500)
    assert len(set(drawn)) == 1500
    assert max(map(len, drawn)) == 6
    corpus = spoken_forms.spoken(drawn, language)
    learned = texts(corpus, "train", "en")
    assert {str(number) for number in range(100)} <= learned
    assert not learned & (texts(corpus, "dev", "en") | texts(corpus, "test", "en"))
    assert texts(corpus, "test", "en") == texts(corpus, "test_unseen", "en")
    known = {str(one.voice) for part in (corpus.train, corpus.dev, corpus.test) for one in part}
    assert not known & {str(one.voice) for one in corpus.test_unseen}


def test_words_are_of_the_training_set(tmp_path: Path) -> None:
    folder = tmp_path / "cmudict-g2p"
    folder.mkdir()
    (folder / "train.graphemes").write_text("A\nA B\nA B\nI T ' S\nC A T\nD O G\n", encoding="utf-8")
    assert sorted(spoken_forms.words(tmp_path, 3)) == ["ab", "cat", "dog"]


def test_a_row_has_each_metric_with_its_interval(tmp_path: Path) -> None:
    class Echo:
        """Writes one word too many."""

        def translate(self, paths: list[Path]) -> list:
            assert all(path.exists() for path in paths)
            return [type("Written", (), {"text": f"{line} more"}) for line in lines]

    (tmp_path / "test").mkdir()
    write_spoken(tmp_path / "test", "", 3)
    for number in range(3):
        (tmp_path / "test" / f"{number}.wav").rename(tmp_path / "test" / f"{number:05}.wav")
    lines = ["low mid", "high", "top low"]
    (tmp_path / "test.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    row = heard.judge(Echo(), tmp_path, "test", ("wer", "exact"))  # pyrefly: ignore[bad-argument-type]
    assert row["wer"] == 60.0
    assert row["wer_edits"] == {"insertions": 3, "deletions": 0, "substitutions": 0}
    assert row["wer_interval"][0] <= 60 <= row["wer_interval"][1]
    assert row["exact"] == 0.0
