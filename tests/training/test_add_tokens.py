"""Tokens appended to a vocabulary of pieces: no id moves, rows begin as the mean of their former pieces."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import make_config
from dragoman.data.extending import pieces_before
from dragoman.errors import ConfigError, DataError
from dragoman.models import load_pretrained
from dragoman.models.description import load_tokenizers, read_config
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.training import train
from small_runs import small_config, write_corpus

pytestmark = pytest.mark.arithmetic
TEXTS = [f"the cat number {i} sat on the mat and said hello to {i * 7} dogs" for i in range(60)]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("normalization", ["none", "nfkc", "nmt_nfkc"])
def test_appended_tokens_are_one_piece_and_no_text_is_lost(tmp_path, kind, normalization):
    old = SentencePieceTokenizer.train(kind, TEXTS, vocab_size=330, normalization=normalization)
    new = old.with_tokens(["<menu>", "猫咪", "catamaran", "x" * 200])
    new.save(tmp_path / "m")
    new = SentencePieceTokenizer.load(tmp_path / "m")
    assert len(new) == len(old) + 4
    assert new.pieces(range(len(old))) == old.pieces(range(len(old)))
    assert (new.kind, new.normalization) == (old.kind, old.normalization)
    for text in (*TEXTS[:5], "", " ", "ä\u2581b"):
        assert new.encode(text) == old.encode(text)
    first = len(old)
    ids = new.encode("a <menu> b猫咪c catamarans")
    assert [one for one in ids if one >= first] == [first, first + 1, first + 2]
    assert new.decode(ids) == "a <menu> b猫咪c catamarans"
    before = pieces_before(old, new)
    assert old.decode(before[0]).strip() == "<menu>"
    assert old.decode(before[2]).strip() == "catamaran"
    assert new.with_tokens(["<b>"]).encode("<b><menu>")[-2:] == [first + 4, first]


@pytest.mark.parametrize("token", ["", "two words", "tab\there", "\u2581x"])
def test_what_cannot_be_a_token_is_refused(token):
    with pytest.raises(DataError, match="cannot be a token"):
        SentencePieceTokenizer.train("bpe", TEXTS, vocab_size=330).with_tokens([token])


@pytest.mark.parametrize("joint", ["true", "false"])
def test_a_model_grows_and_its_old_rows_stay_bit_for_bit(tmp_path, joint):
    kind = ("tokenizer.kind=bpe", f"tokenizer.joint={joint}", "tokenizer.vocab_size=285", "max_steps=2")
    base = train(small_config(tmp_path, "base", *kind), quiet=True).directory
    (tmp_path / "tokens").write_text("<menu>\nba\nbaha\n", encoding="utf-8")
    training = {"init_from": str(base), "add_tokens": str(tmp_path / "tokens"), "max_steps": 1, "threads": 1,
                "learning_rate": 1e-30, "ema_decay": 0}  # fmt: skip
    data = write_corpus(tmp_path, 40)
    run = train(make_config({"out": str(tmp_path / "run"), "data": data, "training": training}), quiet=True).directory
    old, new = (load_tokenizers(one, read_config(one)[0]) for one in (base, run))
    before, after = (load_pretrained(one).model.state_dict() for one in (base, run))
    for side in ("source", "target"):
        made_of = pieces_before(getattr(old, side), getattr(new, side))
        assert made_of
        rows = before[f"{side}_embedding.tokens.weight"]
        grown = after[f"{side}_embedding.tokens.weight"]
        torch.testing.assert_close(grown[: len(rows)], rows)
        for row, ids in zip(grown[len(rows) :], made_of, strict=True):
            torch.testing.assert_close(row, rows[ids].mean(0))
    with pytest.raises(ConfigError, match="does not go with adapters"):
        make_config({"out": "x", "training": {**training, "lora_rank": 2}})
