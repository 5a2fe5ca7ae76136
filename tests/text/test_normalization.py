"""Texts written alike before they are cut: what goes, what stays, and that a saved tokenizer goes on doing it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.language.filling import with_gaps
from dragoman.text import SentencePieceTokenizer, Vocabulary
from dragoman.text.normalization import NORMALIZATIONS, normalizer, target_normalization

TEXTS = [f"the cat {i} eats fish , café {i * i} 猫吃鱼" for i in range(300)]
ODD = " \t\xa0\u3000\u2009\u200b\u200c\u200d\xad\ufeffaé\u0301\u0323ﬁＡ猫می½\xa8"


@given(st.text(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"]), max_size=12))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    for name in ("none", "blanks", "nfc", "nfkc"):
        once = normalizer(name)(text)
        assert normalizer(name)(once) == once
        assert name != "none" or once == text
        assert name == "none" or (once == once.strip() and not set("\xa0\u200b\xad\ufeff\t\u3000") & set(once))


def test_each_rule_writes_alike_what_it_says() -> None:
    dirty = "\ufeff the\xa0cat\u200b eats\u3000fi\xadsh\t"
    assert all(normalizer(name)(dirty) == "the cat eats fish" for name in ("blanks", "nfc", "nfkc"))
    assert normalizer("nmt_nfkc")("\ufeff the\xa0cat  eats\u3000 \t") == "the cat eats"
    assert [normalizer(name)("cafe\u0301 ﬁＡ") for name in ("blanks", "nfc", "nfkc", "nmt_nfkc")] == [
        "cafe\u0301 ﬁＡ",
        "café ﬁＡ",
        "café fiA",
        "café fiA",
    ]


@pytest.mark.parametrize(
    "text", ["می\u200cشود", "ه\u200d ب", "क्\u200dष", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "🏴\U000e0067"]
)
def test_joiners_stay_where_scripts_and_emoji_need_them(text: str) -> None:
    assert all(normalizer(name)(text) == text for name in ("blanks", "nfc", "nfkc"))
    assert normalizer("blanks")("\u200cAuf\u200clage 猫\u200d鱼\u200d") == "Auflage 猫鱼"


def test_targets_keep_how_they_look() -> None:
    assert [target_normalization(name) for name in NORMALIZATIONS] == ["none", "blanks", "nfc", "nfc", "nfc"]


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_a_saved_tokenizer_goes_on_normalising(tmp_path: Path, name: str, kind: str) -> None:
    if kind in ("bpe", "unigram"):
        made = SentencePieceTokenizer.train(kind, TEXTS, vocab_size=330, normalization=name)
        again = SentencePieceTokenizer
    else:
        made, again = Vocabulary.train(kind, TEXTS, normalization=name), Vocabulary
    made.save(tmp_path / "t")
    loaded = again.load(tmp_path / "t")
    assert loaded.normalization == made.normalization == name
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "t").read_bytes()
    clean, dirty = "the cat 5 eats fish", "\ufeff the\xa0cat 5\u3000eats fish\t"
    assert (loaded.encode(dirty) == loaded.encode(clean)) == (name != "none")
    assert loaded.decode(loaded.encode(clean)) == clean
    if name in ("none", "blanks", "nfc", "nfkc") and kind in ("bpe", "unigram"):
        for text in (dirty, "▁␛_ ﬁ", "e\u0301 \x07", ""):
            assert loaded.decode(loaded.encode(text)) == normalizer(name)(text)


def test_an_unknown_rule_is_refused(tmp_path: Path) -> None:
    made = SentencePieceTokenizer.train("bpe", TEXTS, vocab_size=330, normalization="nfkc")
    made.save(tmp_path / "tokenizer.model")
    later = (tmp_path / "tokenizer.model").read_bytes()[:-4] + b"nfkx"
    with pytest.raises(DataError, match="unknown way"):
        SentencePieceTokenizer(later)
    Vocabulary.train("word", TEXTS, normalization="nfkc").save(tmp_path / "v.json")
    text = (tmp_path / "v.json").read_text("utf-8").replace('"nfkc"', '"nfkx"')
    (tmp_path / "v.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match="unknown normalization"):
        Vocabulary.load(tmp_path / "v.json")


@pytest.mark.parametrize("kind", ["word", "character"])
def test_a_gap_keeps_the_blanks_beside_it(kind: str) -> None:
    made = Vocabulary.train(kind, TEXTS, mask=True, normalization="blanks")
    plain = Vocabulary.train(kind, TEXTS, mask=True)
    assert with_gaps(made, ["\ufeffthe ", "\xa0eats fish "]) == with_gaps(plain, ["the ", " eats fish"])
