"""A number worked out: the terms it is the sum of, from the numbers of the trace."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.inspection.tables import fine, number, shown, table
from dragoman.inspection.trace import Trace
from dragoman.inspection.working_sounds import FEW, FRAMES, MOST, sound_lines, sound_values
from dragoman.stages.convolutions import CONVOLUTIONS, GATES
from dragoman.stages.stage import Stage
from dragoman.stages.words import say

# Terms in a line, and values of a vector that are printed.
ACROSS, FIRST = 8, 8
_PLACE = re.compile(r"(?P<name>[^\[\]]+)\[(?P<at>\d+(?:,\s*\d+)*)\]")
_ATTENTION = ("scores", "weights", "mixed")
_EXPECTED = (
    "an attention score as 'encoder.layers.0.self_attention.scores[HEAD,QUERY,KEY]', "
    "or a vector of a norm as 'encoder.layers.0.self_attention_residual.norm[POSITION]', or of a sound "
    "'source_embedding.subsampling.convolutions.0[POSITION,CHANNEL]', '.frames' or '.gates' likewise; counted from 0"
)


@dataclass(frozen=True)
class Working:
    """A number or a vector with what it is made of.

    Attributes:
        name: of the stage.
        place: in it, from 0: head, query and key of a score; the position of a normed vector.
        values: all numbers by their names, unrounded.
        lines: the same told.
    """

    name: str
    place: tuple[int, ...]
    values: dict[str, Any] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"name": self.name, "place": list(self.place), "values": self.values}


def work_out(trace: Trace, place: str) -> Working:
    """Return how one number, or one vector of a norm, comes about.

    Args:
        trace: a whole one, with weights.
        place: `encoder.layers.0.self_attention.scores[0,1,2]` is the score of head 0 for query 1 and key 2, with what
            becomes of it; `encoder.layers.0.self_attention_residual.norm[1]` is the vector at position 1;
            `source_embedding.subsampling.convolutions.0[4,2]` is channel 2 of the first convolution at its output 4.

    Raises:
        ConfigError: there is no such place, or nothing to be worked out there.
    """
    found = _PLACE.fullmatch(place.strip())
    if found is None:
        raise ConfigError("this is not a place in a stage", expected=_EXPECTED, found=repr(place))
    name, at = found["name"].strip(), tuple(int(one) for one in found["at"].split(","))
    stage = trace.stage(name)
    home, _, part = name.rpartition(".")
    if part in _ATTENTION and f"{home}.scores" in trace.stage_names:
        return _score(trace, home, _checked(name, at, trace.stage(f"{home}.scores").shape[1:]))
    if stage.given is not None:
        return _norm(trace, stage, _checked(name, at, stage.shape[1:2]))
    if name == FRAMES or name.startswith((CONVOLUTIONS, GATES)):
        return _of_sound(trace, stage, _checked(name, at, stage.shape[1:]))
    raise ConfigError("nothing can be worked out at this place", expected=_EXPECTED, found=repr(place))


def _of_sound(trace: Trace, stage: Stage, at: tuple[int, ...], most: int = MOST) -> Working:
    values = sound_values(trace, stage.name, at)
    return Working(stage.name, at, values, tuple(sound_lines(trace, stage, at, values, most)))


def _checked(name: str, at: tuple[int, ...], shape: Sequence[int]) -> tuple[int, ...]:
    if len(at) != len(shape) or any(one >= size for one, size in zip(at, shape, strict=True)):
        most = ",".join(str(size - 1) for size in shape)
        raise ConfigError(
            f"{name} has no such place", expected=f"at most [{most}], counted from 0", found=str(list(at))
        )
    return at


def _numbers(trace: Trace, name: str) -> Tensor:
    values = trace.stage(name).values
    assert values is not None
    return values[0]


def _score(trace: Trace, home: str, at: tuple[int, ...]) -> Working:
    head, query, key = at
    stage = trace.stage(f"{home}.scores")
    q, k = (_numbers(trace, f"{home}.{part}")[head, one].double() for part, one in (("query", query), ("key", key)))
    value = _numbers(trace, f"{home}.value")[head].double()
    row, terms = _numbers(trace, f"{home}.scores")[head, query].double(), q * k
    root = math.sqrt(len(q))
    mask = _numbers(trace, f"{home}.mask")[0, query].bool() if f"{home}.mask" in trace.stage_names else row == row
    exps = (row - row[mask].max()).exp() * mask if mask.any() else row * 0
    total = float(exps.sum())
    weights = exps / total if total else exps
    added = float(row[key] - terms.sum() / root)
    values = {
        "q": q.tolist(), "k": k.tolist(), "terms": terms.tolist(), "dot": float(terms.sum()), "root": root,
        "added": added if abs(added) > 1e-4 * max(1.0, float(row.abs().max())) else 0.0, "score": float(row[key]),
        "scores": row.tolist(), "seen": mask.tolist(), "exp": exps.tolist(), "sum": total,
        "weights": weights.tolist(), "mixed": (weights @ value).tolist(),
        "undivided": _undivided(trace, home, at, row, mask),
    }  # fmt: skip
    return Working(f"{home}.scores", at, values, tuple(_score_lines(stage, at, values, value)))


def _undivided(trace: Trace, home: str, at: tuple[int, ...], row: Tensor, mask: Tensor) -> list[float]:
    """The weights of the row as they would be without the division by √d_k; none where positions enter the scores."""
    head, query, _ = at
    q, k = (_numbers(trace, f"{home}.{part}")[head].double() for part in ("query", "key"))
    dots = k @ q[query]
    if not mask.any() or not torch.allclose(dots / math.sqrt(k.shape[1]), row, rtol=1e-4, atol=1e-4):
        return []
    return dots.masked_fill(~mask, -math.inf).softmax(-1).tolist()


def _score_lines(stage: Stage, at: tuple[int, ...], values: dict[str, Any], value: Tensor) -> Iterator[str]:
    head, query, key = at
    looks = say("{query} looks at {key}").format(query=stage.label(query), key=shown(stage.columns[key]))
    yield f"{stage.name}[{head},{query},{key}]  {say('head {head}, {looks}').format(head=head, looks=looks)}"
    yield "   " + say("q · k, the products of the {count} numbers of both:").format(count=len(values["terms"]))
    pairs = list(zip(values["q"], values["k"], values["terms"], strict=True))
    products = [f"{number(one)}·{_factor(other)} = {number(term)}" for one, other, term in pairs]
    yield from table([products[start : start + 4] for start in range(0, len(products), 4)], 6, left=0)
    yield f"      {say('sum')} = {fine(values['dot'])}"
    line = f"{fine(values['dot'])} / √{len(values['q'])} = {fine(values['dot'])} / {fine(values['root'])}"
    if values["added"]:
        yield "   " + say("what the positions of this model add: {added}").format(added=fine(values["added"]))
        line += f" + {fine(values['added'])}"
    yield f"   {say('attention score')} = {line} = {fine(values['score'])}"
    if stage.name.startswith("decoder.") and "self_attention" in stage.name and not values["seen"][key]:
        yield "   " + say("mask: hidden, the key comes after the query (causal mask); its weight is exactly 0")
    elif not values["seen"][key]:
        yield "   " + say("mask: hidden, the key is padding; its weight is exactly 0")
    else:
        yield "   " + say("mask: open, the query may look at this key")
    yield "   " + say("softmax over the row: exp(score − largest) / sum = weight, then weight · V:")
    rows = [
        [
            "",
            say("attention score"),
            say("exp"),
            say("weight"),
            say("V (the first {count})").format(count=min(FIRST, value.shape[1])),
        ]
    ]
    for place, piece in enumerate(stage.columns):
        hidden = not values["seen"][place]
        exp, weight = fine(values["exp"][place]), fine(values["weights"][place])
        told = [say("hidden"), "0"] if hidden else [exp, weight]
        vector = " ".join(f"{one:7.3f}" for one in value[place, :FIRST].tolist())
        rows.append([("▸ " if place == key else "  ") + shown(piece), fine(values["scores"][place]), *told, vector])
    mixed = " ".join(f"{one:7.3f}" for one in values["mixed"][:FIRST])
    whole = "1" if values["sum"] else "0"
    rows.append(["  " + say("sum"), "", fine(values["sum"]), whole, mixed])
    yield from table(rows, 6)
    if values["undivided"]:
        told = "without ÷ √{width} the largest weight would be {undivided}, not {weight}"
        largest = {name: fine(max(values[name])) for name in ("undivided", "weights")}
        width, undivided, weight = len(values["q"]), largest["undivided"], largest["weights"]
        yield "   " + say(told).format(width=width, undivided=undivided, weight=weight)


def _norm(trace: Trace, stage: Stage, at: tuple[int, ...]) -> Working:
    [place] = at
    assert stage.given is not None
    assert stage.values is not None
    given, gave = stage.given[0, place].double(), stage.values[0, place].double()
    mean = float(given.mean())
    variance = float(given.var(correction=0))
    values: dict[str, Any] = {"x": given.tolist(), "mean": mean, "variance": variance, "result": gave.tolist()}
    gain, shift = (trace.weights.get(f"{stage.module}.{part}") for part in ("weight", "bias"))
    if gain is not None:
        values["gamma"] = gain.double().tolist()
    if shift is not None:
        values["beta"] = shift.double().tolist()
    if stage.eps is not None:
        values |= _deviations(given, gave, stage.eps, gain, shift)
    return Working(stage.name, at, values, tuple(_norm_lines(stage, place, values)))


def _deviations(
    given: Float[Tensor, " d_model"],
    gave: Float[Tensor, " d_model"],
    eps: float,
    gain: Tensor | None,
    shift: Tensor | None,
) -> dict[str, Any]:
    """What this norm divides by: of three ways in use, the one that comes to its numbers."""
    centred = given - given.mean()
    ways = {
        "√(variance + {eps})": math.sqrt(float(given.var(correction=0)) + eps),
        "√variance + {eps}": math.sqrt(float(given.var(correction=0))) + eps,
        "√(variance · n/(n − 1)) + {eps}": math.sqrt(float(given.var(correction=1))) + eps,
    }

    def off(deviation: float) -> float:
        found = centred / deviation
        found = found if gain is None else found * gain.double()
        return float((gave - (found if shift is None else found + shift.double())).abs().max())

    formula, deviation = min(ways.items(), key=lambda way: off(way[1]))
    told = formula.replace("variance", say("variance")).format(eps=f"{eps:g}")
    return {"deviation": deviation, "normed": (centred / deviation).tolist(), "formula": told, "off": off(deviation)}


def _norm_lines(stage: Stage, place: int, values: dict[str, Any]) -> Iterator[str]:
    yield f"{stage.name}[{place}]  {stage.label(place)}"
    count = len(values["x"])
    mean, variance = fine(values["mean"]), fine(values["variance"])
    yield "   " + say("mean of the {count} numbers x: {mean}; variance, the mean of (x − mean)²: {variance}").format(
                      count=count, mean=mean, variance=variance)  # fmt: skip
    if "deviation" in values:
        deviation = fine(values["deviation"])
        yield "   " + say("deviation = {formula} = {deviation}").format(formula=values["formula"], deviation=deviation)
    rows = [["x", *values["x"][:FIRST]]]
    rows += [[f"(x − {say('mean')}) / {say('deviation')}", *values["normed"][:FIRST]]] if "normed" in values else []
    rows += [["· γ", *values["gamma"][:FIRST]]] if "gamma" in values else []
    rows += [["+ β", *values["beta"][:FIRST]]] if "beta" in values else []
    rows += [[say("result"), *values["result"][:FIRST]]]
    told = [[str(row[0]), *(number(float(one)) for one in row[1:]), *(["…"] if count > FIRST else [])] for row in rows]
    yield from table(told, 6)


def _factor(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)


def examples(trace: Trace) -> list[Working]:
    """Return what is worked out for those who did not ask for anything: one vector of a norm, and one score.

    Of a sound, before these, also an output of the first convolution and its gate.
    """
    found = []
    if trace.sound is not None and trace.weights:
        middle = trace.sound.positions - 1  # of the outputs of the first convolution, which are twice as many
        found += [_of_sound(trace, trace.stage(f"{home}.0"), (middle, 0), FEW) for home in (CONVOLUTIONS, GATES)]
    norm = next((stage for stage in trace.stages if stage.given is not None and stage.eps is not None), None)
    if norm is not None and trace.weights:
        found.append(work_out(trace, f"{norm.name}[0]"))
    homes = [stage.name.removesuffix(".scores") for stage in trace.stages if stage.name.endswith(".scores")]
    if homes:
        home = next((one for one in homes if "cross" in one), homes[0])
        weights = _numbers(trace, f"{home}.weights")[0]
        query = min(1, len(weights) - 1)
        found.append(work_out(trace, f"{home}.scores[0,{query},{int(weights[query].argmax())}]"))
    return found
