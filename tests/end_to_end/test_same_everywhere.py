"""What must be equal whatever the processor: trained models, in every engine, on any threads, from any kind of data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dragoman.engines.native import load_library
from end_to_end import small
from end_to_end.conftest import Command, call

pytestmark = pytest.mark.arithmetic
needs_library = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))

Train = Callable[..., Path]
Row = dict[str, Any]
# Updates enough that outputs differ from source to source, which untrained models' hardly do.
SETTINGS = ("d_model=32", "d_ff=64", "max_steps=100", "every=100")
# What is said of one model's targets: read from one end, from both by one decoder, from both by a decoder each.
DECODERS = {
    "one end": ["right_to_left=false"],
    "a shared decoder": ["right_to_left=true", "right_to_left_decoder=shared"],
    "a decoder each": ["right_to_left=true", "right_to_left_decoder=own"],
}
SEARCHES = {
    "greedy": ["--beam-size", "1"],
    "beam": ["--beam-size", "4", "--nbest", "3"],
    "held": ["--beam-size", "3", "--prefix", "ba", "--set", "min_length=3", "--set", "max_length=9"],
    "no repetition": ["--beam-size", "2", "--set", "no_repeat_ngram=2", "--set", "length_penalty_formula=power"],
    "draws": ["--sampling", "--nbest", "2", "--set", "top_k=4", "--set", "sampling_seed=3"],
}


def files(corpus: Path) -> list[object]:
    """The options that name the corpus, and the settings beside it."""
    sides = [
        (f"--{dev}{side}", corpus / f"{part}.{side}")
        for dev, part in (("", "train"), ("dev-", "dev"))
        for side in ("source", "target")
    ]
    return [*chain.from_iterable(sides), "--config", corpus / "small.toml"]


def changes(*settings: str) -> list[str]:
    """The options that change `SETTINGS` and those of the corpus."""
    last = {one.partition("=")[0]: one for one in (*SETTINGS, *settings)}
    return [part for one in last.values() for part in ("--set", one)]


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """What trains a model by its settings, once for each: sentences become the same ones backwards."""
    runs: dict[tuple[str, ...], Path] = {}

    def train(*settings: str) -> Path:
        if settings not in runs:
            runs[settings] = tmp_path_factory.mktemp("same") / "run"
            arguments = (*files(corpus), *changes(*settings), "--quiet", "--out", runs[settings])
            assert call(("train", *arguments)) == 0
        return runs[settings]

    return train


def translations(dragoman: Command, corpus: Path, model: Path, *options: object) -> list[Row]:
    found = dragoman("translate", model, "--input", corpus / "dev.source", "--json", *options)
    assert found.status == 0, found.err
    return [json.loads(line) for line in found.lines]


def assert_alike(rows: list[Row], others: list[Row]) -> None:
    """The same texts in the same order, with the same scores up to rounding."""
    for one, other in zip(rows, others, strict=True):
        found, expected = (row["alternatives"] for row in (one, other))
        assert [each["text"] for each in found] == [each["text"] for each in expected], one["source"]
        for name in ("score", "log_probability", "right_to_left"):
            for each, wanted in zip(found, expected, strict=True):
                assert each[name] == (wanted[name] and pytest.approx(wanted[name], abs=1e-3)), one["source"]


@needs_library
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("decoders", DECODERS)
def test_every_engine_finds_what_the_modules_find(
    decoders: str, search: str, trained: Train, corpus: Path, dragoman: Command
) -> None:
    model = trained(*DECODERS[decoders])
    found = {
        engine: translations(dragoman, corpus, model, "--engine", engine, "--precision", "float32", *SEARCHES[search])
        for engine in ("module", "packed", "native")
    }
    assert len({row["text"] for row in found["module"]}) >= 5, "outputs that depend on their sources"
    for engine in ("packed", "native"):
        assert_alike(found[engine], found["module"])


@needs_library
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_every_engine_decides_with_an_ensemble_alike(
    search: str, trained: Train, corpus: Path, dragoman: Command
) -> None:
    one, other = (trained(*DECODERS[decoders]) for decoders in ("a decoder each", "a shared decoder"))
    found = {
        engine: translations(
            dragoman, corpus, one, "--ensemble", other, "--engine", engine, "--precision", "float32", *SEARCHES[search]
        )
        for engine in ("module", "packed", "native")
    }
    assert found["module"] != translations(dragoman, corpus, one, "--engine", "module", *SEARCHES[search])
    for engine in ("packed", "native"):
        assert_alike(found[engine], found["module"])


@needs_library
def test_every_engine_completes_alike(dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = ("--text", corpus / "train.source", "--dev-text", corpus / "dev.source")
    assert dragoman("train", *text, "--family", "causal", "--config", corpus / "small.toml", "--out", run).status == 0
    prompts = tmp_path / "prompts"
    prompts.write_text("".join(f"{line}\n" for line in [*small.WORDS, ""]), encoding="utf-8")
    for options in (("--beam-size", 1), ("--beam-size", 3, "--nbest", 3), ("--sampling", "--nbest", 2)):
        found = {}
        for engine in ("module", "packed", "native"):
            how = ("--engine", engine, "--precision", "float32", "--set", "max_length=8", "--json")
            outcome = dragoman("complete", run, "--input", prompts, *how, *options)
            assert outcome.status == 0, outcome.err
            found[engine] = [json.loads(line)["text"] for line in outcome.lines]
        assert len(set(found["module"])) >= len(small.WORDS)
        assert found["module"] == found["packed"] == found["native"]


@needs_library
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("decoders", DECODERS)
def test_threads_and_waiting_lines_change_no_bit(decoders: str, precision: str, trained: Train, tmp_path: Path) -> None:
    """Enough lines that two threads have batches of their own, and few enough at once that they share one."""
    model = trained(*DECODERS[decoders])
    lines = [*small.sentences(300, 5, 6), "", "ba"]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def outputs(threads: int, *options: str) -> str:
        command = [sys.executable, "-m", "dragoman", "translate", str(model), "--input", str(tmp_path / "lines")]
        command += ["--json", "--nbest", "2", "--device", "cpu", "--engine", "native", "--precision", precision]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=True).stdout

    alone = outputs(1)
    assert len(alone.splitlines()) == len(lines)
    assert outputs(2) == alone
    assert outputs(2, "--buffer", "30") == alone
    assert outputs(1, "--buffer", "1") == alone


def test_prepared_data_train_the_weights_that_the_files_train(
    trained: Train, corpus: Path, dragoman: Command, tmp_path: Path
) -> None:
    settings = (*DECODERS["a decoder each"], "dropout=0.2", "max_steps=20", "every=10")
    direct = trained(*settings)
    config = ("--config", corpus / "small.toml")
    prepared = dragoman("prepare", *files(corpus), "--out", tmp_path / "data")
    assert prepared.status == 0, prepared.err
    run = tmp_path / "run"
    done = dragoman("train", "--prepared", tmp_path / "data", *config, *changes(*settings), "--out", run)
    assert done.status == 0, done.err
    assert (run / "model.safetensors").read_bytes() == (direct / "model.safetensors").read_bytes()
    losses = [
        [row["loss"] for row in map(json.loads, (one / "metrics.jsonl").read_text().splitlines()) if "loss" in row]
        for one in (run, direct)
    ]
    assert losses[0] == losses[1] != []
