"""What part of the least possible time whole processes and training as a user take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peers_commands
import peers_decoding
import peers_limits
import peers_report
import peers_rows
import peers_trained
import peers_trainer
import peers_training
import peers_work
import pytest
from peers_pool import Contestant

import dragoman
from dragoman.config import make_config
from dragoman.models import load_pretrained

SMALL = peers_work.sizes(16, 2, 32, 1, 40)
WORDS = ["ba", "ce", "di", "fo", "gu"]
# So slow that products take seconds, and reading next to nothing.
LIMITS = peers_rows.Limits({"float32": 1e6, "int8": 4e6}, {"float32": 1e30, "int8": 1e30})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of words, trained for some epochs of several updates."""
    folder = tmp_path_factory.mktemp("run")
    rows = [[WORDS[(start + i) % 5] for i in range(1 + start % 7)] for start in range(60)]
    for side, times in (("source", 1), ("target", 2)):
        lines = (" ".join(row * times) + "\n" for row in rows)
        (folder / f"{side}.txt").write_text("".join(lines), encoding="utf-8")
    own = {key: SMALL[key] for key in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")}
    files = {side: [str(folder / f"{side}.txt")] for side in ("source", "target")}
    training = {"batch_tokens": 80, "max_steps": 20, "log_every": 3, "threads": 1, "device": "cpu"}
    sections = {"data": files, "tokenizer": {"kind": "word", "joint": False}, "model": own, "training": training}
    config = make_config({"out": str(folder / "run"), **sections, "validation": {"metric": "loss"}})
    return dragoman.train(config, quiet=True).directory


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> peers_rows.Plan:
    """Two contestants, and limits that are known."""
    monkeypatch.setattr(peers_rows.Limits, "probe", classmethod(lambda *_: LIMITS))
    some = [Contestant(name, "dragoman", "python") for name in ("dragoman", "dragoman module")]
    return peers_rows.Plan(tmp_path, 1, 0.0, 1, some, [], some[:1], some[0])


def test_weights_are_those_of_a_model(run: Path) -> None:
    model = load_pretrained(run).model
    matrices = sum(weight.numel() for name, weight in model.named_parameters() if weight.dim() == 2)
    shape = peers_decoding.sizes_of(run)
    source_embedding = 16 * (len(WORDS) + 4)  # not that of the target here, which is the generator too
    assert shape.weights == matrices - source_embedding


def test_who_has_ended_takes_no_part_in_more_steps() -> None:
    shape = peers_limits.Sizes.of(SMALL)
    products = shape.encode(7) + shape.encode(3) + shape.step(7, 0) + shape.step(3, 0) + 4 * shape.step(3, 1)
    found = LIMITS.searching(shape, [[7, 3]], [[1, 2]], 4)
    assert found == {"float32": pytest.approx(products / 1e6), "int8": pytest.approx(products / 4e6)}


def test_loading_reads_all_weights_once() -> None:
    limits, shape = peers_rows.Limits({}, {"float32": 1000.0, "int8": 500.0}), peers_limits.Sizes.of(SMALL)
    assert limits.loading(shape) == {"float32": shape.weights * 4 / 1000, "int8": shape.weights / 500}
    assert peers_rows.shares({"float32": 1.0, "int8": 0.5}, 2.0) == {
        "share_of_float32_limit": 0.5, "share_of_int8_limit": 0.25,
    }  # fmt: skip


def fake_commands(monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str], seconds: float) -> None:
    """Commands print what is theirs, in so many seconds each; an interpreter that does nothing takes 0.25."""
    for name in ("_start_command", "_file_command"):
        monkeypatch.setattr(peers_commands, name, lambda entry, *_: [entry.name])
    monkeypatch.setattr(peers_commands, "run_command", lambda command, *_: outputs[command[0]])
    monkeypatch.setattr(
        peers_commands, "_timed", lambda command, *_: 0.25 if command[1:] == ["-c", "pass"] else seconds
    )


def rows_of(plan: peers_rows.Plan, benchmark: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in plan.rows if row["benchmark"] == benchmark}


def test_a_file_has_the_share_of_its_own_tokens(
    run: Path, plan: peers_rows.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_commands(monkeypatch, {"dragoman": "ba\nba ce\n", "dragoman module": "ba\nba ce di\n"}, 2.0)
    peers_commands.bench_file(plan, peers_trained.Models(run), ["ba ce", "di"], 4)
    shape = peers_decoding.sizes_of(run)
    work = shape.encode(3) + shape.encode(2) + shape.step(3, 0) + 4 * shape.step(3, 1)
    work += shape.step(2, 0) + 4 * (shape.step(2, 1) + shape.step(2, 2))
    rows = rows_of(plan, "peers file")
    assert rows["dragoman"]["share_of_float32_limit"] == pytest.approx(work / 1e6 / 2)
    assert rows["dragoman"]["share_of_int8_limit"] == pytest.approx(work / 4e6 / 2)
    longer = rows["dragoman module"]["share_of_float32_limit"]
    assert longer == pytest.approx((work + 4 * shape.step(2, 3)) / 1e6 / 2)
    assert "interpreter_seconds" not in rows["dragoman"]


def test_a_start_has_the_interpreter_in_its_least_time(
    run: Path, plan: peers_rows.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_commands(monkeypatch, dict.fromkeys(("dragoman", "dragoman module"), "ba\n"), 0.5)
    peers_commands.bench_start(plan, peers_trained.Models(run), "ba ce", 1)
    shape = peers_decoding.sizes_of(run)
    work = shape.encode(3) + shape.step(3, 0) + shape.step(3, 1)
    rows = rows_of(plan, "peers start")
    assert set(rows) == {"dragoman", "dragoman module"}  # the interpreter is nobody's rival
    assert rows["dragoman"]["interpreter_seconds"] == 0.25
    assert rows["dragoman"]["share_of_float32_limit"] == pytest.approx((0.25 + work / 1e6) / 0.5)
    monkeypatch.setattr(LIMITS, "bandwidth", {"float32": 4.0 * shape.weights, "int8": 1e30})  # a second to load
    peers_commands.bench_start(plan, peers_trained.Models(run), "ba ce", 1)
    assert rows_of(plan, "peers start")["dragoman"]["share_of_float32_limit"] > 1.25 / 0.5


def test_pairs_of_a_run_are_those_that_its_log_counts(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    first, *events = [event for event in map(json.loads, lines) if event["event"] == "train"]
    assert events[-1]["epoch"] > first["epoch"]
    sources, targets = peers_training.seen_lengths(run, first["step"], events[-1]["step"])
    assert sum(sources) == sum(event["source_tokens"] for event in events)
    assert sum(targets) == sum(event["target_tokens"] for event in events)


def test_training_as_a_user_has_the_share_of_its_own_tokens(
    plan: peers_rows.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_training, "_with_dragoman", lambda *_: (200.0, 5e5))
    monkeypatch.setattr(peers_training, "_with_script", lambda *_: (100.0, 2e5))
    peers_training.bench_user(plan, ["tiny"], Path(), Path(), 1.0, 3)
    rows = rows_of(plan, "peers user")
    assert {name: row["share_of_float32_limit"] for name, row in rows.items()} == {
        "dragoman": 0.5, "dragoman, one direction": 0.5, "transformers Trainer": 0.2, "joeynmt": 0.2,
    }  # fmt: skip
    assert rows["dragoman"]["speedup"] == 2.0
    assert "| 2.00 reached | 50 |" in peers_report.markdown(plan.rows)


def test_a_padded_batch_counts_without_its_padding() -> None:
    shape = peers_limits.Sizes.of(SMALL)
    collator = peers_trainer.Collator(shape)
    batch = collator([{"source": [5, 6, 3], "labels": [7, 3]}, {"source": [5, 3], "labels": [7, 8, 9, 3]}])
    assert batch["labels"].shape == (2, 4)
    assert (collator.tokens, collator.operations) == ([6], [shape.update([3, 2], [2, 4])])
