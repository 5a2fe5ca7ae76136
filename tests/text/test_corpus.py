from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dragoman.config import DataConfig
from dragoman.errors import ConfigError, DataError
from dragoman.text import Pair, ParallelCorpus, ReadCounts, guess_language


def put(path: Path, *lines: str | bytes) -> str:
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def aligned(folder: Path, source: list[str], target: list[str]) -> ParallelCorpus:
    return ParallelCorpus.from_files([put(folder / "s", *source)], [put(folder / "t", *target)])


def texts(corpus: ParallelCorpus) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in corpus]


def test_every_layout_in_one_corpus_read_twice(tmp_path: Path) -> None:
    data = DataConfig(
        source=(put(tmp_path / "a.en", "a", ""), put(tmp_path / "b.en.gz", "b")),
        target=(put(tmp_path / "a.de.gz", "A", "E"), put(tmp_path / "b.de", "B")),
        pairs=(
            put(tmp_path / "c.tsv", "c\tC", "\t"),
            put(tmp_path / "d.jsonl.gz", json.dumps({"source": "d", "target": "猫", "id": 7})),
        ),
    )
    corpus = ParallelCorpus.from_config(data)
    expected = [("a", "A"), ("", "E"), ("b", "B"), ("c", "C"), ("", ""), ("d", "猫")]
    assert texts(corpus) == expected
    counts = ReadCounts()
    assert len(list(corpus.read(counts))) == 6
    assert counts == ReadCounts(read=6)
    assert list(corpus)[1] == Pair("", "E", data.source[0], 2)
    assert corpus.files == (data.source[0], data.target[0], data.source[1], data.target[1], *data.pairs)
    assert set(corpus.hashes()) == set(corpus.files)
    assert ParallelCorpus.from_config(data, "dev").files == ()


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [
        (["a", "b", "c"], ["a", "b"], (3, 2)),
        (["a", "b"], ["a", "b", "", ""], (2, 4)),
        ([], ["a"], (0, 1)),
    ],
)
def test_unequal_files_stop_with_both_counts(
    tmp_path: Path, source: list[str], target: list[str], counts: tuple[int, int]
) -> None:
    with pytest.raises(DataError, match="different numbers of lines") as caught:
        list(aligned(tmp_path, source, target))
    assert caught.value.found == f"{counts[0]} lines"
    assert str(caught.value.expected).endswith(f"which has {counts[1]}")
    assert caught.value.exit_code == 2


def test_a_missing_final_newline_is_not_a_missing_line(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"a\nb")
    (tmp_path / "t").write_bytes(b"A\nB\n")
    corpus = ParallelCorpus.from_files([tmp_path / "s"], [tmp_path / "t"])
    assert texts(corpus) == [("a", "A"), ("b", "B")]


def test_the_first_line_out_of_step_is_named(tmp_path: Path) -> None:
    lengths = [10 * (1 + 4 * (i % 2)) for i in range(40)]
    source = ["x" * n for n in lengths]
    target = ["y" * n for i, n in enumerate(lengths) if i != 16]
    with pytest.raises(DataError, match="line 17 is the first"):
        list(aligned(tmp_path, source, target))


def test_skip_drops_the_pair_on_both_sides_and_replace_keeps_it(tmp_path: Path) -> None:
    files = [put(tmp_path / "s", "a", b"\xff", "c", b"\xff")], [put(tmp_path / "t", "A", "B", b"\xff", b"\xff")]
    with pytest.raises(DataError, match="line 2, byte 0"):
        list(ParallelCorpus.from_files(*files))
    counts = ReadCounts()
    assert [pair.source for pair in ParallelCorpus.from_files(*files, on_bad_text="skip").read(counts)] == ["a"]
    assert counts == ReadCounts(read=4, skipped=3)
    counts = ReadCounts()
    kept = [(p.source, p.target) for p in ParallelCorpus.from_files(*files, on_bad_text="replace").read(counts)]
    assert kept == [("a", "A"), ("\ufffd", "B"), ("c", "\ufffd"), ("\ufffd", "\ufffd")]
    assert counts == ReadCounts(read=4, replaced=3)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("x.tsv", "one", "found:    1 column$"),
        ("x.tsv", "a\tb\tc", "found:    3 columns\n.*--columns source=1,target=2"),
        ("x.tsv", "", "1 column"),
        ("x.jsonl", "{", "not JSON"),
        ("x.jsonl", "", "not JSON"),
        ("x.jsonl", "[" * 100_000, "not JSON"),
        ("x.jsonl", "[1]", "found:    list"),
        ("x.jsonl", '{"source": "a"}', "the keys source"),
        ("x.jsonl", '{"source": "a", "target": null}', '"target" is NoneType'),
        ("x.jsonl", '{"source": "a\\nb", "target": "c"}', "more than one line"),
        ("x.jsonl", '{"source": "a", "target": "\\u0000"}', "the target is not text"),
        ("x.jsonl", '{"source": "\\ud83d", "target": "b"}', "the source is not text"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, name: str, line: str, message: str) -> None:
    good = "a\tb" if name.endswith("tsv") else '{"source": "a", "target": "b"}'
    path = put(tmp_path / name, good, line)
    with pytest.raises(DataError, match=message) as caught:
        list(ParallelCorpus.from_pairs([path]))
    assert (caught.value.file, caught.value.line) == (path, 2)


def test_what_json_can_spell_and_text_cannot_follows_the_policy(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", '{"source": "\\ud83d\\ude00\\ud83d", "target": "b\\u0000"}')
    counts = ReadCounts()
    assert list(ParallelCorpus.from_pairs([path], on_bad_text="skip").read(counts)) == []
    assert counts == ReadCounts(read=1, skipped=1)
    (pair,) = ParallelCorpus.from_pairs([path], on_bad_text="replace")
    assert (pair.source, pair.target) == ("😀\ufffd", "b\ufffd")


def test_settings_that_make_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no training pairs"):
        ParallelCorpus.from_config(DataConfig())
    with pytest.raises(ConfigError, match="go in pairs"):
        ParallelCorpus.from_config(DataConfig(source=("a", "b"), target=("c",)))
    with pytest.raises(ConfigError, match="suffix"):
        ParallelCorpus.from_config(DataConfig(pairs=("a.xlsx",)))


@pytest.mark.parametrize(
    ("files", "language"),
    [
        (["train.de"], "de"),
        (["a.x.ZH.gz", "b.zh"], "zh"),
        (["a.de", "b.en"], None),
        (["a.cn"], "zh"),
        (["a.jp.gz"], "ja"),
        (["a.txt"], None),
        (["a.graphemes"], None),
        ([], None),
        (["a.12"], None),
    ],
)
def test_language_from_the_suffix(files: list[str], language: str | None) -> None:
    assert guess_language(files) == language
