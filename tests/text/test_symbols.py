"""Texts that are one vocabulary entry each: tags before made-up sources."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError
from dragoman.text import Pair, SentencePieceTokenizer, TokenizerPair, Vocabulary

TAGS = ("<bt>", "<st>", "<fr,de>")
LINES = ["the river bank", "under the bank", "a then the other", "rivers and banks"] * 20


def trained(kind: Literal["bpe", "unigram"], *, mask: bool = False) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(kind, LINES, vocab_size=320, symbols=TAGS, mask=mask)


def pair(texts: list[str], **settings: object) -> TokenizerPair:
    pairs = [Pair(text, text, "f", number) for number, text in enumerate(texts, 1)]
    return TokenizerPair.train(pairs, TokenizerConfig.from_dict(settings))


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_tag_is_one_piece_wherever_it_stands(kind, mask, tmp_path: Path):
    tokenizer = trained(kind, mask=mask)
    tokenizer.save(tmp_path / "t.model")
    for one in (tokenizer, SentencePieceTokenizer.load(tmp_path / "t.model")):
        assert one.kind == kind
        for tag in TAGS:
            text = f"{tag} the bank{tag}"
            ids = one.encode(text)
            assert one.pieces(ids).count(tag) == 2
            assert one.decode(ids) == text
            assert not one.control & set(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_drawn_pieces_leave_tags_whole(kind):
    tokenizer = trained(kind)
    texts = [f"<bt> {line}" for line in LINES] * 5
    rows = [tokenizer.encode(text) for text in texts]
    drawn = tokenizer.resampled(rows, amount=0.05 if kind == "unigram" else 0.5, seed=1)
    assert drawn != rows
    assert all(tokenizer.pieces(ids).count("<bt>") == 1 for ids in drawn)
    assert [tokenizer.decode(ids) for ids in drawn] == texts


def test_special_tokens_in_a_text_stay_text():
    tokenizer = trained("bpe")
    for text in ("<s> <bt> </s>", "<pad>", "<0x41>"):
        assert not tokenizer.control & set(tokenizer.encode(text))
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_tag_is_a_word_however_rare():
    tokenizer = pair(["<bt> a b"], kind="word", min_count=3, symbols=("<bt>", "<st>")).source
    assert isinstance(tokenizer, Vocabulary)
    assert tokenizer.pieces(tokenizer.encode("<bt> a <st>")) == ["<bt>", "<unk>", "<st>"]
    frequent = Vocabulary.train("word", ["<bt> a a"], symbols=["<bt>"])
    assert len(frequent) == 6


def test_both_sides_get_them(tmp_path: Path):
    settings = {"kind": "bpe", "vocab_size": 320, "joint": False, "symbols": ("<bt>",)}
    made = pair(LINES, **settings)
    assert all("<bt>" in side.pieces(side.encode("<bt> x")) for side in (made.source, made.target))


@pytest.mark.parametrize("symbol", ["", "a b", "<s>", "<mask>", "<0x41>", "x\u2581", "\u241b_", " x"])
def test_what_cannot_be_an_entry_is_refused(symbol):
    with pytest.raises(ConfigError, match="not a symbol"):
        pair(LINES, kind="bpe", symbols=(symbol,))


def test_a_symbol_named_twice_or_among_characters_is_refused():
    with pytest.raises(ConfigError, match="not a symbol"):
        pair(LINES, kind="word", symbols=("<bt>", "<bt>"))
    with pytest.raises(ConfigError, match="a single character"):
        pair(LINES, kind="character", symbols=("<bt>",))
