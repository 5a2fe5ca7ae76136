"""The comparison with peers: equal work and weights, turns, limits, goals, and processes that fail."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers_decoding
import peers_dragoman
import peers_limits
import peers_marian
import peers_picture
import peers_report
import peers_rows
import peers_run
import peers_work
import pytest
import torch
from peers_pool import Contestant, PeerError, Worker, quartiles, speedup, take_turns
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dragoman.models import load_pretrained

SMALL = peers_work.sizes(32, 4, 64, 2, 60)
PROBE = Contestant("probe", "probe", sys.executable)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    peers_dragoman.Peer({"threads": 1}).make_model(folder, SMALL, banned=True)
    return folder


@pytest.fixture(scope="module")
def both(directory: str) -> list[Any]:
    peers = [peers_dragoman.Peer({"threads": 1, "precision": "float32"}), peers_marian.Peer({"threads": 1})]
    for peer in peers:
        peer.load(directory)
    return peers


def test_a_marian_model_with_our_weights_computes_our_logits(both: list[Any]) -> None:
    ours, theirs = both
    source = torch.tensor([[7, 8, 9, 3], [11, 3, 0, 0]])
    target = torch.tensor([[2, 5, 6], [2, 9, 30]])
    with torch.no_grad():
        expected = ours.model(source, target)
        found = theirs.model(source, attention_mask=source != 0, decoder_input_ids=target).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_same_work_gives_the_same_tokens(both: list[Any], beam_size: int) -> None:
    work = peers_work.decoding(6, beam_size, 60, calls=2)
    found, expected = (peer.outputs(work.batches, work.steps, beam_size) for peer in both)
    assert found == expected
    assert all(len(tokens) == work.steps and min(tokens) >= 4 for tokens in found)
    assert len(set(map(tuple, found))) > 6  # not the same for every source
    assert sum(len(set(tokens)) for tokens in found) > 3 * len(found)  # nor one token again and again


def test_prepared_runs_take_as_many_steps_as_peers_make_tokens(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = peers_dragoman.Peer({"threads": 1, "engine": "module"})
    ours.load(directory)
    calls = []
    step = ours.next_token.step
    monkeypatch.setattr(ours.next_token, "step", lambda *given: calls.append(1) or step(*given))
    ours.prepare_decoding([[[5, 6, 7], [8]]], 9, 1)
    ours.run()
    assert len(calls) == 9


def test_training_starts_from_the_same_loss(directory: str) -> None:
    batches = peers_work.training(2, 80, 60)
    losses = []
    for peer in (peers_dragoman.Peer({"threads": 1}), peers_marian.Peer({"threads": 1})):
        losses.append(peer.prepare_training(directory, batches, 0.1))
        peer.run()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_training_batches_hold_as_many_tokens_as_asked() -> None:
    for sources, targets in peers_work.training(3, 500, 60):
        assert 440 <= sum(len(ids) + 1 for ids in targets) <= 500
        assert len(sources) == len(targets)


def test_calls_take_turns_and_each_comes_first() -> None:
    order: list[str] = []
    runs = {name: lambda name=name: order.append(name) or 1.0 for name in "abc"}
    times = take_turns(runs, budget=0.0, fewest=3)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"


def test_a_speedup_is_paired() -> None:
    assert speedup([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]) == [2.0, 2.0, 2.0]
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0], "x") == {"x": 3.0, "x_1": 2.0, "x_3": 4.0}
    assert quartiles([7.0], "x") == {"x": 7.0, "x_1": 7.0, "x_3": 7.0}


def test_operations_are_those_that_pytorch_counts(directory: str) -> None:
    model = load_pretrained(directory).model
    shape = peers_limits.Sizes.of(SMALL)
    source = torch.randint(5, 60, (1, 11))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as counter:
            state = model.start(source)
        assert counter.get_total_flops() == shape.encode(11)
        with FlopCounterMode(display=False) as counter:
            model.step(state, torch.tensor([2]))
        assert counter.get_total_flops() == shape.step(11, 1)


def test_the_limit_is_the_longer_of_products_and_reading() -> None:
    shape = peers_limits.Sizes.of(SMALL)
    given = (shape, [[10, 12]], [[5, 5]], 4)
    reading = 5 * shape.step_weights * 4 / 100.0
    assert peers_limits.decoding_limit(*given, 1e30, 100.0, "float32") == pytest.approx(reading)
    assert peers_limits.decoding_limit(*given, 1e30, 100.0, "int8") == pytest.approx(reading / 4)
    products = shape.encode(10) + shape.encode(12)
    for step in range(5):
        products += (1 if step == 0 else 4) * (shape.step(10, step) + shape.step(12, step))
    assert peers_limits.decoding_limit(*given, 1000.0, 1e30, "float32") == pytest.approx(products / 1000)


def plan(folder: Path) -> peers_rows.Plan:
    return peers_rows.Plan(folder, 1, 0.0, 1, [], [], [], PROBE)


def test_rows_compare_with_the_faster_yardstick_and_goals_are_for_what_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan(tmp_path)
    times = {"dragoman": [1.0, 1.0], "slow": [4.0, 4.0], "fast": [2.0, 2.0]}
    facts = {"model": "base", "batch": 1, "beam_size": 4, "goal": 1.5}
    made.report(
        "peers decode", facts, times, ["slow", "fast"], {"dragoman": {"same_outputs": 0.5}}, {"output_tokens": 10}
    )
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["what"] for row in printed] == list(times)
    assert (printed[0]["yardstick"], printed[0]["speedup"], printed[0]["speedup over slow"]) == ("fast", 2.0, 4.0)
    assert (printed[0]["output_tokens_per_second"], printed[0]["threads"]) == (10.0, 1)
    text = peers_report.markdown(made.rows)
    assert "| 1.50 reached |" in text
    assert text.count("reached") + text.count("missed") == 2  # among the goals, and in its table
    peers_report.show(made.rows)
    assert "reached" in capsys.readouterr().err


def curve_rows(points: tuple[tuple[int, float, int], ...]) -> list[dict[str, Any]]:
    facts = {"benchmark": "peers curve", "curve": "source", "what": "dragoman", "peak_mib": 100}
    return [
        {**facts, "value": value, "seconds": seconds, "operations": operations} for value, seconds, operations in points
    ]


def test_growth_is_a_power_and_a_cliff_is_what_operations_do_not_explain(tmp_path: Path) -> None:
    made = plan(tmp_path)
    made.rows += curve_rows(((16, 1.0, 10), (64, 16.0, 160), (128, 32.1, 200)))
    peers_decoding.write_growth(made)
    steps = [row for row in made.rows if row["benchmark"] == "peers growth"]
    assert [row["power"] for row in steps] == [pytest.approx(2), pytest.approx(1, abs=0.01)]
    assert steps[0]["counted_power"] == pytest.approx(2)
    assert [row["cliff"] for row in steps] == [False, True]


def test_time_over_length_is_fixed_linear_and_quadratic(tmp_path: Path) -> None:
    made = plan(tmp_path)
    made.rows += curve_rows(tuple((n, 0.5 + 0.25 * n + 0.01 * n * n, n) for n in (16, 32, 64, 128)))
    peers_decoding.write_growth(made)
    (found,) = [row for row in made.rows if row["benchmark"] == "peers law"]
    assert [found[name] for name in ("fixed", "linear", "quadratic")] == pytest.approx([0.5, 0.25, 0.01])
    assert found["quadratic_share"] == pytest.approx(163.84 / 196.34)
    assert found["worst"] < 1e-9
    assert peers_decoding.law([(16, 1.0), (32, 2.0), (64, 4.0), (128, 30.0), (256, 60.0)])["worst"] > 0.2
    title, _, cells = peers_report.growth([found])
    assert title == "Time over length, as a formula"
    assert cells == [["dragoman", "500.0", "250.000", "10000.00", "83%", "0%"]]


def test_operations_of_a_search_are_those_of_its_steps() -> None:
    shape = peers_limits.Sizes.of(SMALL)
    once = shape.encode(6) + shape.step(6, 0)
    assert peers_decoding.work_of(shape, peers_work.one_length(2, 5, 1, 4, 60)) == 2 * once
    assert peers_decoding.work_of(shape, peers_work.one_length(1, 5, 2, 4, 60)) == once + 4 * shape.step(6, 1)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture_of_the_curves_is_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    rows = curve_rows(((16, 1.0, 10), (64, 16.0, 160)))
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        peers_picture.draw([*rows, *({**row, "curve": "beam"} for row in rows), {"benchmark": "peers growth"}], file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 5000


def options_of(monkeypatch: pytest.MonkeyPatch, *given: object) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["peers_run.py", *map(str, given)])
    return peers_run.arguments()


def test_a_table_that_is_done_is_kept_and_another_setting_is_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def fake(options: argparse.Namespace, made: peers_rows.Plan) -> dict[str, Any]:
        def measure(table: str) -> None:
            measured.append(table)
            if table == "train" and len(measured) == 2:
                raise KeyboardInterrupt
            made.emit("peers decode", {"what": table})

        return {table: lambda table=table: measure(table) for table in peers_run.TABLES}

    monkeypatch.setattr(peers_run, "steps", fake)
    monkeypatch.setattr(peers_run, "tell_versions", lambda _: None)
    given = ("decode", "train", "--out", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        peers_run.run_all(options_of(monkeypatch, *given), plan(tmp_path))
    again = plan(tmp_path)
    peers_run.run_all(options_of(monkeypatch, *given), again)
    assert measured == ["decode", "train", "train"]  # goes on where it was stopped
    assert [row["what"] for row in again.rows] == ["decode", "train"]
    peers_run.run_all(options_of(monkeypatch, *given, "--budget", 3), plan(tmp_path))
    peers_run.run_all(options_of(monkeypatch, *given, "--again"), plan(tmp_path))
    assert measured[3:] == ["decode", "train"] * 2


def test_ctranslate2_may_use_its_threads_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = peers_run.plan_of(options_of(monkeypatch, "--threads", 3), tmp_path)
    assert [(one.options.get("workers"), one.options.get("threads")) for one in made.ctranslate2] == [
        (None, None), (3, 1), (None, None), (3, 1),
    ]  # fmt: skip
    assert len(peers_run.plan_of(options_of(monkeypatch, "--threads", 1), tmp_path).ctranslate2) == 2


def test_a_process_answers_and_its_failures_are_told(tmp_path: Path) -> None:
    with Worker(PROBE, 1) as worker:
        assert worker.call("versions")["peak_mib"] != 0
        with pytest.raises(PeerError, match="AttributeError"):
            worker.call("no_such_thing")
        assert set(worker.result("versions")) == {"torch"}  # still alive
    with Worker(Contestant("nobody", "nobody", sys.executable), 1) as worker, pytest.raises(PeerError, match="nobody"):
        worker.call("versions")
    made = plan(tmp_path)
    with made.opened([Contestant("absent", "probe", str(tmp_path / "python"))], "versions") as workers:
        assert workers == {}
    assert made.rows[0]["what"] == "absent"


def test_without_the_environment_the_command_says_how_to_make_it(tmp_path: Path) -> None:
    script = Path(peers_work.__file__).with_name("peers_run.py")
    command = [sys.executable, script, "decode", "--python", tmp_path / "python"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "no environment of the peers" in ran.stderr
