"""A text prepared: pairs without a source, by the same filters, counts and stores."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from dragoman.config import TrainConfig, make_config, merge
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError, DataError
from dragoman.text import TextReport

WORDS = ["the", "a", "cat", "dog", "house", "eats", "sees", "fish", "big", "small", "two", "three", "runs", "home"]


def lines(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) + "." for _ in range(count)]


def put(path: Path, texts: list[str]) -> str:
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return str(path)


def config(folder: Path, *, dev: bool = True, extra: tuple[str, ...] = (), family: str = "causal", **data: object):
    files: dict[str, object] = {"text": [put(folder / "train.en.gz", [*lines(200), *extra])]}
    if dev:
        files["dev_text"] = put(folder / "dev.en", lines(20, seed=1))
    tree = {"out": "unused", "model": {"family": family}, "tokenizer": {"vocab_size": 320}}
    return make_config({**tree, "data": files | data})


def texts(made: Prepared) -> list[str]:
    return [made.tokenizers.target.decode(made.train.target(row).tolist()) for row in range(len(made.train))]


def test_a_text_is_pairs_without_a_source(tmp_path: Path) -> None:
    said: list[str] = []
    made = prepare(config(tmp_path), tmp_path / "out", report=said.append)
    assert made.is_text
    assert texts(made) == lines(200)
    assert not made.train.source_lengths.any()
    assert len(made.train.source_lengths) == 200
    assert made.dev_target == lines(20, seed=1)
    assert made.dev_source == [""] * 20
    assert made.tokenizers.joint
    assert made.tokenizers.target.mask is None
    assert made.languages == (None, "en")
    assert isinstance(made.report, TextReport)
    assert made.report.line_count == 200
    assert {"200 lines", "train: 200 of 200 lines kept", "dev: 20 of 20 lines kept"} <= set(said)
    again = Prepared.open(tmp_path / "out", verify=True)
    assert (again.is_text, again.report, again.counts) == (True, made.report, made.counts)


def test_lines_are_held_out_dropped_and_counted(tmp_path: Path) -> None:
    extra = ("", "  ", lines(1)[0], lines(1, seed=1)[0].upper())
    settings = config(tmp_path, extra=extra, drop_duplicates=True, drop_overlap=True)
    counts = prepare(settings, tmp_path / "out").counts["train"]
    assert counts.dropped == {"empty": 2, "duplicate": 1, "overlap": 1}
    made = prepare(config(tmp_path, dev=False), tmp_path / "split")
    assert made.held_out
    assert made.counts["train"].dropped == {"held out": 10}
    assert sorted([*texts(made), *made.dev_target]) == sorted(lines(200))
    one = {"out": "x", "model": {"family": "causal"}, "data": {"text": put(tmp_path / "one", ["a"])}}
    with pytest.raises(DataError, match="too few lines") as caught:
        prepare(make_config(one), tmp_path / "one.out")
    assert "--dev-text" in (caught.value.hint or "")


def test_long_lines_are_split_into_equal_parts_or_left_out_with_a_hint(tmp_path: Path) -> None:
    long = " ".join(WORDS * 3)
    settings = {"extra": (long,) * 4, "max_target_tokens": 12}
    words = {"tokenizer": {"kind": "word", "vocab_size": None}}
    made = prepare(config(tmp_path, **settings).replace(words), tmp_path / "split")
    counts = made.counts["train"]
    assert (counts.read, counts.kept, counts.split, counts.parts) == (204, 204, 4, 16)
    assert len(made.train) == 200 + 16
    assert "204 of 204 lines kept, 4 of them split into 16" in str(counts)
    parts = texts(made)[200:204]
    assert " ".join(parts) == long
    assert {len(part.split()) for part in parts} == {10, 11}
    said: list[str] = []
    dropped = prepare(
        config(tmp_path, **settings, long_lines="drop").replace(words), tmp_path / "drop", report=said.append
    )
    assert dropped.counts["train"].dropped == {"too long": 4}
    assert [line for line in said if "4 lines are too long" in line and "data.long_lines = split" in line]


def test_a_masked_model_gets_its_symbol_and_other_data_of_its_own(tmp_path: Path) -> None:
    masked = prepare(config(tmp_path, family="masked"), tmp_path / "out")
    assert masked.tokenizers.target.mask == 4
    assert masked.key != prepare(config(tmp_path), tmp_path / "causal").key


def test_unchanged_text_is_reused(tmp_path: Path) -> None:
    first = prepare(config(tmp_path), tmp_path / "out")
    said: list[str] = []
    assert prepare(config(tmp_path), tmp_path / "out", report=said.append).key == first.key
    assert len(said) == 1
    assert "up to date" in said[0]


def test_unreadable_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    settings = config(tmp_path, on_bad_text="skip")
    (tmp_path / "bad").write_bytes(b"good\n\xff\ngood too\n")
    settings = settings.replace({"data": {**settings.data.to_dict(), "text": [str(tmp_path / "bad")]}})
    counts = prepare(settings, tmp_path / "out").counts["train"]
    assert (counts.read, counts.kept, counts.dropped) == (3, 2, {"unreadable": 1})


def test_files_of_the_wrong_sort_are_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "f", lines(5))
    pairs, text, dev = {"source": file, "target": file}, {"text": file}, {"dev_source": file, "dev_target": file}
    for family, data, message, hint in (
        ("transformer", text, "an encoder-decoder learns from pairs", "--family causal"),
        ("transformer", {**pairs, **text}, "an encoder-decoder learns from pairs", "--family causal"),
        ("causal", pairs, "a causal model learns from one text", "--text"),
        ("masked", {**pairs, **text}, "a masked model learns from one text", "--text"),
        ("first-order", {**dev, **text}, "a first-order model learns from one text", "--text"),
        ("causal", {}, "nothing to train on", "--text"),
        ("causal", {"dev_text": file}, "nothing to train on", "--text"),
        ("transformer", {}, "nothing to train on", "--source and --target"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            prepare(make_config({"out": "x", "model": {"family": family}, "data": data}), tmp_path / "out")
        assert hint in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_prepared_data_must_be_of_the_sort_that_the_family_learns_from(tmp_path: Path) -> None:
    prepare(config(tmp_path), tmp_path / "text")

    def named(family: str) -> TrainConfig:
        data = {"prepared": str(tmp_path / "text")}
        return make_config(merge({"out": "x", "data": data}, {"model": {"family": family}}))

    assert prepare(named("causal"), tmp_path / "x").is_text
    with pytest.raises(DataError, match="learns from pairs"):
        prepare(named("transformer"), tmp_path / "x")
    with pytest.raises(DataError, match="needs a <mask>") as caught:
        prepare(named("masked"), tmp_path / "x")
    assert "--family masked" in (caught.value.hint or "")


def test_a_text_has_no_matches(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a text has no sources to find matches for"):
        prepare(config(tmp_path, fuzzy_matches=2), tmp_path / "out")
