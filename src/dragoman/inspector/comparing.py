"""Two systems side by side: what each writes, and the first stage at which their numbers part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.inspector.conventions import LEAST
from dragoman.inspector.record import Inspection
from dragoman.translation import Translator


def name_of(against: Translator | str | Path) -> str:
    """Return what a system is called that a model is set beside."""
    if isinstance(against, Translator):
        return "" if against.opened is None else against.opened.directories[0].name
    return Path(against).name


def compared(one: Inspection, ask: Callable[[tuple[int, ...] | None], Inspection], name: str) -> dict[str, Any]:
    """Return how another system differs from a record: the outputs, each step, and each stage.

    Stages are compared at the same decoder input, the one of the record, so that each number has one to be set beside.

    Args:
        one: the record.
        ask: what the other system does with the same text; with its own output, or with the ids of a target.
        name: of the other system.
    """
    free = ask(None)
    shown = one.record["decoder_input"]["pieces"][1:] if one.record["decoder_input"] else []
    own = free.record["decoder_input"]["pieces"][1:] if free.record["decoder_input"] else []
    forced = free
    pair = one.record["model"]["family"] == "transformer"  # others have no target that could be given
    if pair and shown and [piece["text"] for piece in shown] != [piece["text"] for piece in own]:
        ids = tuple(piece["id"] for piece in shown)
        known = free.record["model"]["sizes"].get("target_vocab", 0)
        forced = ask(ids) if not known or max(ids) < known else free
    same = _texts(forced) == _texts(one)
    stages = list(_stages(one, forced)) if same else []
    steps = _steps(one, free)
    return {
        "name": name,
        "model": free.record["model"]["name"],
        "what_if": free.record["what_if"],
        "search": free.record["search"]["name"],
        "output": free.record["output"],
        "sum": _sum(free),
        "steps": steps,
        "apart": next((step["t"] for step in steps if step["one"] != step["other"]), None),
        "same_input": same,
        "only_one": _lacking(one, forced),
        "only_other": _lacking(forced, one),
        "stages": stages,
        "first": next((told["stage"] for told in stages if told["largest"] is None or told["largest"] >= LEAST), None),
    }


def _lacking(one: Inspection, other: Inspection) -> list[str]:
    """The stages that another record lacks."""
    theirs = {node["id"] for node in other.record["graph"]["nodes"]}
    return [node["id"] for node in one.record["graph"]["nodes"] if node["id"] not in theirs]


def _texts(found: Inspection) -> list[list[str]]:
    sides = (found.record["source"], found.record["decoder_input"])
    return [[piece["text"] for piece in side["pieces"]] for side in sides if side]


def _sum(found: Inspection) -> float:
    return sum(step["log_probability"] for step in found.record["steps"])


def _steps(one: Inspection, other: Inspection) -> list[dict[str, Any]]:
    """What both write at each step, as long as either writes."""
    rows = one.record["steps"], other.record["steps"]
    told = []
    for at in range(max(map(len, rows))):
        mine, theirs = (row[at] if at < len(row) else None for row in rows)
        told.append({
            "t": at + 1,
            "one": mine and mine["writes"]["piece"],
            "other": theirs and theirs["writes"]["piece"],
            "log_probability": mine and mine["log_probability"],
            "other_log_probability": theirs and theirs["log_probability"],
        })  # fmt: skip
    return told


def _stages(one: Inspection, other: Inspection) -> list[dict[str, Any]]:
    """Each stage that both have, in the order of computation, with the place at which they are furthest apart."""
    told = []
    for node in one.record["graph"]["nodes"]:
        name = node["array"]
        if name is None or name not in other.arrays or node["kind"] in ("mask", "one_hot"):
            continue
        here, there = (each.arrays[name].astype(np.float64) for each in (one, other))
        row: dict[str, Any] = {"stage": node["id"], "largest": None, "place": [], "one": None, "other": None}
        row["size"] = float(np.sqrt((here**2).mean())) if here.size else 0.0
        if here.shape == there.shape and here.size:
            apart = np.abs(here - there)
            place = np.unravel_index(int(apart.argmax()), apart.shape)
            row |= {
                "largest": float(apart[place]), "place": [int(at) for at in place], "one": float(here[place]),
                "other": float(there[place]),
            }  # fmt: skip
        told.append(row)
    return told
