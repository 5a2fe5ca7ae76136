"""Parquet files of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.text import PairFormat, ParallelCorpus, ReadCounts

PAIRS = [("a cat", "eine Katze"), ("two", "zwei"), ("", "drei")]


def put(path: Path, columns: dict[str, Any]) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


def read(path: Path, columns: Any = None, *languages: str, **more: Any) -> list[tuple[str, str]]:
    corpus = ParallelCorpus.from_pairs([path], form=PairFormat.of(columns, *languages), **more)
    return [(pair.source, pair.target) for pair in corpus]


@pytest.mark.parametrize("columns", ["source=3,target=2", "source=English,target=german"])
def test_columns_by_number_or_by_name(tmp_path: Path, columns: str) -> None:
    sources, targets = (list(side) for side in zip(*PAIRS, strict=True))
    path = put(tmp_path / "x.parquet", {"id": [1, 2, 3], "German": targets, "English": sources})
    assert read(path, columns) == PAIRS
    with pytest.raises(ConfigError, match="no such column"):
        read(path)
    with pytest.raises(ConfigError, match="no such column"):
        read(path, "source=1,target=9")
    with pytest.raises(DataError, match='"id" is int'):
        read(path, "source=1,target=2")


def test_source_and_target_translations_and_two_columns(tmp_path: Path) -> None:
    sources, targets = (list(side) for side in zip(*PAIRS, strict=True))
    assert read(put(tmp_path / "a.parquet", {"target": targets, "n": [1, 2, 3], "source": sources})) == PAIRS
    assert read(put(tmp_path / "b.parquet", {"en": sources, "de": targets})) == PAIRS
    path = put(tmp_path / "c.parquet", {"translation": [{"de": de, "en": en} for en, de in PAIRS]})
    assert read(path, None, "en", "de") == PAIRS
    assert read(path, "source=de,target=en") == [(de, en) for en, de in PAIRS]
    with pytest.raises(ConfigError, match="does not say which"):
        read(path)


def test_missing_cells_and_bad_text_are_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "x.parquet", {"source": ["a", None, "b\0"], "target": ["c", "d", "e"]})
    with pytest.raises(DataError, match="no NUL"):
        read(path)
    for policy, expected in (("skip", [("a", "c")]), ("replace", [("a", "c"), ("b\ufffd", "e")])):
        counts = ReadCounts()
        found = list(ParallelCorpus.from_pairs([path], on_bad_text=policy).read(counts))
        assert [pair[:2] for pair in found] == expected
        assert (counts.read, counts.incomplete) == (3, 1)
        assert counts.skipped + counts.replaced == 1
    with pytest.raises(DataError, match="more than one line"):
        read(put(tmp_path / "y.parquet", {"source": ["a\nb"], "target": ["c"]}))


def test_what_is_no_parquet_is_one_message(tmp_path: Path) -> None:
    whole = put(tmp_path / "x.parquet", {"source": ["a"] * 50, "target": ["b"] * 50}).read_bytes()
    for number, data in enumerate((b"", b"PAR1", b"no", whole[:-9], whole[9:], whole[:60] + b"\xff" * 30 + whole[90:])):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(data)
        with pytest.raises(DragomanError) as caught:
            read(path)
        assert caught.value.file == str(path)
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="compressed inside"):
        read(tmp_path / "x.parquet.gz")
