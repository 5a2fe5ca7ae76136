"""A Markov model from the shell: train, then every verb that takes it, and those that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dragoman
from dragoman.markov import is_markov
from end_to_end import small
from end_to_end.conftest import Command, call
from end_to_end.test_mistakes import refused


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "lines.xx"
    file.write_text("".join(f"{line}\n" for line in small.sentences(120, 1, 6)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def counted(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    settings = ("--set", "tokenizer.kind=word", "--set", "backoff=2.0", "--quiet", "--out", out)
    assert call(("train", "--text", text, "--family", "second-order", *settings)) == 0
    return out


def test_what_only_a_transformer_has_is_refused(counted: Path, dragoman: Command, tmp_path: Path) -> None:
    for option, value in (("--engine", "packed"), ("--engine", "native"), ("--precision", "int8")):
        refused(
            dragoman("complete", counted, "ba", option, value),
            "a Markov model runs with one engine and one precision only",
            value,
        )
    refused(dragoman("complete", counted, "ba", "--engine", "nonsense"), "no such engine", "nonsense")
    refused(dragoman("average", counted, "--last", 1, "--out", tmp_path / "mean"), "has no checkpoints to average")


def test_a_text_becomes_a_model_for_every_verb(counted: Path, text: Path, dragoman: Command) -> None:
    assert is_markov(counted)
    assert {"README.md", "config.toml", "config.json", "metrics.jsonl", "train.log"} <= {
        path.name for path in counted.iterdir()
    }
    assert dragoman("complete", counted, "ba").out.startswith("ba")
    found = dragoman("score", counted, "--text", text)
    assert len(found.lines) == 120
    assert "perplexity" in found.err
    assert "  backoff = 2.0" in dragoman("info", counted).lines


def test_what_is_finished_stays_and_what_is_there_is_not_overwritten(
    counted: Path, text: Path, dragoman: Command
) -> None:
    arguments = ("train", "--text", text, "--family", "second-order", "--out", counted)
    refused(dragoman(*arguments), "there is a run here already", "--resume")
    found = dragoman(*arguments, "--resume", "--json")
    assert (found.status, json.loads(found.out)["progress"]["finished"]) == (0, True)
    assert "finished already" in found.err
    refused(dragoman(*arguments, "--resume", "--set", "backoff=9.0"), "markov.backoff: 2.0 in the run, 9.0 now")


def test_python_does_the_same(text: Path, counted: Path, tmp_path: Path) -> None:
    settings = {"data": {"text": text}, "tokenizer": {"kind": "word"}, "model": {"family": "second-order"}}
    tree = {"out": tmp_path / "run", "markov": {"backoff": 2.0}, **settings}
    run = dragoman.train(dragoman.TrainConfig.from_dict(tree), quiet=True)
    assert run.exit_status == 0
    assert (run.directory / "markov.safetensors").read_bytes() == (counted / "markov.safetensors").read_bytes()


def test_verbs_for_pairs_refuse_counts(counted: Path, text: Path, dragoman: Command, tmp_path: Path) -> None:
    refused(dragoman("translate", counted), str(counted), "dragoman complete")
    refused(dragoman("evaluate", counted, "--source", text, "--reference", text), str(counted), "dragoman complete")
    refused(dragoman("score", counted, "--source", text, "--target", text), str(counted))
    refused(dragoman("average", counted, "--last", 1, "--out", tmp_path / "a"), str(counted))
    refused(dragoman("train", "--family", "skips", "--out", tmp_path / "a"), "--text")
    refused(dragoman("train", "--family", "third-order", "--text", text, "--out", tmp_path / "a"), "third-order")
