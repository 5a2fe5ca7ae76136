"""A text read and reported on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dragoman.config import DataConfig
from dragoman.errors import DataError
from dragoman.text import ReadCounts, TextCorpus, TextLine, text_report
from dragoman.text.lines import file_hash


def test_each_line_is_a_pair_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one two\n\nthree\r\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress("\u732b\tfish".encode()))
    files = str(tmp_path / "a"), str(tmp_path / "b.gz")
    corpus = TextCorpus.from_config(DataConfig(text=files))
    found = list(corpus)
    assert [(line.target, line.file, line.line) for line in found] == [
        ("one two", files[0], 1), ("", files[0], 2), ("three", files[0], 3), ("\u732b\tfish", files[1], 1),
    ]  # fmt: skip
    assert all(isinstance(line, TextLine) and line.source == "" for line in found)
    assert [line.is_complete for line in found] == [True, False, True, True]
    assert list(corpus) == found, "it can be read again"
    assert corpus.hashes() == {file: file_hash(file) for file in files}
    assert not TextCorpus.from_config(DataConfig(text=files), "dev").files


def test_bad_lines_follow_the_policy(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n\xff\nthree\n")
    file = str(tmp_path / "a")
    with pytest.raises(DataError) as caught:
        list(TextCorpus((file,)))
    assert (caught.value.file, caught.value.line) == (file, 2)
    counts = ReadCounts()
    assert [line.target for line in TextCorpus((file,), "skip").read(counts)] == ["one", "three"]
    assert (counts.read, counts.skipped) == (3, 1)


def test_the_report_counts_what_is_there() -> None:
    def lines(*texts: str) -> list[TextLine]:
        return [TextLine("", text, "f", number) for number, text in enumerate(texts, 1)]

    train = lines("A cat.", "a cat", "A cat.", "", " ", "x\ufffd", "dog  house")
    report = text_report(train, lines("a  CAT!", "new", ""), lines("new"))
    assert (report.line_count, report.text.empty, report.duplicate_lines) == (7, 2, 1)
    assert report.text.oddities == {
        "blanks at an end": 1, "several blanks in a row": 1, "replacement characters": 1,
    }  # fmt: skip
    assert report.dev is not None
    assert report.test is not None
    assert (report.dev.lines, report.dev.empty, report.dev.in_train) == (3, 1, 1)
    assert (report.test.lines, report.test.in_train) == (1, 0)
    for words in ("replacement characters", "drop_duplicates", "drop_overlap", "are empty"):
        assert any(words in warning for warning in report.warnings)
    tree = json.loads(json.dumps(report.to_dict()))
    assert (tree["line_count"], tree["warnings"]) == (7, list(report.warnings))
    assert report.lines()[0] == "7 lines"
    assert not text_report(lines("a", "b")).warnings
    assert text_report([]).lines()[0] == "0 lines"
