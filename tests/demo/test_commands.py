"""The spoken commands: what is held out, how much there is, and that all voices can say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.audio import Speaker, Voice, read_audio
from dragoman.demo.commands import Command, CommandCorpus, Spoken, draw_commands, load_commands
from dragoman.demo.sound import write_spoken_commands
from dragoman.errors import DataError

GRAMMAR = load_commands()


@pytest.fixture(scope="module", params=["en", "zh"])
def corpus(request: pytest.FixtureRequest) -> CommandCorpus:
    return draw_commands(GRAMMAR, request.param)


def test_nothing_that_is_held_out_is_in_training(corpus: CommandCorpus) -> None:
    train = {one.command.en for one in corpus.train}
    for part in (corpus.dev, corpus.test):
        assert not train & {one.command.en for one in part}
    assert not {one.command for one in corpus.dev} & {one.command for one in corpus.test}
    assert [one.command.en for one in corpus.test][:2] == [
        "Show me my files please",
        "Check whether the battery ran down please",
    ]
    assert [one.command for one in corpus.test] == [one.command for one in corpus.test_unseen]
    voices = {str(one.voice) for part in (corpus.train, corpus.dev, corpus.test) for one in part}
    assert not voices & {str(one.voice) for one in corpus.test_unseen}


def test_held_out_sentences_have_known_words(corpus: CommandCorpus) -> None:
    known = {word for one in corpus.train for word in one.command.en.split()}
    assert {word for one in (*corpus.dev, *corpus.test) for word in one.command.en.split()} <= known
    assert len(known) > 200


def test_each_sentence_says_one_thing_and_has_no_slot_left(corpus: CommandCorpus) -> None:
    pairs: dict[str, str] = {}
    for one in (*corpus.train, *corpus.dev, *corpus.test):
        assert pairs.setdefault(one.command.en, one.command.zh) == one.command.zh
        assert re.fullmatch(r"[A-Za-z ]+", one.command.en)
        assert re.fullmatch(r"[\u4e00-\u9fff]+", one.command.zh)
    assert draw_commands(GRAMMAR, "en", seed=2).train != draw_commands(GRAMMAR, "en", seed=1).train


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_voice_is_there(language: str) -> None:
    with Speaker() as speaker:
        for name in (*GRAMMAR.voices[language]["seen"], *GRAMMAR.voices[language]["unseen"]):
            lang, _, variant = name.partition("+")
            sound = speaker.say("Yes" if language == "en" else "好", Voice(lang, variant))
            assert sound.samples.abs().max() > 0.05


def test_what_is_spoken_already_is_not_spoken_again(tmp_path: Path) -> None:
    one = [Spoken(Command("Show me my files please", "请给我看我的文件"), Voice())]
    corpus = CommandCorpus(one, one, one, one)
    seconds = write_spoken_commands(tmp_path, corpus, "en")
    assert 4 < seconds < 12
    assert (tmp_path / "train.txt").read_text() == "Show me my files please\n"
    paths = [tmp_path / (tmp_path / f"{name}.tsv").read_text().strip() for name in vars(corpus)]
    assert sum(read_audio(path).seconds for path in paths) == pytest.approx(seconds, abs=0.01)
    path = paths[0]
    before = path.stat().st_mtime_ns
    assert write_spoken_commands(tmp_path, corpus, "en") == seconds
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["", "[split]\n", '[slot]\na = ["x"]\n', "\xff"])
def test_what_is_no_grammar_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "commands.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match="no grammar of commands"):
        load_commands(path)
