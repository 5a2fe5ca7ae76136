"""Sources of thousands of tokens: translated whole where asked, else cut with a word; scored, or refused."""

from __future__ import annotations

import math

import jaxtyping
import pytest

from dragoman.errors import ConfigError
from dragoman.translation import Translator
from end_to_end import small

LONG = " ".join(["ba ce di fo gu"] * 800)


@pytest.fixture(scope="module")
def words() -> Translator:
    return small.translator(small.word_pair())


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests check the shapes of these steps."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_four_thousand_tokens_are_translated_whole_where_the_limit_allows(words: Translator, beam_size: int) -> None:
    options = words.options({"max_source_length": 4000, "beam_size": beam_size, "max_length": 5})
    (whole,) = words.translate_with([LONG], options)
    assert (whole.truncated, len(whole.source_tokens)) == (False, 4000)
    (again,) = words.translate_with([LONG], options.replace({"max_source_length": 9000}))
    assert (again.tokens, again.score) == (whole.tokens, whole.score)


def test_a_longer_one_is_cut_at_the_limit_and_says_so(words: Translator) -> None:
    (cut,) = words.translate([LONG], beam_size=1, max_length=5)
    assert (cut.truncated, len(cut.source_tokens), cut.source) == (True, 1024, LONG)
    found = words.translate_with([LONG, "ba ce"], words.options({"max_source_length": 7, "max_length": 5}))
    assert [(one.truncated, len(one.source_tokens)) for one in found] == [(True, 7), (False, 2)]


def test_the_end_of_a_long_source_counts(words: Translator) -> None:
    options = words.options({"max_source_length": 4000, "max_length": 5})
    one, other = words.translate_with([LONG, LONG[:-2] + "ki"], options)
    assert one.source_tokens[:-1] == other.source_tokens[:-1]
    assert one.log_probability != other.log_probability


def test_a_limit_of_nothing_is_refused(words: Translator) -> None:
    with pytest.raises(ConfigError, match="max_source_length"):
        words.options({"max_source_length": 0})


def test_four_thousand_tokens_are_scored_and_five_thousand_are_not(words: Translator) -> None:
    (found,) = words.score([LONG], ["ba " * 3999 + "ce"])
    assert len(found.token_scores) == 4001
    long, short = words.score([LONG + " " + LONG, "ba"], ["ba", "ce"])
    assert math.isnan(long.log_probability)
    assert long.tokens == ()
    assert short.log_probability == pytest.approx(words.score(["ba"], ["ce"])[0].log_probability, abs=1e-9)
