"""The tour's word on greedy and beam search: chosen from what the model does, and honest where nothing parts."""

from __future__ import annotations

import pytest

from dragoman.demo import search_story as room
from dragoman.demo.search_story import Parting, partings, search_story
from dragoman.translation import Translator
from end_to_end import small

BETTER = Parting("猫", "The cat sleeps", "A cat sings", "The cat sleep", (-3.0, -1.0))
WORSE = Parting("花", "Flowers grow", "Flowers grow", "Students grow", (-4.5, -2.2))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small.translator(small.word_pair(), num_encoder_layers=1, num_decoder_layers=1)


def told(monkeypatch: pytest.MonkeyPatch, translator: Translator, held: list[Parting], odd: list[Parting]) -> str:
    found = iter((held, odd))
    monkeypatch.setattr(room, "partings", lambda *_: next(found))
    return "\n".join(search_story(translator, [], from_chinese=True))


def test_partings_are_what_the_searches_write(translator: Translator) -> None:
    pairs = [(text, "ba") for text in small.sentences(12, longest=5)]
    for one in partings(translator, pairs):
        for size, text, total in zip((1, room.BEAM), (one.greedy, one.beam), one.sums, strict=True):
            [found] = translator.translate([one.source], beam_size=size, n_best=1)
            assert (found.text, found.log_probability) == (text, pytest.approx(total))
        assert one.greedy != one.beam
        assert one.sums[1] > one.sums[0]


def test_the_one_whose_likelier_output_is_worse_is_shown(
    monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    text = told(monkeypatch, translator, [BETTER, WORSE], [])
    assert WORSE.source in text
    assert "It is not better" in text
    assert "10.0 times as likely" in text
    assert "nobody says" not in text


def test_odd_sentences_are_asked_where_no_held_out_one_is_worse(
    monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    text = told(monkeypatch, translator, [BETTER], [WORSE])
    assert "One that nobody says does" in text
    assert "It is not better" in text
    text = told(monkeypatch, translator, [BETTER], [])
    assert BETTER.source in text
    assert "Here it is the better one" in text


def test_it_is_said_when_nothing_parts(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    text = told(monkeypatch, translator, [], [])
    assert "finds nothing likelier" in text
    assert "greedy →" not in text
