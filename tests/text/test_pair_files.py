"""Files of pairs as owners have them: tables with more columns, CSV, records by language."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DataConfig, make_config
from dragoman.data.corpora import languages_of
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.text import PairFormat, ParallelCorpus, ReadCounts, corpus_report
from dragoman.text.pair_format import code_of, is_header, is_language


def read(path: Path, columns: Any = None, *languages: str, **policy: Any) -> list[tuple[str, str]]:
    corpus = ParallelCorpus.from_pairs([path], form=PairFormat.of(columns, *languages), **policy)
    return [(pair.source, pair.target) for pair in corpus]


def put(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TABLE = [("id", "English", "German"), ("1", "a cat", "eine Katze"), ("2", "two", "zwei")]


@pytest.mark.parametrize("columns", ["source=3,target=2", "target=2, source=3", "source=German,target=english",
                                     {"source": 3, "target": 2}])  # fmt: skip
@pytest.mark.parametrize(("name", "between"), [("x.tsv", "\t"), ("x.csv", ","), ("x.TSV", "\t"), ("x.csv.gz", ",")])
def test_columns_by_number_or_by_name(tmp_path: Path, columns: Any, name: str, between: str) -> None:
    path = put(tmp_path / name, "".join(between.join(row) + "\n" for row in TABLE))
    assert read(path, columns) == [("eine Katze", "a cat"), ("zwei", "two")]
    with pytest.raises(DataError, match=r"3 columns: id, English, German(.|\n)*--columns source=1,target=2"):
        read(path)


def test_lines_of_pairs_are_those_of_the_file_and_headers_are_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", "source\ttarget\na\tb\n")
    counts = ReadCounts()
    (pair,) = ParallelCorpus.from_pairs([path], form=PairFormat.of("source=2,target=1")).read(counts)
    assert (pair.source, pair.target, pair.line) == ("b", "a", 2)
    assert counts == ReadCounts(read=1, headers=1)
    counts = ReadCounts()
    assert (
        len(list(ParallelCorpus.from_pairs([path], form=PairFormat.of("source=target,target=source")).read(counts)))
        == 1
    )
    assert counts == ReadCounts(read=1)
    corpus = ParallelCorpus.from_pairs([path])
    assert len(list(corpus)) == 2
    assert any("header" in warning and "--columns" in warning for warning in corpus_report(corpus).warnings)


def test_fields_of_csv_are_quoted_as_the_standard_says(tmp_path: Path) -> None:
    path = put(tmp_path / "x.csv", '"Hello, ""you""",  hi \r\n,""\r\n')
    assert read(path) == [('Hello, "you"', "  hi "), ("", "")]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("x.csv", 'a,b\n"one\ntwo",c\n', None, "line 2: a quoted field does not end"),
        ("x.csv", 'a,b\n"a"b,c\n', None, "line 2: not CSV"),
        ("x.csv", "a,b\nHello, you,c\n", None, "3 columns"),
        ("x.csv", "1,a,b\n2,Hello, you,c\n", "source=2,target=3", "too many columns(.|\n)*as before"),
        ("x.csv", "a;b\n", None, "commas between"),
        ("x.tsv", "1\ta\tb\n2\ta\n", "source=2,target=3", "line 2: there are too few columns"),
        ("x.tsv", "a\tb\n", "source=2,target=3", "line 1: there are too few columns"),
        ("x.tsv", "a\tb\n", "source=x,target=b", "no such column(.|\n)*found:    a, b"),
        ("x.tsv", "a\ta\tb\n", "source=a,target=b", "two columns have that name"),
        ("x.tsv", "A\tb\n", "source=A,target=a", "one column"),
        ("x.jsonl", '{"source": "a", "target": "b", "id": 1}\n', "source=de,target=en", "the keys source, target, id"),
        ("x.jsonl", '{"translation": {"de": "a"}}\n', "source=de,target=en", "not there(.|\n)*found:    de"),
        ("x.jsonl", '{"translation": {"de": "a", "en": null}}\n', "source=de,target=en", '"en" is NoneType'),
        ("x.jsonl", '{"translation": {"de": "a", "en": "b\\nc"}}\n', "source=de,target=en", "more than one line"),
        ("x.jsonl", '{"translation": {"de": "a", "en": "\\u0000"}}\n', "source=de,target=en", "not text"),
    ],
)  # fmt: skip
def test_what_is_no_pair_is_named(tmp_path: Path, name: str, text: str, columns: str | None, message: str) -> None:
    path = put(tmp_path / name, text)
    with pytest.raises(DragomanError, match=message) as caught:
        read(path, columns)
    assert caught.value.file == str(path)
    assert caught.value.line is not None
    assert caught.value.exit_code == 2


def test_a_bad_line_of_a_table_follows_the_policy_but_a_bad_header_stops(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"de\ten\tid\na\tb\t1\n\xff\tc\t2\n")
    assert read(path, "source=de,target=en", on_bad_text="skip") == [("a", "b")]
    assert read(path, "source=de,target=en", on_bad_text="replace") == [("a", "b"), ("\ufffd", "c")]
    path.write_bytes(b"de\xff\ten\na\tb\n")
    with pytest.raises(DataError, match="line 1"):
        read(path, "source=de,target=en", on_bad_text="skip")


@pytest.mark.parametrize(
    ("columns", "languages"),
    [("source=de,target=en", ()), ("source=German,target=English", ()), (None, ("de", "en")),
     ("source=2,target=3", ("de", "en")), ("source=DE,target=EN", ("fr", "cs"))],
)  # fmt: skip
def test_translations_by_language(tmp_path: Path, columns: str | None, languages: tuple[str, ...]) -> None:
    lines = [
        {"translation": {"en": "a cat", "de": "eine Katze"}, "id": "7"},
        {"translation": {"de": "zwei", "en": "two", "fr": "deux"}},
    ]
    path = put(tmp_path / "x.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert read(path, columns, *languages) == [("eine Katze", "a cat"), ("zwei", "two")]


def test_the_direction_is_never_guessed(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", '{"translation": {"en": "a", "de_AT": "b"}}\n')
    with pytest.raises(
        ConfigError, match="source=de_AT,target=en, or the other way round: --columns source=en,target=de_AT"
    ):
        read(path)
    assert read(path, None, "de", "en") == [("b", "a")]
    path = put(tmp_path / "y.jsonl", '{"translation": {"en": "a", "de": "b", "fr": "c"}}\n')
    with pytest.raises(ConfigError, match="found:    de, en, fr"):
        read(path)


def test_a_plain_record_needs_no_columns_and_columns_may_be_its_keys(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", '{"source": "a", "target": "b"}\n')
    assert read(path) == read(path, "source=1,target=2") == read(path, "source=de,target=en") == [("a", "b")]
    assert read(path, "source=target,target=source") == [("b", "a")]
    path = put(tmp_path / "y.jsonl", '{"de": "a", "en": "b", "source": "web"}\n')
    assert read(path, "source=en,target=de") == [("b", "a")]


@pytest.mark.parametrize(
    "text",
    ["", "2,3", "source=2", "source=2,target=2", "source=0,target=1", "source=1,target=-3", "source=,target=2",
     "source=1,target=English", {"source": 1}],
)  # fmt: skip
def test_columns_that_are_none(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"source=\.\.\.,target=\.\.\."):
        make_config({"out": "x", "data": {"pairs": "a.tsv", "columns": text}})
    with pytest.raises(ConfigError):
        PairFormat.of(text)


def test_columns_need_files_that_have_some() -> None:
    with pytest.raises(ConfigError, match="columns are those of files of pairs"):
        DataConfig(source=("a",), target=("b",), columns="source=1,target=2")
    assert DataConfig(pairs=("a.tsv",), columns="target=x, y,source=z").columns == "source=z,target=x, y"


def test_languages_are_known_from_names_of_columns() -> None:
    def languages(columns: str) -> tuple[str | None, str | None]:
        return languages_of(make_config({"out": "x", "data": {"pairs": "a.tsv", "columns": columns}}))

    assert languages("source=German,target=zh_CN") == ("de", "zh")
    assert languages("source=1,target=2") == languages("source=text,target=other") == (None, None)
    assert [code_of(name) for name in ("de-DE", "cn", "the", "English", "")] == ["de", "zh", None, "en", None]
    assert is_language("de-AT", "DE")
    assert is_language("de_AT", "de-at")
    assert not is_language("de", "de-AT")
    assert not is_language("den", "de")
    assert is_header("Source", "target")
    assert is_header("German", "English")
    assert not is_header("de", "de")
    assert not is_header("German", "text")


def test_many_columns_and_keys_make_short_errors(tmp_path: Path) -> None:
    wide = put(tmp_path / "x.csv", "," * 1_000_000 + "\n")
    many = put(tmp_path / "x.jsonl", json.dumps({"translation": {f"k{n}": "" for n in range(100_000)}}) + "\n")
    for path in (wide, many):
        for columns in (None, "source=a,target=b"):
            with pytest.raises(DragomanError) as caught:
                read(path, columns)
            assert len(str(caught.value)) < 1500


ONE_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=20)


@given(pairs=st.lists(st.tuples(ONE_LINE, ONE_LINE), max_size=6), swapped=st.booleans())
def test_what_is_written_is_read_back(pairs: list[tuple[str, str]], swapped: bool) -> None:
    with TemporaryDirectory() as folder:
        order = (2, 1) if swapped else (1, 2)
        columns = f"source={order[0] + 1},target={order[1] + 1}"
        rows = [("x", *(pair[:: -1 if swapped else 1])) for pair in pairs]
        text = io.StringIO(newline="")
        csv.writer(text).writerows([("n", "one", "other"), *rows])
        table = put(Path(folder, "x.csv"), text.getvalue())
        assert read(table, {"source": ("one", "other")[swapped], "target": ("other", "one")[swapped]}) == pairs
        plain = [pair for pair in pairs if "\t" not in "".join(pair)]
        lines = [("x", *(pair[:: -1 if swapped else 1])) for pair in plain]
        assert read(put(Path(folder, "x.tsv"), "".join("\t".join(row) + "\n" for row in lines)), columns) == plain
        records = [{"translation": {"de": source, "en": target}} for source, target in pairs]
        path = put(Path(folder, "x.jsonl"), "".join(json.dumps(record) + "\n" for record in records))
        assert read(path, "source=de,target=en") == pairs
