from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data import TokenStore
from dragoman.errors import DataError

PAIRS = [([5, 6, 7], [8]), ([], [9, 9]), ([65535], [])]


def test_pairs_come_back_as_views(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "s", iter(PAIRS), vocabulary_size=65536)
    assert len(store) == 3
    assert [(store.source(i).tolist(), store.target(i).tolist()) for i in range(3)] == PAIRS
    assert store.source_lengths.tolist() == [3, 0, 1]
    assert store.target_lengths.tolist() == [1, 2, 0]
    assert store.source_lengths.dtype == store.target_lengths.dtype == np.int64
    assert store.source(0).dtype == np.uint16
    assert not store.source(0).flags.writeable
    assert store.source(0).base is not None
    for index in (3, -1):
        with pytest.raises(IndexError):
            store.source(index)


@pytest.mark.parametrize(("size", "dtype"), [(65536, np.uint16), (65537, np.uint32)])
def test_ids_take_two_bytes_where_they_fit(tmp_path: Path, size: int, dtype: type) -> None:
    store = TokenStore.write(tmp_path / "s", [([size - 1], [0])], vocabulary_size=size)
    assert store.source(0).dtype == dtype
    assert store.source(0).tolist() == [size - 1]


def test_an_id_beyond_the_vocabulary_is_our_mistake_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OverflowError):
        TokenStore.write(tmp_path / "s", [([1], [2]), ([70000], [1])], vocabulary_size=100)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_and_one_that_exists(tmp_path: Path) -> None:
    assert len(TokenStore.write(tmp_path / "deep" / "s", [], vocabulary_size=10)) == 0
    with pytest.raises(DataError, match="exists already"):
        TokenStore.write(tmp_path / "deep" / "s", [], vocabulary_size=10)


def test_the_same_pairs_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        TokenStore.write(tmp_path / name, PAIRS, vocabulary_size=65536)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


FILES = ["source.tokens", "source.offsets", "target.tokens", "target.offsets", "store.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["remove", "shorten", "lengthen", "empty"])
def test_damaged_files_are_refused_by_name(tmp_path: Path, name: str, damage: str) -> None:
    path = TokenStore.write(tmp_path / "s", PAIRS, vocabulary_size=65536).directory / name
    data = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes({"shorten": data[:-1], "lengthen": data + b"\1\0", "empty": b""}[damage])
        if name == "store.json" and damage == "shorten":  # it ended in a newline
            path.write_bytes(data[:-2])
    with pytest.raises(DataError) as caught:
        TokenStore.open(tmp_path / "s")
    assert caught.value.file == str(path)


@pytest.mark.parametrize("name", FILES[:4])
def test_one_flipped_bit_is_seen_when_verifying(tmp_path: Path, name: str) -> None:
    path = TokenStore.write(tmp_path / "s", PAIRS, vocabulary_size=65536).directory / name
    TokenStore.open(tmp_path / "s", verify=True)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        TokenStore.open(tmp_path / "s", verify=True)
    assert caught.value.file == str(path)


def test_descriptions_that_lie_are_refused(tmp_path: Path) -> None:
    TokenStore.write(tmp_path / "s", PAIRS, vocabulary_size=65536)
    path = tmp_path / "s" / "store.json"
    good = json.loads(path.read_text())
    lies: list[object] = [
        {**good, "format": 2},
        {**good, "dtype": "O"},
        {**good, "pairs": 2},
        {**good, "pairs": -1},
        {**good, "pairs": "3"},
        {**good, "dtype": "<u4"},
        {**good, "files": {**good["files"], "../x": good["files"]["source.tokens"]}},
        {**good, "files": dict.fromkeys(good["files"], 7)},
        {},
        [],
        None,
    ]
    for lie in lies:
        path.write_text(json.dumps(lie))
        with pytest.raises(DataError, match="token"):
            TokenStore.open(tmp_path / "s")


ids = st.lists(st.integers(0, 300), max_size=6)


@settings(max_examples=50)
@given(pairs=st.lists(st.tuples(ids, ids), max_size=8))
def test_any_pairs_come_back(
    pairs: list[tuple[list[int], list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = TokenStore.write(tmp_path_factory.mktemp("any") / "s", pairs, vocabulary_size=301)
    assert [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))] == pairs
