"""Training files that an epoch sees more than once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import make_config
from dragoman.data import prepare
from dragoman.errors import ConfigError


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def tree(folder: Path, **data: object) -> dict:
    own = [f"w{i}" for i in range(8)]
    files = {
        "source": [write(folder / "s.txt", own)], "target": [write(folder / "t.txt", own)],
        "pairs": [write(folder / "made.tsv", [f"m{i}\tm{i}" for i in range(3)])],
    }  # fmt: skip
    return {"out": "x", "data": {**files, **data}, "tokenizer": {"kind": "word", "joint": True}}


def seen(data) -> list[str]:
    rows = [data.train.source(i).tolist() for i in range(len(data.train))]
    return [data.tokenizers.source.decode(ids) for ids in rows]


def test_each_file_is_seen_as_often_as_said(tmp_path):
    told: list[str] = []
    dev = {"dev_source": [write(tmp_path / "d", ["w1"])], "dev_target": [write(tmp_path / "e", ["w1"])]}
    data = prepare(make_config(tree(tmp_path, repeat=[3, 1], **dev)), tmp_path / "p", report=told.append)
    texts = seen(data)
    assert {text: texts.count(text) for text in texts} == {**{f"w{i}": 3 for i in range(8)}, "m0": 1, "m1": 1, "m2": 1}
    assert data.counts["train"].kept == 11
    assert "train: 27 pairs with those that are repeated" in told


def test_pairs_split_off_are_held_out_once_and_never_trained_on(tmp_path):
    data = prepare(make_config(tree(tmp_path, repeat=[2, 5])), tmp_path / "p")
    assert len(set(data.dev_source)) == len(data.dev_source)
    assert not set(data.dev_source) & set(seen(data))


def test_repetition_goes_with_dropped_duplicates(tmp_path):
    data = prepare(make_config(tree(tmp_path, repeat=[2, 1], drop_duplicates=True)), tmp_path / "p")
    texts = seen(data)
    assert all(texts.count(text) == 2 for text in texts if text.startswith("w"))


def test_lines_of_a_text_can_be_repeated_too(tmp_path):
    files = [write(tmp_path / "a", ["a b", "b c", "c d"]), write(tmp_path / "b", ["x y"])]
    config = {
        "out": "x", "data": {"text": files, "dev_text": [write(tmp_path / "d", ["a"])], "repeat": [1, 4]},
        "tokenizer": {"kind": "word"}, "model": {"family": "causal"},
    }  # fmt: skip
    assert len(prepare(make_config(config), tmp_path / "p").train) == 7


def test_numbers_that_do_not_fit_the_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="repeat has 1 numbers for 2 training files"):
        make_config(tree(tmp_path, repeat=[2]))
    with pytest.raises(ConfigError, match="named twice"):
        make_config({"out": "x", "data": {"text": ["a", "a"], "repeat": [1, 2]}})
    with pytest.raises(ConfigError):
        make_config(tree(tmp_path, repeat=[2, 0]))
