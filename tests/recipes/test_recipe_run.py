"""The runner of recipes: several seeds, dev until the test set is asked for, and that only once."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
import run

from dragoman.errors import DataError
from end_to_end import small

RECIPE = """
[data]
source = ["${DATA}/train.s"]
target = ["${DATA}/train.t"]
dev_source = ["${DATA}/dev.s"]
dev_target = ["${DATA}/dev.t"]
[tokenizer]
kind = "word"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[training]
batch_tokens = 200
max_steps = 20
warmup_steps = 5
learning_rate = 1e-2
threads = 1
[validation]
every = 10
"""
TESTS = '[toy]\nsource = "test.s"\nreference = "test.t"\nmetrics = ["exact", "wer"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number, part in enumerate(("train", "dev", "test")):
        lines = small.sentences(120 if part == "train" else 15, number, 4)
        for side in "st":
            (tmp_path / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "toy.toml").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "tests.toml").write_text(TESTS, encoding="utf-8")
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setenv("DATA", "")
    return tmp_path


@pytest.fixture
def recipe(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*options: str) -> list[dict[str, Any]]:
        arguments = ["run.py", "toy", "--data", str(folder), "--out", str(folder / "runs"), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        capsys.readouterr()
        run.main()
        return [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]

    return call


def test_several_seeds_give_a_row_each_and_one_of_means(recipe, folder):
    rows = recipe("--seeds", "1,2", "--ensemble")
    assert [row.get("seed") for row in rows[:3]] == [1, 2, [1, 2]]
    assert {row["part"] for row in rows} == {"dev"}
    assert rows[0]["lines"] == 15
    values = [row["scores"][0]["value"] for row in rows[:2]]
    found = rows[-1]["scores"][0]
    assert (found["name"], found["values"]) == ("exact", values)
    assert (found["mean"], found["sd"]) == (statistics.mean(values), statistics.stdev(values))
    assert rows[-1]["seeds"] == [1, 2]
    assert json.loads((folder / "runs/toy/result-dev.json").read_text()) == rows
    again = recipe("--seeds", "1,2", "--ensemble")
    assert again == rows, "finished runs are not trained again"


@pytest.mark.parametrize("seeds", [(), ("--seeds", "1"), ("--seeds", "1,1")])
def test_one_model_is_no_ensemble(recipe, folder, capsys, seeds):
    with pytest.raises(SystemExit):
        recipe("--ensemble", *seeds)
    assert "two models or more together, here is 1: name several seeds" in capsys.readouterr().err
    assert not (folder / "runs").exists(), "nothing is trained before the refusal"


def test_the_test_set_is_looked_at_once_per_version(recipe, folder, monkeypatch):
    looks = []
    judge = run.judge
    monkeypatch.setattr(run, "judge", lambda *args: looks.append(args[1]) or judge(*args))
    assert recipe()[0]["part"] == "dev"
    first = recipe("--test")
    assert first[0]["part"] == "test"
    (folder / "test.t").write_text("other\n" * 15, encoding="utf-8")
    assert recipe("--test") == first
    assert looks == ["dev", "test"]
    recipe("--test", "--set", "beam_size=2")
    assert looks == ["dev", "test", "test"], "another search is another version"


def test_what_a_recipe_builds_on_belongs_to_its_version(recipe, folder, monkeypatch):
    looks = []
    monkeypatch.setattr(run, "judge", lambda *args: looks.append(args[1]) or {"lines": 1, "scores": []})
    below = folder / "below.toml"
    (folder / "toy.toml").rename(below)
    (folder / "toy.toml").write_text('base = "below.toml"\n', encoding="utf-8")
    recipe("--test")
    recipe("--test")
    assert looks == ["test"]
    below.write_text(below.read_text(encoding="utf-8") + "\n# told otherwise\n", encoding="utf-8")
    recipe("--test")
    assert looks == ["test", "test"]


def test_tokens_right_after_the_right_ones_where_there_is_no_test_set(recipe, folder, capsys):
    (folder / "tests.toml").write_text("[toy]\nteacher_forced = true\n", encoding="utf-8")
    rows = recipe("--seeds", "1,2")
    events = [json.loads(line) for line in (folder / "runs/toy/seed-1/metrics.jsonl").read_text().splitlines()]
    validations = [event for event in events if event["event"] == "validation"]
    kept = max(validations, key=lambda event: (event["exact"], -event["loss"]))
    assert rows[0]["token_accuracy"] == pytest.approx(100 * kept["accuracy"])
    assert rows[-1]["token_accuracy"]["mean"] == statistics.mean(row["token_accuracy"] for row in rows[:2])
    for option, message in {"--test": "no test set", "--ensemble": "leave --ensemble out"}.items():
        with pytest.raises(SystemExit):
            recipe(option)
        assert message in capsys.readouterr().err


def test_an_interrupted_seed_goes_on_and_stops_the_rest(recipe, folder, monkeypatch):
    class Stopped:
        exit_status = 130

    monkeypatch.setattr(run.dragoman, "train", lambda *_, **__: Stopped())
    with pytest.raises(SystemExit) as ended:
        recipe("--seeds", "1,2", "--test")
    assert ended.value.code == 130
    assert not (folder / "runs/toy/result-test.json").exists()


def test_what_a_user_can_mend_is_a_message_and_an_exit_status(recipe, folder: Path, capsys) -> None:
    (folder / "train.t").unlink()
    with pytest.raises(SystemExit) as stopped:
        run.plainly(recipe)
    assert stopped.value.code == DataError.exit_code
    message = capsys.readouterr().err
    assert message.startswith(f"run.py: {folder / 'train.t'}: ")
    assert "Traceback" not in message


def test_a_mistake_of_the_program_keeps_its_traceback() -> None:
    def fail() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        run.plainly(fail)
