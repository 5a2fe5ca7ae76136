"""Numbers between a sound and its encoder worked out: a normalised log-mel, an output of a convolution, a gate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from dragoman.audio.features import VARIANCE_FLOOR
from dragoman.inspection.tables import fine, number
from dragoman.inspection.trace import Trace
from dragoman.nn.subsampling import KERNEL, STRIDE
from dragoman.stages.convolutions import CONVOLUTIONS, GATES, HOME
from dragoman.stages.stage import Stage
from dragoman.stages.words import say

FRAMES, LOG_MELS = f"{HOME}.frames", f"{HOME}.log_mels"
# Products of one frame that are told, and of an example; all of them are in the JSON.
MOST, FEW = 40, 8


def sound_values(trace: Trace, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """Return what a number is made of.

    Args:
        trace: of a sound, whole, with weights.
        name: of the stage.
        at: row and column, from 0.
    """
    row, column = at
    if name == FRAMES:
        bins = _numbers(trace, LOG_MELS)[:, column]
        mean, variance = float(bins.mean()), float(bins.var(correction=0))
        deviation = math.sqrt(max(variance, VARIANCE_FLOOR))
        x = float(bins[row])
        return {"x": x, "mean": mean, "variance": variance, "deviation": deviation, "result": (x - mean) / deviation}
    place = int(name.rpartition(".")[2])
    if name.startswith(GATES):
        both = _numbers(trace, f"{CONVOLUTIONS}.{place}")[row]
        a, b = float(both[column]), float(both[column + len(both) // 2])
        gate = 1 / (1 + math.exp(-b))
        return {"a": a, "b": b, "gate": gate, "result": a * gate}
    given = _numbers(trace, FRAMES if place == 0 else f"{GATES}.0")
    weight = trace.weights[f"{name}.weight"].double().cpu()[column]
    taps: list[dict[str, Any]] = []
    for tap in range(KERNEL):
        frame = STRIDE * row + tap - KERNEL // 2
        inside = 0 <= frame < len(given)
        x, w = given[frame] if inside else given[0] * 0, weight[:, tap]
        taps.append({"row": frame if inside else None, "x": x.tolist(), "w": w.tolist(), "products": (x * w).tolist()})
    bias = float(trace.weights[f"{name}.bias"][column])
    return {"taps": taps, "bias": bias, "result": sum(sum(one["products"]) for one in taps) + bias}


def sound_lines(
    trace: Trace, stage: Stage, at: tuple[int, ...], values: dict[str, Any], most: int = MOST
) -> Iterator[str]:
    """Yield the same told; arguments as of `sound_values`.

    Args:
        trace: of a sound.
        stage: whose number it is.
        at: row and column, from 0.
        values: what it is made of.
        most: products of one frame that are told.
    """
    yield f"{stage.name}[{at[0]},{at[1]}]  {stage.label(at[0])}"
    if stage.name == FRAMES:
        yield "   " + say("log-mel x = {x}; of bin {bin}, over all frames: mean {mean}, variance {variance}").format(
            x=fine(values["x"]), bin=at[1], mean=fine(values["mean"]), variance=fine(values["variance"])
        )
        x, mean, deviation = (fine(values[part]) for part in ("x", "mean", "deviation"))
        yield f"   ({x} − {_bracketed(mean)}) / {deviation} = {fine(values['result'])}"
    elif stage.name.startswith(GATES):
        half = stage.shape[-1]
        yield "   " + say("a, channel {one}: {a}; b, channel {other}: {b}").format(
            one=at[1], other=at[1] + half, a=fine(values["a"]), b=fine(values["b"])
        )
        a, b = fine(values["a"]), fine(values["b"])
        gate, result = fine(values["gate"]), fine(values["result"])
        yield f"   a · σ(b) = {a} · 1 / (1 + exp(−{_bracketed(b)})) = {a} · {gate} = {result}"
    else:
        before = trace.stage(FRAMES if stage.name.endswith(".0") else f"{GATES}.0")
        yield from _taps(before, values, most)


def _taps(before: Stage, values: dict[str, Any], most: int) -> Iterator[str]:
    """The sum of each frame that the kernel lies on, product by product."""
    sums = []
    for tap, one in enumerate(values["taps"]):
        total = sum(one["products"])
        sums.append(total)
        if one["row"] is None:
            yield "   " + say("kernel {tap}: before or after the sound, 0").format(tap=tap)
            continue
        yield "   " + say("kernel {tap}, on {row}: the products of {count} numbers").format(
            tap=tap, row=before.label(one["row"]), count=len(one["products"])
        )
        yield from _products(one, most)
        yield f"      {say('sum')} = {fine(total)}"
    added = " + ".join(_bracketed(fine(one)) for one in (*sums, values["bias"]))
    yield "   " + say("all five and the bias") + f": {added} = {fine(values['result'])}"


def _products(tap: dict[str, Any], most: int) -> Iterator[str]:
    rows = list(zip(tap["x"], tap["w"], tap["products"], strict=True))
    told = [f"{number(x)}·{_bracketed(number(w))} = {number(product)}" for x, w, product in rows[:most]]
    wide = max(map(len, told))
    each = max(1, 94 // (wide + 2))
    for start in range(0, len(told), each):
        yield "      " + "  ".join(one.rjust(wide) for one in told[start : start + each]).rstrip()
    if len(rows) > most:
        yield "      " + say("… and {count} more (all of them with --json)").format(count=len(rows) - most)


def _numbers(trace: Trace, name: str) -> Tensor:
    values = trace.stage(name).values
    assert values is not None
    return values[0].double()


def _bracketed(told: str) -> str:
    return f"({told})" if told.startswith("-") else told
