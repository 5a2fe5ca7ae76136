"""Decoding side by side: equal work with equal weights, a trained model on sentences, and how costs grow."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from peers_agree import LINES, check_outputs, check_scores, same
from peers_limits import Sizes
from peers_pool import PeerError, Worker, quartiles, say, take_turns
from peers_rows import Limits, Plan, Runs, shares
from peers_work import GOALS, MODELS, Decoding, decoding, one_length, sizes

from dragoman.text import TokenizerPair

TINY = {"d_model": 256, "heads": 4, "d_ff": 1024, "layers": 3, "vocab": 4000}
# What grows, how far, and everything else as it is meanwhile.
USUAL = {"source": 16, "batch": 8, "beam": 4, "vocab": 4000, "layers": 3}
CURVES: dict[str, tuple[int, ...]] = {
    "source": (16, 32, 64, 128, 256, 512, 1024), "batch": (1, 2, 4, 8, 16, 32, 64, 128, 256), "beam": (1, 2, 4, 8, 16),
    "vocab": (4000, 8000, 16000, 32000, 64000), "layers": (1, 2, 4, 6, 8, 12),
}  # fmt: skip

CLIFF = 1.5  # times what the operations explain


def bench_decoding(plan: Plan, models: Sequence[str], batches: Sequence[int], beams: Sequence[int]) -> None:
    """The eight rows of the table, for everyone."""
    yardsticks = [one.name for one in plan.ctranslate2]
    for name in models:
        limits = Limits.probe(plan, Sizes.of(MODELS[name]))
        with plan.attempt(f"decoding {name}"), tempfile.TemporaryDirectory(dir=plan.folder) as folder:
            make_model(plan, folder, MODELS[name])
            everyone = [*plan.ours, *plan.ctranslate2, *plan.runtimes, *plan.marian]
            with plan.opened(everyone, "load", folder) as workers:
                check_model(workers, name, MODELS[name]["target_vocab"])
                for batch in batches:
                    for beam in beams:
                        work = decoding(batch, beam, MODELS[name]["target_vocab"], calls=max(1, 8 // batch))
                        goal = next(
                            (g.least for g in GOALS if (g.model, g.batch, g.beam_size) == (name, batch, beam)), None
                        )
                        facts = {"model": name, "batch": batch, "beam_size": beam, "steps": work.steps, "goal": goal}
                        _compare(plan, "peers decode", facts, workers, work, yardsticks, limits, Sizes.of(MODELS[name]))


def check_model(workers: Mapping[str, Worker], name: str, vocab: int) -> None:
    """Whether everyone in float32 gives the same outputs, drawn by chance, the same log-probabilities."""
    work, drawn = decoding(LINES, 1, vocab, calls=1), decoding(LINES, 1, vocab, calls=2)
    targets = [(ids * work.steps)[: work.steps] for ids in drawn.batches[1]]
    check_scores(name, workers, "scores", work.batches[0], targets)


def make_model(plan: Plan, folder: str, config: Mapping[str, Any]) -> None:
    """Random weights that never end by themselves."""
    with Worker(plan.ours[0], plan.threads) as worker:
        worker.call("make_model", folder, config, True)


def _compare(
    plan: Plan, benchmark: str, facts: Mapping[str, Any], workers: Mapping[str, Worker], work: Decoding,
    yardsticks: Sequence[str], limits: Limits, shape: Sizes,
) -> None:  # fmt: skip
    """Outputs first, then times; who fails is left out of this row."""
    given = (work.batches, work.steps, work.beam_size)
    outputs: dict[str, list[list[int]]] = {}
    for name, worker in workers.items():
        try:
            outputs[name] = worker.result("outputs", *given)
            worker.call("prepare_decoding", *given)
        except PeerError as error:
            plan.emit("peers unavailable", {**facts, "what": name, "reason": str(error)})
    able = {name: worker for name, worker in workers.items() if name in outputs}
    reference = next((name for name in yardsticks if name in able), next(iter(able), ""))
    exact = {name: outputs[name] for name, worker in able.items() if worker.contestant.is_float32}
    check_outputs(benchmark, exact, next(iter(exact), reference))
    runs = Runs(able, plan.clock)
    times = take_turns(runs.times(), budget=plan.budget, fewest=plan.fewest, warm=True)  # by `outputs`
    steps = [[work.steps] * len(batch) for batch in work.batches]
    least = limits.searching(shape, work.lengths, steps, work.beam_size)
    extra: dict[str, dict[str, Any]] = {}
    for name in able:
        share = same(outputs[name], outputs[reference])
        extra[name] = {"same_outputs": share, "same_as": reference, "peak_mib": runs.peaks.get(name)}
        extra[name]["engine"] = able[name].told
        extra[name] |= shares(least, quartiles(times[name], "it")["it"])
    amounts = {"output_tokens": work.tokens, "sentences": sum(len(batch) for batch in work.batches)}
    plan.report(benchmark, facts, times, yardsticks, extra, amounts)


def sizes_of(model: Path) -> Sizes:
    """Of a trained model."""
    return Sizes.of(json.loads((model / "config.json").read_text(encoding="utf-8"))["model"])


def least_of(
    limits: Limits, model: Path, lines: Sequence[str], outputs: Sequence[str], beam_size: int
) -> dict[str, float]:
    """Least seconds in each precision from lines to outputs, as if all were one batch; tokenising takes none.

    What the tokenizer makes of an output counts for the tokens that it was made of.
    """
    tokenizers = TokenizerPair.load(model)
    sources = [len(tokenizers.source.encode(line)) + 1 for line in lines]
    steps = [len(tokenizers.target.encode(text)) + 1 for text in outputs]
    return limits.searching(sizes_of(model), [sources], [steps], beam_size)


def bench_curves(plan: Plan, curves: Sequence[str], most: int) -> None:
    """One thing grows, the rest stays: time and memory, and the power by which time grew since the point before.

    For the first two of ours, and CTranslate2.

    Outputs are as long as sources.
    """
    plan = replace(plan, fewest=min(3, plan.fewest))
    for curve in curves:
        values = [one for one in CURVES[curve] if one <= most or curve == "vocab"]
        same_model = curve not in ("vocab", "layers")
        for some in [values] if same_model else [[value] for value in values]:
            with plan.attempt(f"{curve} {some}"), tempfile.TemporaryDirectory(dir=plan.folder) as folder:
                at = {**USUAL, curve: some[0]}
                config = sizes(**{**TINY, "vocab": at["vocab"], "layers": at["layers"]})
                make_model(plan, folder, config)
                limits = Limits.probe(plan, Sizes.of(config))
                with plan.opened([*plan.ours[:2], *plan.ctranslate2], "load", folder) as workers:
                    for value in some:
                        _point(plan, curve, value, workers, limits, Sizes.of(config))
    write_growth(plan)


def _point(
    plan: Plan, curve: str, value: int, workers: Mapping[str, Worker], limits: Limits, shape: Sizes
) -> None:  # fmt: skip
    say(f"curve: {curve} {value}")
    at = {**USUAL, curve: value}
    steps = at["source"] if curve == "source" else USUAL["source"]
    work = one_length(at["batch"], at["source"], steps, at["beam"], at["vocab"])
    facts = {"curve": curve, "value": value, **at, "steps": steps, "operations": work_of(shape, work)}
    _compare(plan, "peers curve", facts, workers, work, [one.name for one in plan.ctranslate2], limits, shape)


def work_of(shape: Sizes, work: Decoding) -> int:
    """Operations of a search: 2 for each multiplication and addition of its products."""
    total = 0
    for lengths in work.lengths:
        for length in lengths:
            total += shape.encode(length)
            total += sum((work.beam_size if step else 1) * shape.step(length, step) for step in range(work.steps))
    return total


def write_growth(plan: Plan) -> None:
    """A row for each step of each curve: the exponent, 1 for time in proportion, 2 for its square.

    `counted_power` is that of the operations. A step is a cliff where time grew by half more than they did.
    """
    rows = [row for row in plan.rows if row["benchmark"] == "peers curve"]
    for curve, what in dict.fromkeys((row["curve"], row["what"]) for row in rows):
        points = [row for row in rows if (row["curve"], row["what"]) == (curve, what)]
        for before, after in itertools.pairwise(points):
            grown = {name: after[name] / before[name] for name in ("value", "seconds", "operations")}
            power, counted = (math.log(grown[name]) / math.log(grown["value"]) for name in ("seconds", "operations"))
            facts = {"curve": curve, "what": what, "from": before["value"], "to": after["value"], "power": power}
            cliff = grown["seconds"] > CLIFF * grown["operations"]
            plan.emit("peers growth", {**facts, "counted_power": counted, "cliff": cliff})
        if curve == "source" and len(points) > 3:
            plan.emit("peers law", {"what": what, **law([(row["value"], row["seconds"]) for row in points])})


def law(points: Sequence[tuple[int, float]]) -> dict[str, float]:
    """Seconds as `fixed` + `linear` * length + `quadratic` * length ** 2, with the least squares of relative errors.

    `worst` is the largest of these errors: small where only attention grows faster than the length. `quadratic_share`
    is what the square takes of the time at the greatest length.
    """
    lengths, seconds = np.asarray(points, dtype=float).T
    powers = lengths[:, None] ** np.arange(3)
    found = np.linalg.lstsq(powers / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
    share = found[2] * lengths[-1] ** 2 / seconds[-1]
    worst = float(np.abs(powers @ found / seconds - 1).max())
    names = ("fixed", "linear", "quadratic", "quadratic_share", "worst")
    return dict(zip(names, [*map(float, found), float(share), worst], strict=True))
