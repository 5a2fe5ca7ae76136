"""`train` and `prepare` with one text, as a shell would call them, and every mistake in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dragoman.config import make_config, read_toml
from end_to_end import small
from end_to_end.conftest import Command

SMALL = "[model]\nd_model = 16\nnum_heads = 2\nd_ff = 32\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n"
SMALL += "[training]\nbatch_tokens = 200\nwarmup_steps = 5\nlearning_rate = 5e-3\nthreads = 1\nmax_steps = 6\n"
SMALL += 'schedule = "inverse_sqrt"\n'
SMALL += '[validation]\nevery = 3\n[tokenizer]\nkind = "word"\n'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, some of it gzipped, held-out lines, and settings of a small model."""
    folder = tmp_path_factory.mktemp("text")
    text = "".join(f"{line}\n" for line in small.sentences(150, 3, 6))
    (folder / "train.en").write_text(text, encoding="utf-8")
    (folder / "more.en.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "dev.en").write_text("".join(f"{line}\n" for line in small.sentences(20, 4, 6)), encoding="utf-8")
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    return folder


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_train_makes_a_model_of_a_text(family: str, dragoman: Command, files: Path, tmp_path: Path) -> None:
    text = ("--text", files / "train.en", "--text", files / "more.en.gz", "--dev-text", files / "dev.en")
    out = tmp_path / "run"
    found = dragoman("train", *text, "--family", family, "--config", files / "small.toml", "--out", out, "--json")
    assert found.status == 0
    assert json.loads(found.out)["progress"]["step"] == 6
    for told in ("300 lines", "train: 300 of 300 lines kept", "dev: 20 of 20 lines kept", "done: 6 updates"):
        assert told in found.err
    config = make_config(read_toml(out / "config.toml"))
    assert (config.model.family, config.data.target_language, config.data.source_language) == (family, "en", None)
    more = dragoman("train", "--out", out, "--resume", "--set", "max_steps=8", "--quiet", "--json")
    assert (more.status, json.loads(more.out)["progress"]["step"], more.err) == (0, 8, "")
    assert f"  family = {family}" in dragoman("info", out).lines
    average = dragoman("average", out, "--last", 2, "--out", tmp_path / "mean")
    assert average.status == 0
    assert dragoman("translate", out, stdin=b"ba\n").status == 2
    prompt = {"causal": "ba ce", "masked": "ba <mask> di"}[family]
    assert dragoman("complete", tmp_path / "mean", prompt).out.startswith("ba ")


def test_prepare_a_text_once_and_train_from_it(dragoman: Command, files: Path, tmp_path: Path) -> None:
    text = ("--text", files / "train.en", "--family", "masked", "--set", "kind=word", "--language", "xx")
    found = dragoman("prepare", *text, "--out", tmp_path / "data", "--json")
    assert (found.status, found.err) == (0, "")
    assert json.loads(found.out)["report"]["line_count"] == 150
    arguments = ("--family", "masked", "--config", files / "small.toml", "--out", tmp_path / "run", "--quiet")
    assert dragoman("train", "--prepared", tmp_path / "data", *arguments).status == 0
    assert "  target = xx" in dragoman("info", tmp_path / "run").lines


def test_languages_of_pairs_can_be_named(dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    pairs = ("--source", corpus / "train.source", "--target", corpus / "train.target")
    languages = ("--source-language", "xx", "--target-language", "yy")
    settings = ("--config", corpus / "small.toml", "--set", "max_steps=1", "--quiet")
    assert dragoman("train", *pairs, *languages, *settings, "--out", tmp_path / "run").status == 0
    lines = dragoman("info", tmp_path / "run").lines
    assert {"  source = xx", "  target = yy"} <= set(lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--text", "T"), ["an encoder-decoder learns from pairs", "--text", "--family causal"]),
        (("--text", "T", "--source", "T", "--target", "T"), ["an encoder-decoder learns from pairs", "--family"]),
        (("--family", "causal", "--source", "T", "--target", "T"), ["a causal model learns from one text", "--text"]),
        (("--family", "masked", "--pairs", "T", "--text", "T"), ["a masked model learns from one text", "--pairs"]),
        (("--family", "causal"), ["nothing to train on", "--text"]),
        (("--family", "casual", "--text", "T"), ["model.family", " causal,", "(found 'casual')"]),
        (("--family", "causal", "--text", "nowhere"), ["nowhere: cannot read the file"]),
        (
            ("--family", "causal", "--text", "T", "--set", "metric=bleu"),
            ["bleu is not defined for a causal model", "loss"],
        ),
    ],
)
def test_mistakes_with_a_text_are_told(
    arguments: tuple[str, ...], told: list[str], dragoman: Command, files: Path, tmp_path: Path
) -> None:
    given = [files / "train.en" if argument == "T" else argument for argument in arguments]
    found = dragoman("train", *given, "--out", tmp_path / "run", "--quiet")
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("dragoman: ")
    for words in told:
        assert words in found.err
    assert not {"metrics.jsonl", "train.log", "config.toml"} & {path.name for path in (tmp_path / "run").glob("*")}
