"""Numbers worked out by hand: each that is printed is what NumPy makes of the trace; steps and weights on request."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from systems import SYSTEMS, founding_system

from dragoman.errors import ConfigError
from dragoman.inspection import Trace, Working, explain
from dragoman.translation import Translator
from end_to_end import small

TEXT, TARGET = "ba ce di", "ce ba"
NUMBER = r"-?\d+\.\d+(?:e-\d+)?"


def usual(**sizes: object) -> Trace:
    return explain(small.translator(small.word_pair(), **sizes), TEXT, TARGET)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return usual(num_encoder_layers=1, num_decoder_layers=1)


def array(trace: Trace, name: str) -> np.ndarray:
    values = trace.stage(name).values
    assert values is not None
    return values[0].double().numpy()


def printed(line: str) -> list[float]:
    return [float(one) for one in re.findall(NUMBER, line)]


@pytest.mark.parametrize("home", ["decoder.layers.0.cross_attention", "decoder.layers.0.self_attention"])
def test_a_score_is_printed_term_by_term_as_numpy_computes_it(trace: Trace, home: str) -> None:
    head, query, key = 1, 2, 1
    q, k, v = (array(trace, f"{home}.{part}")[head] for part in ("query", "key", "value"))
    lines = trace.work_out(f"{home}.scores[{head},{query},{key}]").lines
    terms = [float(one) for line in lines for one in re.findall(rf"= ({NUMBER})(?=\s|$)", line) if "·" in line]
    assert terms == pytest.approx(q[query] * k[key], abs=6e-4)
    factors = [one.replace("(", "").replace(")", "") for one in re.findall(rf"{NUMBER}·\(?{NUMBER}", " ".join(lines))]
    assert [list(map(float, one.split("·"))) for one in factors] == [
        pytest.approx(pair, abs=6e-4) for pair in zip(q[query], k[key], strict=True)
    ]
    [total] = [printed(line) for line in lines if line.strip().startswith("sum = ")]
    assert total == [pytest.approx(q[query] @ k[key], abs=1e-4)]
    [score] = [printed(line)[-1] for line in lines if line.strip().startswith("attention score = ")]
    assert score == pytest.approx(q[query] @ k[key] / np.sqrt(len(k[key])), abs=1e-4)
    allowed = array(trace, f"{home}.mask")[0, query].astype(bool)
    row = q[query] @ k.T / np.sqrt(len(k[key]))
    exps = np.exp(row - row[allowed].max()) * allowed
    begin = next(place for place, line in enumerate(lines) if "softmax" in line) + 2
    table = [printed(line) for line in lines[begin : begin + len(row) + 1]]
    for place, cells in enumerate(table[:-1]):
        expected = [row[place], exps[place], exps[place] / exps.sum(), *v[place, :8]]
        if not allowed[place]:
            assert "hidden       0" in lines[begin + place]
            expected = [row[place], *v[place, :8]]
        assert cells == pytest.approx(expected, abs=6e-4)
    assert table[-1] == pytest.approx([exps.sum(), *(exps / exps.sum() @ v)[:8]], abs=6e-4)


def test_what_is_worked_out_is_what_the_model_computed(trace: Trace) -> None:
    for stage in trace.stages:
        if stage.name.endswith(".scores"):
            home, place = stage.name.removesuffix(".scores"), tuple(size - 1 for size in stage.shape[1:])
            found = trace.work_out(f"{home}.weights[{','.join(map(str, place))}]").values
            assert found["weights"] == pytest.approx(array(trace, f"{home}.weights")[place[:2]], abs=1e-6)
            assert found["mixed"] == pytest.approx(array(trace, f"{home}.mixed")[place[:2]], abs=1e-5)


def test_a_key_that_comes_later_is_hidden_and_it_is_said_why(trace: Trace) -> None:
    found = trace.work_out("decoder.layers.0.self_attention.scores[0,0,2]")
    assert found.values["seen"] == [True, False, False]
    assert found.values["weights"] == [1, 0, 0]
    assert any("comes after the query (causal mask)" in line for line in found.lines)
    assert any("reads <s> → writes ce" in line for line in found.lines)


def test_the_weights_without_the_root_are_those_of_the_products_alone(trace: Trace) -> None:
    home = "decoder.layers.0.self_attention"
    q, k = (array(trace, f"{home}.{part}")[1] for part in ("query", "key"))
    found = trace.work_out(f"{home}.scores[1,1,0]")
    exps = np.exp(q[1] @ k.T) * [1, 1, 0]
    assert found.values["undivided"] == pytest.approx(exps / exps.sum(), abs=1e-4)
    [line] = [line for line in found.lines if line.strip().startswith("without ÷ √")]
    assert printed(line) == pytest.approx([max(exps / exps.sum()), max(found.values["weights"])], abs=1e-3)


@pytest.mark.parametrize("positions", ["rotary", "relative", "alibi"])
def test_what_positions_add_to_a_score_is_told(positions: str) -> None:
    trace = usual(positions=positions, num_encoder_layers=1, num_decoder_layers=1)
    found = trace.work_out("encoder.layers.0.self_attention.scores[1,0,2]").values
    assert found["dot"] / found["root"] + found["added"] == pytest.approx(found["score"], abs=1e-5)
    assert bool(found["added"]) == (positions != "rotary") == (not found["undivided"])


def _agrees(found: Working) -> None:
    values = found.values
    x, gamma, beta = (np.array(values[part]) for part in ("x", "gamma", "beta"))
    assert values["mean"] == pytest.approx(x.mean())
    assert values["variance"] == pytest.approx(x.var())
    assert (x - x.mean()) / values["deviation"] * gamma + beta == pytest.approx(np.array(values["result"]), abs=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_norm_is_told_with_mean_deviation_gain_and_shift(norm: str) -> None:
    trace = usual(norm=norm, num_encoder_layers=1, num_decoder_layers=1)
    normed = [stage for stage in trace.stages if stage.given is not None]
    assert len(normed) == (5 + 2 if norm == "pre" else 5)
    for stage in normed:
        found = trace.work_out(f"{stage.name}[1]")
        _agrees(found)
        x = np.array(found.values["x"])
        assert found.values["deviation"] == pytest.approx(np.sqrt(x.var() + (stage.eps or 0)))
        [row] = [printed(line) for line in found.lines if line.strip().startswith("result")]
        assert row == pytest.approx(found.values["result"][:8], abs=6e-4)


@pytest.mark.parametrize("system", SYSTEMS)
def test_norms_and_scores_of_the_founding_systems(system: str) -> None:
    trace = explain(Translator([founding_system(system)], small.word_pair()), TEXT, max_length=4)
    for stage in trace.stages:
        if stage.given is not None:
            _agrees(trace.work_out(f"{stage.name}[0]"))
        if stage.name.endswith(".scores"):
            found = trace.work_out(f"{stage.name}[0,0,0]").values
            weights = array(trace, stage.name.replace(".scores", ".weights"))
            assert found["weights"] == pytest.approx(weights[0, 0], abs=1e-5)


def test_what_is_no_place_is_refused_with_what_one_looks_like(trace: Trace) -> None:
    for place, message in (
        ("memory", "not a place"), ("nowhere[0]", "no stage"), ("encoder.layers.0.self_attention.scores[0]", "no such"),
        ("encoder.layers.0.self_attention.scores[0,0,9]", "at most"),
        ("decoder.layers.0.feed_forward.inner[0]", "worked"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            trace.work_out(place)


def test_weights_of_attention_are_those_that_make_queries_keys_and_values(trace: Trace) -> None:
    home = "encoder.layers.0.self_attention"
    x = array(trace, f"{home}_residual.norm")
    chosen = trace.select(weights=[home]).chosen
    assert {"query.weight", "key.weight", "value.weight", "output.weight"} <= {
        name.removeprefix(f"{home}.") for name in chosen
    }
    for part in ("query", "key", "value"):
        made = x @ chosen[f"{home}.{part}.weight"].double().numpy().T
        made = made + chosen[f"{home}.{part}.bias"].double().numpy()
        heads = array(trace, f"{home}.{part}")
        assert np.concatenate(list(heads), axis=-1) == pytest.approx(made, abs=1e-5)
    lines = trace.select(weights=[f"{home}.query.weight"]).lines(numbers=2)
    first = chosen[f"{home}.query.weight"][0, :2].tolist()
    assert any(printed(line) == [pytest.approx(one, abs=6e-4) for one in first] for line in lines)
    with pytest.raises(ConfigError, match="no weights"):
        trace.select(weights=["nothing"])


def test_json_has_what_was_asked_for(trace: Trace) -> None:
    asked = trace.select(work_out=["encoder.layers.0.self_attention.scores[0,0,1]"], weights=["encoder.norm"])
    tree = json.loads("".join(asked.json()))
    assert tree["stages"] == []
    assert tree["worked"][0]["values"]["score"] == pytest.approx(
        array(trace, "encoder.layers.0.self_attention.scores")[0, 0, 1]
    )
    assert [one["name"] for one in tree["weights"]] == ["encoder.norm.weight", "encoder.norm.bias"]
    assert "weights" not in json.loads("".join(trace.json()))


@pytest.mark.parametrize("family", ["transformer", "causal"])
def test_the_tensors_of_a_step_are_a_row_of_the_parallel_pass(family: str, tmp_path: Path) -> None:
    folder = small.saved(tmp_path / family, small.word_pair(), family)
    whole = explain(folder, TEXT)
    number = 3
    step = explain(folder, TEXT, step=number)
    names = [stage.name for stage in step.stages]
    assert "decoder.layers.0.self_attention.scores" in names
    assert f"Of the {number} keys and values of self-attention, {number - 1} come from the cache." in step.notes[-1]
    assert ("come from the memory" in step.notes[-1]) == (family == "transformer")
    assert not any(name.startswith(("encoder", "memory")) for name in names)
    for stage in step.stages:
        other = whole.stage(stage.name)
        assert len(stage.dims) == len(stage.shape)
        if stage.values is None or stage.name.endswith(".mask"):
            continue
        expected = other.values
        assert expected is not None
        keys = stage.name.endswith((".key", ".value"))
        for axis, dim in reversed(list(enumerate(stage.dims))):
            if dim == "keys":
                expected = expected.narrow(axis, 0, number)
            elif dim == "query" and not keys:
                expected = expected.narrow(axis, number - 1, 1)
        torch.testing.assert_close(stage.values, expected, atol=1e-5, rtol=1e-4)
        if stage.columns:
            assert len(stage.columns) == stage.shape[-1]
        if stage.rows:
            assert len(stage.rows) == stage.shape[-2]
    assert step.lines()
    with pytest.raises(ConfigError, match="no step"):
        explain(folder, TEXT, step=99)


def test_logits_and_probabilities_are_told_by_pieces(trace: Trace) -> None:
    lines = trace.select("probabilities").lines(numbers=2)
    found = array(trace, "probabilities")[0]
    best = int(found.argmax())
    stage = trace.stage("probabilities")
    assert stage.entries is not None
    [piece] = stage.entries([best])
    [line] = [line for line in lines if "reads <s> → writes ce" in line]
    assert f"{piece} {found[best]:.3f}" in line
