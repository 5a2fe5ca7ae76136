"""One step, three ways: a query with a cache, the prefix computed anew, and a row of the pass over all positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from dragoman.inspection.agreement import Model
from dragoman.inspector.arrays import ALL, Arrays
from dragoman.nn import CausalLM, Transformer
from dragoman.stages.capture import Call, captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides, Stage

# Longer outputs have their first steps compared, and the numbers of fewer kept.
COMPARED, KEPT = 64, 16
# Of a prefix computed anew, what shows that there are several rows.
_OF_PREFIX = ("self_attention.weights", "decoder.output")


@torch.no_grad()
def step_views(
    model: Transformer | CausalLM,
    source: Shaped[Tensor, "1 given ..."],
    mask: Bool[Tensor, "1 given"],
    inputs: Int[Tensor, "1 tgt"],
    stages: Sequence[Stage],
    arrays: Arrays,
) -> list[dict[str, Any]]:
    """Return for each step how many rows and keys each way has, and by how much their numbers differ at most.

    Args:
        model: in evaluation mode.
        source: framed ids, padded; no column if there is no encoder.
        mask: where there are tokens.
        inputs: what the decoder is given.
        stages: of the pass over all positions.
        arrays: to which numbers of the single steps are added, as `steps.3.decoder.output` and
            `steps.3.prefix.decoder.output`.
    """
    sides = Sides("transformer" if isinstance(model, Transformer) else "causal")
    whole = {stage.name: stage for stage in stages}
    state: Any = model.start(source, mask) if isinstance(model, Transformer) else model.start()
    views = []
    for place in range(min(inputs.shape[1], COMPARED)):
        newest, prefix = inputs[:, place], inputs[:, : place + 1]
        with captured(model) as calls:
            model.step(state, newest)
        cached = _told(model, calls, sides)
        with captured(model) as calls:
            if isinstance(model, Transformer):
                model(source, prefix, mask, torch.ones_like(prefix, dtype=torch.bool))
            else:
                model(prefix)
        again = _told(model, calls, sides)
        if place < KEPT:
            _keep(place + 1, cached, again, arrays)
        differences = {
            "cached_parallel": _apart(cached, whole, lambda stage, at=place: _row(stage, at)),
            "prefix_parallel": _apart(again, whole, lambda stage, at=place: _first(stage, at + 1)),
        }
        views.append({
            "t": place + 1,
            "cached": {"queries": 1, "keys": place + 1},
            "prefix": {"queries": place + 1, "keys": place + 1},
            "parallel": {"queries": inputs.shape[1], "keys": inputs.shape[1], "row": place},
            "differences": differences,
            "kept": place < KEPT,
        })  # fmt: skip
    return views


def _told(model: Model, calls: Sequence[Call], sides: Sides) -> list[Stage]:
    """The stages of the decoder; the memory is the same in all three ways."""
    return [
        stage
        for stage in find_stages(model, calls, sides)
        if stage.name.startswith(("decoder.", "generator")) and not stage.name.endswith(".mask")
    ]


def _keep(step: int, cached: Sequence[Stage], again: Sequence[Stage], arrays: Arrays) -> None:
    for stage in cached:
        of_memory = "cross_attention" in stage.name and stage.name.endswith((".key", ".value"))
        if stage.values is not None and not of_memory and stage.name != "generator":
            arrays.add(f"steps.{step}.{stage.name}", stage.values, ALL)
    for stage in again:
        if stage.values is not None and stage.name.endswith(_OF_PREFIX):
            arrays.add(f"steps.{step}.prefix.{stage.name}", stage.values, ALL)


def _apart(
    some: Sequence[Stage], whole: dict[str, Stage], cut: Callable[[Stage], Tensor | None]
) -> dict[str, float | str]:
    """The largest difference, the stage that has it, and that of the logits."""
    largest, where, logits = 0.0, "", 0.0
    for stage in some:
        if stage.name not in whole or stage.values is None:
            continue
        other = cut(whole[stage.name])
        if other is None:
            continue
        difference = float((stage.values - other).abs().max()) if other.numel() else 0.0
        if stage.name == "generator":
            logits = difference
        if difference > largest:
            largest, where = difference, stage.name
    return {"largest": largest, "stage": where, "logits": logits}


def _row(stage: Stage, place: int) -> Tensor | None:
    """What a cached step has of a stage: a row of it, and keys up to there."""
    values = stage.values
    if values is None:
        return None
    growing = stage.name.endswith((".key", ".value"))
    seen = False
    for axis, dim in enumerate(stage.dims):
        if dim == "tgt":
            row = slice(None, place + 1) if growing or seen else slice(place, place + 1)
            values, seen = values[(slice(None),) * axis + (row,)], True
    return values


def _first(stage: Stage, count: int) -> Tensor | None:
    """The first positions of a stage."""
    values = stage.values
    if values is None:
        return None
    for axis, dim in enumerate(stage.dims):
        if dim == "tgt":
            values = values[(slice(None),) * axis + (slice(None, count),)]
    return values
