"""D1-D3, D6 and M4: what must hold of any text whatever."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text import ParallelCorpus, SentencePieceTokenizer, Vocabulary, scan_stream
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.lines import BadText

CORPUS = ["the cat eats fish .", "two dogs ran home", "猫吃鱼，狗看家。", "</s> <pad> <0x41> ▁ ␛"] * 20
TOKENIZERS = [
    SentencePieceTokenizer.train("bpe", CORPUS, vocab_size=360, mask=True),
    SentencePieceTokenizer.train("unigram", CORPUS, vocab_size=330),
    Vocabulary.train("word", CORPUS, mask=True),
    Vocabulary.train("character", CORPUS),
]
IDS = ["bpe", "unigram", "word", "character"]

# Separators that other tools take for line ends, and spellings of control tokens, come up often.
awkward = st.sampled_from(
    ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u2028", "\u2029", "\ufeff", "\u2581", "\u241b", " ",
     "_", "\t", "</s>", "<s>", "<pad>", "<unk>", "<mask>", "<0x0A>", "猫", "e\u0301", "👩\u200d🚀", "שָׁ", "the cat"]
)  # fmt: skip
texts = st.lists(awkward | st.characters(codec="utf-8", exclude_characters="\0"), max_size=10).map("".join)
lines = texts.map(lambda text: text.replace("\n", ""))
some = settings(max_examples=200)
many = settings(max_examples=2000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


def dropped_return(line: str) -> str:
    return line.removesuffix("\r")


def read(data: bytes, policy: BadText = "stop") -> list[tuple[int, str]]:
    stream = scan_stream(io.BytesIO(data), "name", on_bad_text=policy)
    return [(line.number, line.text) for line in stream if line.problem is None]


@many
@given(content=st.lists(awkward | st.sampled_from(["\n", "\r\n", "\n\n", "x"]), max_size=8).map("".join))
def test_there_are_as_many_lines_as_line_feeds(content: str) -> None:
    *whole, rest = content.split("\n")  # the slow and obvious reader
    expected = [dropped_return(line) for line in whole] + [rest] * bool(rest)
    expected[:1] = [line.removeprefix("\ufeff") for line in expected[:1]]
    assert read(content.encode()) == list(enumerate(expected, 1))


@many
@given(data=st.lists(st.binary(max_size=5) | awkward.map(str.encode) | st.just(b"\n"), max_size=6).map(b"".join))
def test_any_bytes_are_read_or_located(data: bytes) -> None:
    replaced, kept = read(data, "replace"), read(data, "skip")
    assert set(kept) <= set(replaced)
    error = problem(lambda: read(data))
    if error is None:
        assert read(data) == replaced == kept
        return
    assert error.line is not None
    assert error.byte is not None
    assert [number for number, _ in kept[: error.line - 1]] == list(range(1, error.line))
    assert error.line not in dict(kept)
    raw = data.split(b"\n")[error.line - 1]
    assert "\0" not in raw[: error.byte].decode()  # all before the byte is text
    assert raw[error.byte] == 0 or not decodes(raw, error.byte)


def problem(attempt: Callable[[], object]) -> DataError | None:
    try:
        attempt()
    except DataError as error:
        return error
    return None


def decodes(raw: bytes, start: int) -> bool:
    for end in range(start + 1, min(start + 5, len(raw) + 1)):
        with suppress(UnicodeDecodeError):
            return bool(raw[start:end].decode())
    return False


@some
@given(source=st.lists(lines, max_size=5), target=st.lists(lines, max_size=5))
def test_aligned_files_give_their_pairs_or_both_counts(folder: Path, source: list[str], target: list[str]) -> None:
    files = folder / "d2.s", folder / "d2.t"
    for path, side in zip(files, (source, target), strict=True):
        path.write_bytes(b"".join(line.encode() + b"\n" for line in side))
    corpus = ParallelCorpus.from_files([files[0]], [files[1]])
    if len(source) != len(target):
        with pytest.raises(DataError) as caught:
            list(corpus)
        assert caught.value.found == f"{len(source)} lines"
        assert str(caught.value.expected).endswith(f" {len(target)}")
        return
    sides = [[dropped_return(line) for line in side] for side in (source, target)]
    for side in sides:
        side[:1] = [line.removeprefix("\ufeff") for line in side[:1]]
    assert [(pair.source, pair.target) for pair in corpus] == list(zip(*sides, strict=True))


@some
@given(source=lines, target=lines)
def test_json_lines_say_what_aligned_files_say(folder: Path, source: str, target: str) -> None:
    path = folder / "x.jsonl"
    path.write_text(json.dumps({"source": source, "target": target}) + "\n", encoding="utf-8", newline="\n")
    (pair,) = ParallelCorpus.from_pairs([path])
    assert (pair.source, pair.target) == (source, target)


@pytest.mark.parametrize("tokenizer", TOKENIZERS[:2], ids=IDS[:2])
@settings(max_examples=1000)
@given(text=texts)
def test_subwords_give_any_text_back_exactly(tokenizer: SentencePieceTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([tokenizer.bos, *ids, tokenizer.eos, tokenizer.pad]) == text


@some
@given(text=texts)
def test_characters_and_words_give_back_what_they_know(text: str) -> None:
    words, characters = Vocabulary.train("word", [text]), Vocabulary.train("character", [text])
    assert characters.decode(characters.encode(text)) == text
    special = {"<pad>", "<unk>", "<s>", "</s>", "<mask>"}
    expected = " ".join("\ufffd" if word in special else word for word in text.split())
    assert words.decode(words.encode(text)) == expected


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=IDS)
@some
@given(text=texts)
def test_no_text_becomes_a_control_id(tokenizer: SentencePieceTokenizer | Vocabulary, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not tokenizer.control & set(ids)
    assert all(0 <= i < len(tokenizer) for i in ids)


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=IDS)
@some
@given(data=st.data())
def test_any_ids_decode_to_text(tokenizer: SentencePieceTokenizer | Vocabulary, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=20))
    tokenizer.decode(ids).encode("utf-8")
    assert len(tokenizer.pieces(ids)) == len(ids)


@some
@given(corpus=st.lists(texts, max_size=5), mask=st.booleans(), characters=st.booleans())
def test_vocabularies_are_saved_and_loaded_without_change(
    folder: Path, corpus: list[str], mask: bool, characters: bool
) -> None:
    kind = "character" if characters else "word"
    tokenizer = Vocabulary.train(kind, corpus, mask=mask)
    tokenizer.save(folder / "a.json")
    again = Vocabulary.load(folder / "a.json")
    again.save(folder / "b.json")
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()
    assert [again.encode(text) for text in corpus] == [tokenizer.encode(text) for text in corpus]
    assert again.mask == tokenizer.mask


values = st.integers(-3, 9) | st.floats() | st.booleans() | st.none() | st.text(max_size=3) | st.just([])
sound = st.permutations(["a", "b"]).map(
    lambda more: [(token, i) for i, token in enumerate(["<pad>", "<unk>", "<s>", "</s>", *more])]
)
names = st.sampled_from(["<pad>", "<unk>", "<s>", "</s>", "<mask>", "a", "b", ""]) | st.text(max_size=2)
changes = st.lists(st.tuples(names, values), max_size=1)
entries = st.builds(lambda good, more, cut: good[cut:] + more, sound, changes, st.integers(0, 1))


@some
@given(entries=entries)
def test_a_vocabulary_file_is_sound_or_refused(folder: Path, entries: list[tuple[str, object]]) -> None:
    path = folder / "d6.json"
    # Written by hand, because a dict could not hold a name twice.
    body = ", ".join(f"{json.dumps(token)}: {json.dumps(i)}" for token, i in entries)
    path.write_text(f'{{"format": 1, "kind": "word", "tokens": {{{body}}}}}', encoding="utf-8")
    error = problem(lambda: Vocabulary.load(path))
    if error is not None:
        assert error.file == str(path)
        return
    tokenizer = Vocabulary.load(path)
    assert {i for _, i in entries} == set(range(len(entries)))
    assert len({token for token, _ in entries}) == len(entries) == len(tokenizer)
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]


@some
@given(text=texts)
def test_skeletons_ignore_case_and_punctuation(text: str) -> None:
    assert skeleton(f" {text}!") in {skeleton(text), skeleton(f"{text}!"), f" {text}!"}
    assert 0 <= text_hash(text) < 2**64
