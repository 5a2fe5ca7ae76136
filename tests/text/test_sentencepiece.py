from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.text import SentencePieceTokenizer, Vocabulary, sentencepiece_tokenizer

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "eats",
    "sees",
    "fish",
    "big",
    "small",
    "two",
    "three",
    "runs",
    "home",
    "never",
    "always",
    "猫",
    "吃",
    "鱼",
    "，",
]
AWKWARD = [
    "", " ", "  a  b  ", "<s></s><0x41>", "\t\r\n\v\x1c", "é", "e\u0301", "ﬁ", "！，", "\u200b\ufeff\u2028",
    "👩\u200d🚀", "\U0010ffff", "\u2585\u2047\ufffd", "\x00", "שלום", "▁ ␛ ␛_ ␛␛ <pad> <unk> <mask>",
]  # fmt: skip
HOSTILE = "<pad> <unk> <s> </s> <mask> <0x41> ▁ ␛ ␛_ ␛␛"


def lines(count: int = 300) -> list[str]:
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in range(count)]


def train(kind: str = "bpe", texts: list[str] | None = None, size: int = 400) -> SentencePieceTokenizer:
    chosen = "bpe" if kind == "bpe" else "unigram"
    return SentencePieceTokenizer.train(chosen, lines() if texts is None else texts, vocab_size=size)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_any_text_comes_back_and_no_text_becomes_control(kind: str) -> None:
    # Trained on nothing but hostile text, so that a piece spelled like a control token would be learned if any could.
    for texts in (lines(), [HOSTILE] * 200):
        tokenizer = train(kind, texts)
        assert tokenizer.kind == kind
        for text in AWKWARD:
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == text
            assert not tokenizer.control & set(ids)
            assert tokenizer.unk not in ids
            assert len(tokenizer.pieces(ids)) == len(ids)


def test_special_ids_and_decoding_of_them() -> None:
    tokenizer = train()
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.decode([2, *tokenizer.encode("the cat"), 3, 0, 0]) == "the cat"
    assert tokenizer.decode([1]) == "\ufffd"
    assert tokenizer.mask is None
    masked = SentencePieceTokenizer.train("bpe", lines(), vocab_size=400, mask=True)
    assert masked.pieces([4]) == ["<mask>"]
    assert masked.mask == 4
    assert masked.decode([*masked.encode("the <mask>"), 4]) == "the <mask>"


def test_half_a_surrogate_pair_is_the_users_mistake() -> None:
    with pytest.raises(DataError, match=r"U\+D83D"):
        train().encode("a\ud83d")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_is_deterministic_and_saving_keeps_every_byte(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        train(kind).save(tmp_path / name)
    again = SentencePieceTokenizer.load(tmp_path / "a")
    again.save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    assert (again.kind, len(again)) == (kind, len(train(kind)))


def test_training_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    train()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_beyond_the_corpus_is_lowered_and_one_below_its_characters_refused(kind: str) -> None:
    assert 260 < len(train(kind, size=20_000)) < 5000
    with pytest.raises(ConfigError, match="vocab_size 100 is too small") as caught:
        train(kind, size=100)
    needed = int(str(caught.value.expected).removeprefix(">= "))
    assert len(train(kind, size=needed)) <= needed
    with pytest.raises(ConfigError):
        train(kind, size=needed - 1)


def test_huge_lines_are_learned_from_and_not_skipped() -> None:
    tokenizer = train(texts=["zebra " * 50_000])
    assert tokenizer.pieces(tokenizer.encode("zebra zebra")) == ["▁zebra", "▁zebra"]


def test_no_text_and_errors_while_reading() -> None:
    for nothing in ([], ["", ""]):
        with pytest.raises(DataError, match="no text"):
            train(texts=nothing)

    def broken() -> Iterator[str]:
        yield "fine"
        raise DataError("bad line", line=2)

    with pytest.raises(DataError, match="line 2: bad line"):
        SentencePieceTokenizer.train("bpe", broken(), vocab_size=400)


@pytest.mark.parametrize("text", ["a" * 2**20, "the cat " * 2**17, "猫吃鱼" * 2**18, "😀" * 2**18])
def test_a_long_line_costs_bounded_time_and_memory(text: str) -> None:
    tokenizer, words = train(), Vocabulary.train("word", lines())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    words.encode(text)
    assert time.process_time() - start <= 2
    # Kilobytes on Linux, bytes on macOS: there the bound is only looser.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 100 * 1024 * (1 if before < 2**26 else 1024)


def test_files_that_are_no_tokenizer_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sentencepiece import SentencePieceTrainer

    path = tmp_path / "tokenizer.model"
    for data in (b"", b"not a model", b"\x0a\xff" * 50):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"tokenizer\.model"):
            SentencePieceTokenizer.load(path)
    with pytest.raises(DataError, match="No such file"):
        SentencePieceTokenizer.load(tmp_path / "missing")
    ours = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    for settings, message in (({}, "special ids"), (ours, "changes text")):
        with open(path, "wb") as stream:
            SentencePieceTrainer.train(
                sentence_iterator=iter(lines()), model_writer=stream, vocab_size=60, minloglevel=2,
                hard_vocab_limit=False, **settings,
            )  # fmt: skip
        with pytest.raises(DataError, match=message):
            SentencePieceTokenizer.load(path)
    monkeypatch.setattr(sentencepiece_tokenizer, "MAX_FILE_BYTES", 100)
    with pytest.raises(DataError, match="too large"):
        SentencePieceTokenizer.load(path)
