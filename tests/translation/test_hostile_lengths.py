"""Numbers that do not fit into 32 bits, and lines far longer than a model reads."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.search.outputs import one_line
from dragoman.text import TokenizerPair, Vocabulary, lines
from dragoman.text.lines import chunks
from dragoman.text.normalization import NORMALIZATIONS, Normalization
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from end_to_end import small

LENGTHS = ("max_length", "min_length", "max_length_offset", "max_source_length", "no_repeat_ngram", "loop_guard")


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("value", [2**20 + 1, 2**31 - 1, 2**31, 2**32 + 5, 10**30])
def test_lengths_that_wrap_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=name):
        DecodingConfig.from_dict({name: value})


@pytest.mark.parametrize("engine", ["module", "packed", "native"])
@pytest.mark.parametrize("name", LENGTHS)
def test_the_largest_lengths_are_the_same_for_every_engine(name: str, engine: str) -> None:
    translator = small.translator(small.word_pair())
    if engine != "module":
        made = [model.float() for model in translator.transformers]
        translator = type(translator)(made, translator.tokenizers, engine=engine, precision="float32")
    texts = ["ba ce di", "fo"]
    options = translator.options({"max_length": 9, "beam_size": 2, "loop_guard": 0})
    usual = [one.text for one in translator.translate_with(texts, options)]
    if name not in ("max_length", "min_length"):  # those would run very long
        # Not `options`, which refuses what has no effect beside a `max_length`.
        largest = options.replace({name: 2**20})
        assert [one.text for one in translator.translate_with(texts, largest)] == usual


def character_pair() -> TokenizerPair:
    vocabulary = Vocabulary.train("character", ["ba ce di fo gu"])
    return TokenizerPair(vocabulary, vocabulary)


@pytest.mark.parametrize("pair", [small.word_pair, small.byte_pair, character_pair])
def test_a_text_is_cut_before_it_is_tokenised_without_a_difference(pair) -> None:
    tokenizers: TokenizerPair = pair()
    for text in ("ba ce di fo " * 5000, "ba", "ce di", "x" * 50_000, "x " * 9, " \t ba" * 3000):
        for most in (1, 7, 64):
            whole, cut = tokenizers.encode_source(text), tokenizers.encode_source(text, most)
            assert cut.cut(most).ids == whole.cut(most).ids
            assert (len(cut) > most) == (len(whole) > most)
            assert len(cut) <= 600 * (most + 1)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("kind", ["word", "character", "bpe", "unigram"])
def test_nothing_is_lost_where_normalisation_shortens_a_text(kind: Any, rule: Normalization) -> None:
    corpus = ["ba ce di fo gu", "é ö ñ ガ ギ", "한 글 ba di"] * 20
    if kind in ("word", "character"):
        tokenizer = Vocabulary.train(kind, corpus, normalization=rule)
    else:
        tokenizer = SentencePieceTokenizer.train(kind, corpus, vocab_size=320, normalization=rule)
    pair = TokenizerPair(tokenizer, tokenizer)
    dropped = ("\u200b", "\x01", " ", "\u200b ", "\xad")
    texts = ["e\u0301" * 3000, "o\u0302\u0301\u0323 " * 2000, *(one * 5000 + "ba ce di " * 300 for one in dropped)]
    for text in texts:
        for most in (1, 7, 64):
            whole, cut = pair.encode_source(text), pair.encode_source(text, most)
            assert cut.cut(most).ids == whole.cut(most).ids
            assert (len(cut) > most) == (len(whole) > most)


def test_long_lines_do_not_wait_for_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MOST_CHARACTERS", 100)
    texts = ["a" * 60] * 5 + [""] * 7
    found = list(chunks(texts, 4))
    assert [text for chunk in found for text in chunk] == texts
    assert [len(chunk) for chunk in found] == [2, 2, 4, 4]
    pairs = [("a" * 30, "b" * 30)] * 4
    assert [len(chunk) for chunk in chunks(pairs, 4)] == [2, 2]
    assert list(chunks([], 4)) == []


def test_what_is_told_has_bounds_and_no_control_characters() -> None:
    error = DataError("wrong\x1b[31m", file="a\nb", expected="c\x9bd", found="e\nforged: f" + "x" * 10**6)
    told = str(error)
    assert len(told) < 500
    assert told.split("\n")[0] == "a\\nb: wrong\\x1b[31m"
    assert "\\nforged" in told
    assert told.count("\n") == 2
    outer = str(DragomanError("outer", found=error))
    assert "e\\nforged" in outer
    assert "\x1b" not in outer


def test_printed_outputs_do_not_steer_a_terminal() -> None:
    assert one_line("a\x1b[31mb\tc\nd\x00e\x9bf\x7f 猫") == "a\\x1b[31mb\tc d e\\x9bf\\x7f 猫"
