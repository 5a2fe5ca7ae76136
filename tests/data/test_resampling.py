"""Subword regularisation: other pieces in each epoch, of the same texts; for one epoch always the same."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TrainingConfig, make_config
from dragoman.data import EpochStores, Prepared, doubt_draws, prepare, resampling
from dragoman.errors import ConfigError
from dragoman.text import SentencePieceTokenizer

WORDS = ["river", "bank", "\u732b\u5403\u9c7c", "stra\u00dfe", "under", "understand", "a\u2581b", "12", "the", "then"]


def corpus(folder: Path, lines: int = 150) -> dict[str, Any]:
    draw = random.Random(0)
    data: dict[str, Any] = {}
    for part, count in (("", lines), ("dev_", 5)):
        for side in ("source", "target"):
            rows = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 9))) for _ in range(count)]
            path = folder / f"{part}{side}.txt"
            path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
            data[part + side] = [str(path)]
    return data


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def data(kind: str, tmp_path_factory) -> Prepared:
    folder = tmp_path_factory.mktemp(kind)
    tokenizer = {"kind": kind, "vocab_size": 330, "joint": False}
    tree = {"out": "x", "data": corpus(folder), "tokenizer": tokenizer}
    return prepare(make_config(tree), folder / "prepared")


@pytest.fixture
def settings(kind: str) -> dict[str, Any]:
    return {"bpe_dropout": 0.3} if kind == "bpe" else {"unigram_alpha": 0.2}


def sources(store) -> list[list[int]]:
    return [store.source(i).tolist() for i in range(len(store))]


def targets(store) -> list[list[int]]:
    return [store.target(i).tolist() for i in range(len(store))]


def stores(data: Prepared, settings: dict[str, Any], **more: Any) -> EpochStores:
    return EpochStores(data, TrainingConfig.from_dict({**settings, **more}))


def test_each_epoch_has_other_pieces_of_the_same_texts(data, settings):
    epochs = [stores(data, settings).of(epoch) for epoch in range(2)]
    decoders = data.tokenizers.source.decode, data.tokenizers.target.decode
    for rows, decode in zip((sources, targets), decoders, strict=True):
        plain, *drawn = (rows(store) for store in (data.train, *epochs))
        assert plain != drawn[0] != drawn[1] != plain
        for one in drawn:
            assert [decode(ids) for ids in one] == [decode(ids) for ids in plain]


def test_an_epoch_is_a_pure_function_of_its_number_and_the_seed(data, settings):
    first, second = stores(data, settings), stores(data, settings)
    second.of(0)
    second.of(3)  # what was drawn before does not matter
    for rows in (sources, targets):
        assert rows(first.of(2)) == rows(second.of(2))
    assert sources(stores(data, settings, seed=2).of(2)) != sources(first.of(2))


def test_a_long_corpus_is_drawn_in_parts_that_differ(data, settings, monkeypatch):
    monkeypatch.setattr(resampling, "CHUNK", 7)
    store = stores(data, settings).of(0)
    assert len(store) == len(data.train)
    assert [data.tokenizers.source.decode(ids) for ids in sources(store)] == [
        data.tokenizers.source.decode(ids) for ids in sources(data.train)
    ]
    assert store.source_lengths.tolist() == [len(ids) for ids in sources(store)]


def test_one_side_may_be_left_alone(data, settings):
    store = stores(data, settings, sampled_sides="source").of(0)
    assert targets(store) == targets(data.train)
    assert sources(store) != sources(data.train)


def test_nothing_is_drawn_unless_asked_for(data):
    assert stores(data, {}).of(5) is data.train


def test_a_setting_for_the_other_kind_of_tokenizer_is_refused(data, kind):
    other = {"unigram_alpha": 0.1} if kind == "bpe" else {"bpe_dropout": 0.1}
    with pytest.raises(ConfigError, match="is for") as caught:
        stores(data, other)
    assert caught.value.found == kind


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=6)) for _ in range(200)]
    return SentencePieceTokenizer.train("bpe", texts, vocab_size=330)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4), st.integers(0, 99))
def test_any_text_comes_back_from_drawn_pieces(tokenizer, texts, seed):
    rows = [tokenizer.encode(text) for text in texts]
    drawn = tokenizer.resampled(rows, amount=0.5, seed=seed)
    assert [tokenizer.decode(ids) for ids in drawn] == texts
    assert not tokenizer.control & {i for ids in drawn for i in ids}


def test_a_part_of_a_character_is_left_as_it_is(tokenizer):
    spelled = tokenizer.encode("\U0001f43c")  # in bytes, of which a cut line may keep some
    part = spelled[:-2]
    assert tokenizer.resampled([part], amount=0.5, seed=1) == [part]


def test_a_part_that_begins_within_a_word_stays_so(tokenizer):
    spelled = tokenizer.encode(" ".join([*WORDS, "unheard-of"]))
    parts = [spelled[start:] for start in range(1, len(spelled))]
    within = [not tokenizer.pieces(part)[0].startswith("\u2581") for part in parts]
    assert any(within)
    assert tokenizer.resampled(parts, amount=1e-9, seed=1) == parts
    drawn = tokenizer.resampled(parts, amount=0.5, seed=1)
    assert [part for part, inside in zip(parts, within, strict=True) if inside] == [
        one for one, inside in zip(drawn, within, strict=True) if inside
    ]
    assert [tokenizer.decode(ids) for ids in drawn] == [tokenizer.decode(ids) for ids in parts]


def test_more_dropout_gives_more_pieces_and_none_the_plain_ones(tokenizer):
    rows = [tokenizer.encode(" ".join(WORDS))] * 20
    counts = [np.mean([len(ids) for ids in tokenizer.resampled(rows, amount=p, seed=1)]) for p in (0.05, 0.3, 0.9)]
    assert len(rows[0]) < counts[0] < counts[1] < counts[2]
    assert tokenizer.resampled(rows, amount=0.0, seed=1) == rows


def test_another_process_draws_the_same_pieces_unless_told_otherwise(data, settings, tmp_path):
    code = """
import sys
from dragoman.text import SentencePieceTokenizer
tokenizer = SentencePieceTokenizer.load(sys.argv[1])
texts = ["understand the river bank"] * 400
print(tokenizer.resampled([tokenizer.encode(text) for text in texts], amount=0.3, seed=7))
"""
    data.tokenizers.source.save(tmp_path / "model")
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert (first == second) == (doubt_draws(TrainingConfig.from_dict(settings)) is None)
    assert doubt_draws(TrainingConfig()) is None
    rows = json.loads(first)
    assert len({tuple(row) for row in rows}) > 1, "something is drawn"


def test_shards_are_written_anew_for_each_epoch(kind, settings, tmp_path):
    """Killed between two shards, the writing goes on; an epoch that is there is read as it is; older ones go."""
    tree = {"out": "x", "data": corpus(tmp_path), "tokenizer": {"kind": kind, "vocab_size": 330, "joint": False}}
    tree["data"] |= {"shard_pairs": 40}
    data, folder = prepare(make_config(tree), tmp_path / "prepared"), tmp_path / "epochs"
    plain, training = data.train, TrainingConfig.from_dict(settings)
    epochs = EpochStores(data, training, folder=folder)
    first = epochs.of(0)
    assert sources(first) != sources(plain)
    for drawn, stored, tokenizer in (
        (sources(first), sources(plain), data.tokenizers.source),
        (targets(first), targets(plain), data.tokenizers.target),
    ):
        assert [tokenizer.decode(ids) for ids in drawn] == [tokenizer.decode(ids) for ids in stored]
    assert epochs.of(0) is first
    written = {path: path.read_bytes() for path in folder.rglob("*.tokens")}
    (folder / "000000" / "store.json").unlink()
    shutil.rmtree(folder / "000000" / "00003")
    again = EpochStores(data, training, folder=folder)
    assert len(again.of(0)) == len(plain)
    assert all(path.read_bytes() == before for path, before in written.items() if path.parent.name != "00003")
    second = again.of(1)
    assert sources(second) != sources(first)
    again.of(2)
    assert sorted(path.name for path in folder.iterdir()) == ["000001", "000002"]
    again.discard()
    assert not folder.exists()
