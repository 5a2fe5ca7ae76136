"""What must hold of every record, whatever the model: recomputed by NumPy."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import jsonschema_rs
import numpy as np

from dragoman.inspector.record import Inspection, schema


@cache
def validator() -> Any:
    return jsonschema_rs.validator_for(schema())


def check(found: Inspection) -> None:
    """Everything that holds of any record."""
    record = json.loads(found.json())
    assert not [(list(error.instance_path), error.message) for error in validator().iter_errors(record)]
    assert found.arrays.keys() == record["arrays"].keys()
    for name, told in record["arrays"].items():
        values = found.arrays[name]
        assert (str(values.dtype), list(values.shape)) == (told["dtype"], told["shape"])
        assert values.dtype == bool or np.isfinite(values).all(), name
    check_graph(found)
    off = {(name, head) for name, head in record["what_if"]["heads_off"]}
    for node in record["graph"]["nodes"]:
        if node["id"].endswith(".weights"):
            check_attention(found, node["id"].removesuffix(".weights"), off)
        if "norm" in node:
            check_norm(found, node)
        if node["id"].endswith("_embedding.positions"):
            home = node["id"].removesuffix(".positions")
            before = f"{home}.scaled" if record["sound"] is not None and home.startswith("source") else f"{home}.tokens"
            total = found.arrays[before] + found.arrays[f"{home}.position_rows"]
            assert (total == found.arrays[node["id"]]).all()
    if record["beam"] is not None:
        check_beam(record)
    if record["sound"] is not None:
        check_sound(found)
    check_steps(found)


def nodes_of(found: Inspection) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in found.record["graph"]["nodes"]}


def check_graph(found: Inspection) -> None:
    nodes, symbols = nodes_of(found), found.record["symbols"]
    assert len(nodes) == len(found.record["graph"]["nodes"])
    before: set[str] = set()
    for node in nodes.values():
        assert set(node["inputs"]) <= before, node["id"]  # edges name nodes, and go forward
        before.add(node["id"])
        begins = node["kind"] in ("one_hot", "position", "mask", "waveform")
        assert bool(node["inputs"]) != begins, node["id"]
        assert node["shape"] == [symbols[axis] for axis in node["axes"]], node["id"]
        if node["array"] is not None:
            assert list(found.arrays[node["array"]].shape) == node["shape"]
        for name in node["parameters"]:
            assert name in found.arrays
        assert node["kind"] != "other"
    for node in nodes.values():  # nothing hangs in the air but the last
        used = any(node["id"] in other["inputs"] for other in nodes.values())
        assert used or node["id"] == "choose", node["id"]


def check_attention(found: Inspection, name: str, off: set[tuple[str, int]]) -> None:
    query, key, value, scores, weights, mixed = (
        found.arrays[f"{name}.{part}"].astype(np.float64)
        for part in ("query", "key", "value", "scores", "weights", "mixed")
    )
    node = nodes_of(found)[f"{name}.scores"]
    if not node["parameters"] and found.record["model"]["positions"] != "alibi":
        assert np.abs(scores - query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])).max() < 1e-4
    mask = np.ones_like(weights, dtype=bool)
    if (told := nodes_of(found).get(f"{name}.mask")) is not None:
        mask = np.broadcast_to(found.arrays[f"{name}.mask"], weights.shape)
        rows, keys = weights.shape[-2:]
        hidden = np.zeros((rows, keys), dtype=bool)
        hidden[:, told["padding"]] = True
        if told["causal"]:
            hidden |= np.triu(np.ones((rows, keys), dtype=bool), 1)
        assert (hidden == ~mask[0, 0]).all()  # each masked cell has its reason
    exact = np.abs(weights.sum(-1) - 1).max()
    assert exact < (1e-5 if found.arrays[f"{name}.weights"].dtype == np.float32 else 1e-2)
    assert (weights[~mask] == 0).all()
    powers = np.where(mask, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    assert np.abs(powers / powers.sum(-1, keepdims=True) - weights).max() < 5e-4
    for head in range(weights.shape[1]):
        expected = 0 if (name, head) in off else weights[:, head] @ value[:, head]
        assert np.abs(mixed[:, head] - expected).max() < 1e-3


def check_norm(found: Inspection, node: dict[str, Any]) -> None:
    norm = node["norm"]
    x = found.arrays[norm["input"]].astype(np.float64)
    mean, deviation, normed = (found.arrays[norm[part]].astype(np.float64) for part in ("mean", "deviation", "normed"))
    assert np.abs(mean[..., 0] - x.mean(-1)).max() < 1e-4
    assert np.abs(normed.mean(-1)).max() < 1e-4
    assert np.abs((normed * deviation + mean) - x).max() < 1e-3
    if norm["formula"] == "√(variance + eps)":
        assert np.abs(normed.var(-1) - x.var(-1) / (x.var(-1) + norm["eps"])).max() < 1e-3
    else:
        size = x.shape[-1] - 1 if "n − 1" in norm["formula"] else x.shape[-1]
        spread = np.sqrt(((x - mean) ** 2).sum(-1) / size)
        assert np.abs(deviation[..., 0] - (spread + norm["eps"])).max() < 1e-4
    gain, bias = (1 if norm[part] is None else found.arrays[norm[part]] for part in ("gain", "bias"))
    bias = 0 if norm["bias"] is None else bias
    assert np.abs(normed * gain + bias - found.arrays[node["array"]]).max() < 1e-3


def check_sound(found: Inspection) -> None:
    """Frames, convolutions and gates follow from each other, and the head's readings from the memory."""
    told, arrays = found.record["sound"], {name: one.astype(np.float64) for name, one in found.arrays.items()}
    home, nodes = "source_embedding", nodes_of(found)
    mels, frames = arrays[f"{home}.log_mels"][0], arrays[f"{home}.frames"][0][: told["frames"]]
    assert arrays[f"{home}.waveform"].shape == (1, told["samples"])
    assert mels.shape == (told["frames"], told["mels"])
    assert np.abs((mels - mels.mean(0)) / np.sqrt(np.maximum(mels.var(0), 1e-10)) - frames).max() < 1e-3
    given = arrays[f"{home}.frames"][0].copy()
    for number in (0, 1):
        path = f"{home}.subsampling.convolutions.{number}"
        weight, bias = (arrays[name] for name in nodes[path]["parameters"])
        padded = np.pad(given, ((2, 2), (0, 0)))
        count = (len(given) + 1) // 2
        rows = np.stack([padded[2 * place : 2 * place + 5].T for place in range(count)])
        assert np.abs(np.einsum("tmk,cmk->tc", rows, weight) + bias - arrays[path][0]).max() < 1e-3
        a, b = np.split(arrays[path][0], 2, axis=1)
        given = a / (1 + np.exp(-b))
        real = -(-told["frames"] // (2 if number == 0 else 4))
        given[real:] = 0
        assert np.abs(given - arrays[f"{home}.subsampling.gates.{number}"][0]).max() < 1e-3
    assert told["positions"] == len(found.record["source"]["pieces"]) == -(-told["frames"] // 4)
    if "ctc" in nodes:
        weight, bias = (arrays[name] for name in nodes["ctc"]["parameters"])
        logits = arrays["memory"][0] @ weight.T + bias
        exact = found.record["what_if"]["precision"] == "float32"
        assert np.abs(logits - arrays["ctc"][0]).max() < (1e-3 if exact else 0.1)
        logits = arrays["ctc"][0]
        places = [round(one["start"] / told["seconds_each"]) for one in told["ctc"]]
        assert [int(logits[place].argmax()) for place in places] == [one["id"] for one in told["ctc"]]


def check_beam(record: dict[str, Any]) -> None:
    """Sums add up along the tree, scores follow from them, and who lives on are the likeliest."""
    beam, search = record["beam"], record["search"]
    events = {event["id"]: event for event in beam["events"]}
    for event in events.values():
        parent = events.get(event["parent"])
        assert (parent is None) == (event["step"] == 1)
        before = 0.0
        if parent is not None:
            assert parent["step"] == event["step"] - 1
            assert parent["fate"] == "kept"
            before = parent["sum"]
        assert math.isclose(before + event["log_probability"], event["sum"], abs_tol=1e-4)
        assert math.isclose(event["sum"] / event["divisor"] + event["added"], event["score"], abs_tol=1e-5)
        assert event["length"] == event["step"]
    for step in {event["step"] for event in events.values()}:
        some = [event for event in events.values() if event["step"] == step]
        assert [event["sum"] for event in some] == sorted((event["sum"] for event in some), reverse=True)
        assert sum(event["fate"] in ("kept", "left") for event in some) <= beam["size"]
    paths = {tuple(path(events, event)) for event in events.values() if event["fate"] == "finished"}
    for one in beam["final"]:
        assert (*one["ids"], 3) in paths
        if search["right_to_left_share"] == 0:
            assert math.isclose(one["sum"] / one["divisor"] + one["added"], one["score"], abs_tol=1e-5)
    scores = [one["score"] for one in beam["final"]]
    assert scores == sorted(scores, reverse=True)
    for place, name in enumerate(beam["greedy_events"]):
        if name is not None:
            assert path(events, events[name]) == beam["greedy"][: place + 1]


def path(events: dict[str, dict[str, Any]], event: dict[str, Any]) -> list[int]:
    tokens = [event["token"]]
    while event["parent"] is not None:
        event = events[event["parent"]]
        tokens.insert(0, event["token"])
    return tokens


def check_steps(found: Inspection) -> None:
    record = found.record
    logits = found.arrays[record["logits"]["output"]].astype(np.float64)
    rows = logits[0] if logits.ndim == 3 else logits
    if record["model"]["family"] == "masked":
        return
    assert [step["t"] for step in record["steps"]] == list(
        range(1 + record["prompt"], len(record["output"]["pieces"]) + 1)
    )
    for step in record["steps"]:
        row = rows[step["t"] - 1]
        log_sum = np.log(np.exp(row - row.max()).sum()) + row.max()
        if not record["what_if"]["causal_mask"]:
            continue  # then no row of the pass over all positions is a step
        assert abs(log_sum - step["log_sum"]) < 1e-3
        assert next(token for token, _, _ in step["top"]) == int(row.argmax())
        for token, _, value in step["top"]:
            assert value is None or abs(row[token] - log_sum - value) < 1e-3
        assert step["writes"]["id"] == record["output"]["pieces"][step["t"] - 1]["id"]
