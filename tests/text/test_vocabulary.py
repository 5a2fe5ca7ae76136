from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.text import Vocabulary, vocabulary

SPECIALS = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}


def test_words_are_counted_sorted_and_cut() -> None:
    texts = ["b a  b", "\tc b a\u3000d"]
    words = Vocabulary.train("word", texts)
    assert words.pieces(range(len(words))) == [*SPECIALS, "b", "a", "c", "d"]
    assert words.encode(" d  b x ") == [7, 4, 1]
    assert words.decode([2, 7, 4, 1, 3, 0]) == "d b \ufffd"
    assert len(Vocabulary.train("word", texts, min_count=2)) == 6
    assert Vocabulary.train("word", texts, size=5).encode("a b") == [1, 4]
    assert Vocabulary.train("word", texts, mask=True).mask == 4
    assert words.mask is None


def test_characters_come_back_exactly() -> None:
    letters = Vocabulary.train("character", ["a cat", "猫 "])
    assert letters.decode(letters.encode("a  猫 tac ")) == "a  猫 tac "
    assert letters.pieces(letters.encode("a 猫")) == ["a", "▁", "猫"]
    assert letters.decode(letters.encode("dog")) == "\ufffd" * 3


@pytest.mark.parametrize("mask", [False, True])
def test_text_never_becomes_a_control_id(mask: bool) -> None:
    text = "<pad> <unk> <s> </s> <mask> <0x41>"
    for kind in ("word", "character"):
        tokenizer = Vocabulary.train(kind, [text], mask=mask)
        assert not tokenizer.control & set(tokenizer.encode(text))


@pytest.mark.parametrize("kind", ["word", "character"])
def test_save_load_save_gives_identical_bytes(tmp_path: Path, kind: str) -> None:
    tokenizer = Vocabulary.train("word" if kind == "word" else "character", ['é 猫 " \\ \u2028x <s>', "b"], mask=True)
    tokenizer.save(tmp_path / "a.json")
    again = Vocabulary.load(tmp_path / "a.json")
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (again.kind, again.mask, again.encode("猫 b")) == (tokenizer.kind, 4, tokenizer.encode("猫 b"))


def malformed() -> dict[str, str]:
    def tokens(**ids: object) -> str:
        return json.dumps({"format": 1, "kind": "word", "tokens": {**SPECIALS, **ids}})

    return {
        "twice": '{"format": 1, "kind": "word", "tokens": {"<pad>": 0, "a": 4, "a": 5}}',
        "special token is missing": json.dumps({"format": 1, "kind": "word", "tokens": {"<pad>": 0, "a": 1}}),
        "special token is missin": json.dumps(
            {"format": 1, "kind": "word", "tokens": {"a": 0, "b": 1, "c": 2, "d": 3}}
        ),
        "out of range": tokens(a=5),
        "out of rang": tokens(a=-1),
        "out of ran": tokens(a=2**63),
        "same id": tokens(a=3),
        "not an integer": tokens(a=4.0),
        "not an intege": tokens(a=True),
        "not an integ": tokens(a="4"),
        "not an inte": tokens(a=None),
        "not a word": tokens(**{"a b": 4}),
        "not a wor": tokens(**{"": 4}),
        "not a wo": tokens(**{"\ud800": 4}),
        "not a character": tokens(ab=4).replace('"word"', '"character"'),
        "not JSON": '{1: "a"}',
        "not JSO": "[" * 100_000,
        "not JS": '{"format": ' + "9" * 5000 + "}",
        "not a JSON object": "[]",
        "unknown vocabulary format": '{"format": 2}',
        "unknown kind": '{"format": 1, "kind": "bpe", "tokens": {}}',
        'no "tokens"': '{"format": 1, "kind": "word", "tokens": ["a"]}',
    }


def test_it_says_whether_sources_have_an_end(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    Vocabulary("word", [*SPECIALS, "a"], ends=False).save(path)
    found = Vocabulary.load(path).extended(["b"])
    assert found.specials.source_end == ()
    assert found.encode("a b") == [4, 5]
    found.save(path)
    assert '"ends": false' in path.read_text(encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace('"ends": false', '"ends": 0'), encoding="utf-8")
    with pytest.raises(DataError, match=r"ends: true or false(.|\n)*0"):
        Vocabulary.load(path)


@pytest.mark.parametrize(("message", "text"), malformed().items(), ids=malformed())
def test_malformed_files_are_refused_by_name(tmp_path: Path, message: str, text: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        Vocabulary.load(path)
    assert caught.value.file == str(path)
    assert len(str(caught.value)) < 1000


def test_files_that_are_too_large_or_missing_or_not_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocabulary.json"
    with open(path, "wb") as stream:
        stream.truncate(vocabulary.MAX_FILE_BYTES + 1)
    with pytest.raises(DataError, match="too large"):
        Vocabulary.load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match="not JSON"):
        Vocabulary.load(path)
    with pytest.raises(DataError, match="No such file"):
        Vocabulary.load(tmp_path / "missing.json")
    monkeypatch.setattr(vocabulary, "MAX_FILE_BYTES", 100)
    with pytest.raises(DataError, match="min_count"):
        Vocabulary.train("word", [" ".join(f"word{i}" for i in range(50))]).save(tmp_path / "large.json")
