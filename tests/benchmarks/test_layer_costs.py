"""What layers cost: counts against PyTorch's own, crossings where the mathematics has them, rows and picture."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import bench_layer_costs as bench
import layer_costs as costs
import pytest
from layer_costs_picture import draw
from layer_costs_table import where
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

SCRIPT = Path(bench.__file__)


@pytest.mark.parametrize("layer", [costs.ATTENTION, costs.BARE, costs.CONVOLUTION])
@pytest.mark.parametrize(("n", "d"), [(7, 64), (50, 128)])
def test_multiplications_are_those_that_pytorch_counts(layer: str, n: int, d: int) -> None:
    module = bench.layers(d)[layer]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        bench.forward(module)(bench.inputs(layer, 3, n, d))
    assert counter.get_total_flops() == 2 * 3 * costs.cost(layer, n, d).multiply_adds


def test_a_recurrent_layer_multiplies_each_position_with_all_its_matrices() -> None:
    d, n = 64, 10
    module = bench.layers(d)[costs.RECURRENT]
    weights = sum(p.numel() for p in module.parameters() if p.dim() > 1)
    assert costs.cost(costs.RECURRENT, n, d) == costs.Cost(n * d * d, n * weights, n, n)


@pytest.mark.parametrize(("n", "layers"), [(1, 1), (3, 1), (4, 2), (9, 2), (10, 3), (243, 5), (2048, 7)])
def test_convolutions_reach_all_positions_after_a_logarithm_of_layers(n: int, layers: int) -> None:
    assert costs.cost(costs.CONVOLUTION, n, 64).path == layers


@pytest.mark.parametrize("attention", costs.ATTENTIONS)
@pytest.mark.parametrize("other", costs.OTHERS)
def test_predictions_are_where_the_counts_are_equal(attention: str, other: str) -> None:
    d = 128
    textbook, multiplied = costs.predicted(attention, other, d)
    assert costs.cost(attention, textbook, d).operations == costs.cost(other, textbook, d).operations
    counts = [[costs.cost(layer, n, d).multiply_adds for layer in (attention, other)] for n in (1, 10**6)]
    if multiplied is None:
        assert all(one > two for one, two in counts)
    else:
        one, two = (costs.cost(layer, int(multiplied), d).multiply_adds for layer in (attention, other))
        assert one == two


def test_a_crossing_is_read_off_between_the_lengths() -> None:
    lengths = [8, 32, 128, 512]
    assert costs.crossover(lengths, [n / 100 for n in lengths]) == pytest.approx(100)
    assert costs.crossover(lengths, [(n / 40) ** 2 for n in lengths]) == pytest.approx(40)
    assert costs.crossover(lengths, [1.5, 2, 3, 4]) == 0
    assert costs.crossover(lengths, [0.1, 0.2, 2, 0.9]) == math.inf
    assert 128 < costs.crossover(lengths, [2, 0.5, 0.9, 1.1]) < 512  # from which on, not the first


def rows_of(seconds: dict[str, float], lengths: tuple[int, ...] = (10, 100, 1000)) -> list[costs.Row]:
    """Rows as measured: time grows with the square of the length for attention, else with the length."""
    rows: list[costs.Row] = []
    for layer, unit in seconds.items():
        for n in lengths:
            time = unit * n ** (2 if layer in costs.ATTENTIONS else 1)
            values = {"seconds": time, "quartile_1": 0.9 * time, "quartile_3": 1.1 * time}
            facts = {"benchmark": "layer costs", "what": layer, "length": n, "d_model": 64, "batch": 2}
            rows.append({**facts, **values, "threads": 1, "pass": "forward"})
    return rows


@pytest.fixture
def rows() -> list[costs.Row]:
    seconds = (1e-6, 5e-7, 1e-4, 1e-6)
    return rows_of(dict(zip((costs.ATTENTION, costs.BARE, costs.RECURRENT, costs.CONVOLUTION), seconds, strict=True)))


def test_measured_crossings_have_an_interval_and_say_on_which_side_they_were_missed(rows: list[costs.Row]) -> None:
    found = {(row["what"], row["against"]): row for row in costs.crossovers(reversed(rows))}
    assert len(found) == 4
    first = found[costs.ATTENTION, costs.RECURRENT]
    assert first["crossover"] == pytest.approx(100)
    assert first["crossover_1"] == pytest.approx(100 * 0.9 / 1.1)
    assert first["crossover_3"] == pytest.approx(100 * 1.1 / 0.9)
    assert (first["textbook"], first["multiply_adds"]) == (64, 64)
    assert where(first) == "100"
    assert where(found[costs.ATTENTION, costs.CONVOLUTION]) == "every n (from 10)"
    assert where(found[costs.BARE, costs.RECURRENT]) == "200"


def test_lengths_that_are_too_short_to_show_a_crossing_say_so() -> None:
    rows = rows_of(dict.fromkeys(costs.ATTENTIONS, 1e-9) | dict.fromkeys(costs.OTHERS, 1.0))
    for row in costs.crossovers(rows):
        assert (row["seen"], row["crossover"], where(row)) == ("above", None, "above 1000")


def test_the_gradient_is_that_of_the_input() -> None:
    for layer, module in bench.layers(64).items():
        x = bench.inputs(layer, 2, 5, 64)
        assert bench.forward_backward(module)(x).shape == x.shape
        assert not x.requires_grad
        assert bench.forward(module)(x).shape == x.shape


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture_is_the_same_each_time(rows: list[costs.Row], tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        draw(rows, costs.crossovers(rows), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 10_000


def test_the_command_prints_rows_to_standard_output_and_tables_to_standard_error(tmp_path: Path) -> None:
    sizes = ["--lengths", "8", "4", "--widths", "64", "--batch", "1", "--budget", "0", "--threads", "1"]
    ran = subprocess.run([sys.executable, SCRIPT, *sizes], check=True, capture_output=True, text=True, timeout=120)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["benchmark"] for row in rows] == ["layer costs"] * 8 + ["layer costs crossover"] * 4
    assert {row["length"] for row in rows[:8]} == {4, 8}
    assert "By the textbook" in ran.stderr
    kept = tmp_path / "rows.jsonl"
    kept.write_text(ran.stdout, encoding="utf-8")
    assert [row["what"] for row in bench.read_rows([kept])] == [row["what"] for row in rows[:8]]
