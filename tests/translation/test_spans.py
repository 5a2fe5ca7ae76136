"""Words of outputs with their places, whatever tokenizer made them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.search.outputs import Alternative
from dragoman.text import SentencePieceTokenizer, Tokenizer, TokenizerPair, Vocabulary
from dragoman.text.normalization import NORMALIZATIONS, Normalization
from dragoman.text.tokenizer import SPECIALS
from dragoman.translation import Translation
from dragoman.translation.results import no_translation
from dragoman.translation.spans import Word, piece_spans, spans
from end_to_end import small

LINES = [
    "Cats eat fish.",
    "the dogs don't eat 25 fish",
    "猫吃鱼。",
    "我的狗不吃肉，猫吃。",
    "ニャー　と鳴く",
    "ภาษาไทย",
    "ﬁn Ａ１ é",
]
KINDS = ("bpe", "unigram", "word", "character")
ODD = "ab .\u2581\u241b_é\u0301Ａﬁ猫。\u3000\xa0\u200b\0\x1b😀\u200dไ้<0x41>"
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.sampled_from(ODD)),
    st.lists(st.sampled_from(LINES)).map(" ".join),
)


@cache
def tokenizer(kind: str, normalization: Normalization) -> Tokenizer:
    if kind in ("bpe", "unigram"):
        return SentencePieceTokenizer.train(kind, LINES * 9, vocab_size=330, normalization=normalization)
    return Vocabulary.train(kind, LINES, normalization=normalization)


tokenizers = st.builds(tokenizer, st.sampled_from(KINDS), st.sampled_from(NORMALIZATIONS))


def made(
    source: str, source_tokens: list[str], text: str, tokens: list[str], pairs: list[tuple[int, int]] | None = None
) -> Translation:
    scores = tuple(-0.1 * (place + 1) for place in range(len(tokens) + 1))
    best = Alternative(
        text, sum(scores), sum(scores), tuple(tokens), scores, alignment=None if pairs is None else tuple(pairs)
    )
    return Translation(
        text, best.score, best.score, best.tokens, scores,
        source=source, source_tokens=tuple(source_tokens), alternatives=(best,), alignment=best.alignment,
    )  # fmt: skip


def check(found: Translation, words: tuple[Word, ...]) -> None:
    """Assert what holds for all words of all translations."""
    text, end = found.text, 0
    for word in words:
        assert end <= word.start < word.end <= len(text)
        assert not text[end : word.start].strip()
        assert text[word.start : word.end].split() == [text[word.start : word.end]]
        assert 0 <= word.probability <= 1
        last = -1
        for start, stop in word.sources:
            assert last < start < stop <= len(found.source)
            last = stop
        end = word.end
    assert not text[end:].strip()


@given(texts, texts, tokenizers, tokenizers, st.integers(0, 2**32))
def test_words_lie_in_the_text_in_order_whatever_the_tokenizers(
    source: str, text: str, first: Tokenizer, second: Tokenizer, seed: int
) -> None:
    ids, outputs = first.encode(source), second.encode(text)
    draw = random.Random(seed)
    pairs = [(draw.randrange(len(ids)), place) for place in range(len(outputs))] if ids else []
    given_text = second.decode(outputs)
    found = made(source, first.pieces(ids), given_text, second.pieces(outputs), pairs)
    words = spans(found)
    check(found, words)
    if words:  # each piece's probability is in a word
        assert math.prod(word.probability for word in words) <= math.exp(sum(found.token_scores[:-1])) + 1e-9
    other = made(source, first.pieces(ids), text, second.pieces(outputs), pairs)
    check(other, spans(other))


@given(texts, st.lists(st.one_of(st.text(max_size=4), st.sampled_from(["<unk>", "<0xE7>", "<0x41>", "\u2581", ""]))))
def test_pieces_of_anything_lie_in_the_text(text: str, pieces: list[str]) -> None:
    found = piece_spans(text, pieces)
    assert len(found) == len(pieces)
    least = 0
    for start, end in found:
        assert least <= start <= end <= len(text)
        assert start == end or text[start:end] == text[start:end].strip()
        least = start
    other = made("", [], text, pieces)
    check(other, spans(other))


@given(texts, st.sampled_from(["bpe", "unigram", "character"]))
def test_a_piece_of_a_text_that_comes_back_stands_where_it_was_cut(text: str, kind: str) -> None:
    cut = tokenizer(kind, "none")
    ids = cut.encode(text)
    if cut.unk in ids or "\u2581" in text or "\u241b" in text:
        return
    before = 0
    for place, (start, end) in enumerate(piece_spans(text, cut.pieces(ids))):
        passed = cut.decode(ids[: place + 1])
        if not passed.endswith("\ufffd") and start < end:
            assert text[:end] == passed.rstrip()
            assert text[start:end] in passed[before:] or text[start:end] == passed[-1]
        before = len(passed)


def test_words_are_what_stands_between_blanks() -> None:
    found = made(
        "猫吃鱼", ["猫", "吃", "鱼"], "Cats eat fish.", ["\u2581C", "ats", "\u2581eat", "\u2581fish", "."],
        [(0, 0), (0, 1), (1, 2), (2, 3), (0, 4)],
    )  # fmt: skip
    words = spans(found)
    assert [(word.start, word.end, word.sources) for word in words] == [
        (0, 4, ((0, 1),)), (5, 8, ((1, 2),)), (9, 14, ((0, 1), (2, 3))),
    ]  # fmt: skip
    assert [word.probability for word in words] == pytest.approx([math.exp(-0.3), math.exp(-0.3), math.exp(-0.9)])
    assert all(word.sources == () for word in spans(made("猫", ["猫"], found.text, list(found.tokens))))
    assert spans(found, found.alternatives[0]) == words


def test_where_no_blanks_are_written_words_are_pieces() -> None:
    pieces = ["\u2581", "我的", "猫", "ไม", "\u0e49", "。", "Linux", " 6", "Ub", "untu"]
    text = "我的猫ไม้。Linux 6Ubuntu"
    found = spans(made("", [], text, [piece.replace(" ", "\u2581") for piece in pieces]))
    assert [text[one.start : one.end] for one in found] == ["我的", "猫", "ไม้", "。", "Linux", "6Ubuntu"]
    assert found[0].probability == pytest.approx(math.exp(-0.3))  # the blank is the first word's
    assert math.prod(one.probability for one in found) == pytest.approx(math.exp(-0.1 * sum(range(1, 11))))


def test_bytes_of_a_character_are_one_word() -> None:
    pieces = [f"<0x{byte:02X}>" for byte in "鱼".encode()]
    found = spans(made("鱼", pieces, "猫鱼", ["猫", *pieces], [(2, 0), (0, 3)]))
    assert [(one.start, one.end, one.sources) for one in found] == [(0, 1, ((0, 1),)), (1, 2, ((0, 1),))]


def test_unknown_pieces_and_copied_words_stand_where_their_neighbours_say() -> None:
    source, tokens = "Zebras eat Gnus !", ["<unk>", "eat", "<unk>", "!"]
    assert piece_spans(source, tokens) == [(0, 6), (7, 10), (11, 15), (16, 17)]
    assert piece_spans("猫x y鱼", ["猫", "<unk>", "\u2581", "<unk>", "鱼"]) == [(0, 1), (1, 2), (3, 3), (3, 4), (4, 5)]
    # Written as one piece, which stands for several characters here.
    assert piece_spans("Zebras eat", ["<unk>", "\u2581eat"]) == [(0, 6), (7, 10)]
    assert piece_spans("we eat Gnus", ["\u2581we", "\u2581eat", "\u2581", "<unk>"]) == [(0, 2), (3, 6), (6, 6), (7, 11)]


def test_what_normalisation_changed_is_found() -> None:
    assert piece_spans("  ﬁn\u3000Ａ\u200bＢ", ["\u2581fi", "n", "\u2581A", "B"]) == [(2, 3), (3, 4), (5, 6), (7, 8)]
    assert piece_spans("cafe\u0301 noir", ["\u2581caf", "é", "\u2581noir"]) == [(0, 3), (3, 5), (6, 10)]


@pytest.mark.parametrize("pair", [small.word_pair, small.byte_pair])
def test_translators_give_words(pair: Callable[[], TokenizerPair]) -> None:
    translator = small.translator(pair())
    for one in translator.translate([*small.sentences(8), "", "猫 ba \x1b!"], alignments=True, n_best=2):
        check(one, spans(one))
        for other in one.alternatives:
            words = spans(one, other)
            assert len(words) >= len(other.text.split())
            product = math.prod(word.probability for word in words)
            assert not words or product == pytest.approx(math.exp(sum(other.token_scores[:-1])))


def test_nothing_has_no_words() -> None:
    assert spans(no_translation("", alignments=True)) == ()
    assert spans(no_translation(" ", alignments=False)) == ()
    assert piece_spans("", []) == []
    assert spans(made("", [], "a b", [])) == (Word(0, 1, 1.0, ()), Word(2, 3, 1.0, ()))


def test_the_time_grows_with_the_length() -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        piece_spans("ab" * size, ["c", "d"] * size)
        spans(made("猫" * size, ["猫"] * size, "鱼" * size, ["鱼"] * size, [(i, i) for i in range(size)]))
        return time.process_time() - started

    seconds(100)
    assert seconds(10_000) < 40 * seconds(1000) + 0.2


def test_special_tokens_are_not_mistaken() -> None:
    assert piece_spans("a <unk> b", ["\u2581a", "\u2581<", "unk", ">", "\u2581b"])[1:4] == [(2, 3), (3, 6), (6, 7)]
    assert SPECIALS[1] == "<unk>"
