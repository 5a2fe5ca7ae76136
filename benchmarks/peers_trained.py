"""Trained models to translate with, who translates with which, and translating from strings to strings in a process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peers_agree import check_outputs, check_scores, same
from peers_decoding import least_of, sizes_of
from peers_pool import Contestant, Worker, quartiles, take_turns
from peers_rows import Limits, Plan, Runs, shares
from peers_training import run_command

ONE_READING = {"right_to_left_weight": 0.0}


@dataclass(frozen=True)
class Models:
    """What texts are translated with.

    Attributes:
        default: as `train` makes it of a corpus when nothing is said of the model.
        sinusoids: one of the same sizes with sinusoids, which reads in one direction; None if there is none.
    """

    default: Path
    sinusoids: Path | None = None

    @property
    def reads_twice(self) -> bool:
        """Whether the default one ranks what it found by reading it from its end too."""
        return bool(configuration(self.default).get("right_to_left"))


@dataclass(frozen=True)
class Entry:
    """A row to be: who translates, with which model and options of decoding; `same_weights` as the first."""

    name: str
    one: Contestant
    model: Path
    decoding: Mapping[str, Any]
    same_weights: bool = True

    @property
    def contestant(self) -> Contestant:
        """Who translates, under the name of the row."""
        return replace(self.one, name=self.name, options={**self.one.options, "decoding": dict(self.decoding)})


def entries_of(plan: Plan, models: Models, beam_size: int) -> list[Entry]:
    """All rows of a table: ours as it comes, and reading once, as everyone else does; CTranslate2 with both models."""
    found: list[Entry] = []
    both = models.reads_twice and beam_size > 1  # greedy outputs are not ranked
    for one in plan.ours:
        if one.options.get("engine") == "module" and len(plan.ours) > 1:
            continue
        if not both or one is plan.ours[0]:
            found.append(Entry(one.name, one, models.default, {}))
        if both:
            found.append(Entry(f"{one.name}, one reading", one, models.default, ONE_READING))
    found += [Entry(one.name, one, models.default, {}) for one in plan.ctranslate2]
    if models.sinusoids is not None:
        found += [
            Entry(f"{one.name}, sinusoids", one, models.sinusoids, {}, same_weights=False) for one in plan.ctranslate2
        ]
    return found


def yardsticks_of(entries: Sequence[Entry], able: Sequence[str]) -> list[str]:
    """Those of CTranslate2 with the same weights; where its format cannot say what the model is, the others."""
    theirs = [entry for entry in entries if not entry.one.ours and entry.name in able]
    return [entry.name for entry in [entry for entry in theirs if entry.same_weights] or theirs]


def comparable(entries: Sequence[Entry], able: Sequence[str]) -> list[Entry]:
    """Those in float32 that read the same weights once: their outputs are to be the same."""
    # Ours that reads twice is the one without options of decoding where there is another one with them.
    once = [entry for entry in entries if entry.same_weights and entry.one.is_float32 and entry.name in able]
    return [entry for entry in once if not entry.one.ours or entry.decoding or not _reads_twice(entry, entries)]


def _reads_twice(entry: Entry, entries: Sequence[Entry]) -> bool:
    return any(other.one is entry.one and other.decoding for other in entries)


def check(
    plan: Plan, what: str, entries: Sequence[Entry], lines: Sequence[str], outputs: Mapping[str, Sequence[str]],
    beam_size: int,
) -> None:  # fmt: skip
    """Whether those in float32 give the same log-probabilities to what was found, and greedily found the same.

    Beams are not compared: of models that are little trained, searches that stop by other rules find other outputs.

    Raises:
        UnequalError: they do not.
    """
    exact = comparable(entries, list(outputs))
    if not any(not entry.one.ours for entry in exact):
        return  # nobody else has these weights, and the rows say so
    # One way to use threads is enough: what it computes is the same.
    ways = {(entry.one.kind, entry.one.ours): entry for entry in reversed(exact)}
    first = next(entry.name for entry in exact)
    if beam_size == 1:
        check_outputs(what, {entry.name: outputs[entry.name] for entry in exact}, first)
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for entry in ways.values():
            workers[entry.name] = stack.enter_context(Worker(entry.contestant, plan.threads))
            workers[entry.name].call("load_translator", str(entry.model))
        check_scores(what, workers, "score_texts", lines, outputs[first])


def extra_of(
    limits: Limits, entries: Sequence[Entry], lines: Sequence[str], outputs: Mapping[str, Sequence[str]],
    times: Mapping[str, Sequence[float]], beam_size: int, before: Mapping[str, float],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """What part of the least time each took, and how many outputs are those of the first yardstick.

    Outputs of other weights are other ones: nothing is said of them.
    """
    able = list(outputs)
    yardsticks = yardsticks_of(entries, able)
    reference = outputs[yardsticks[0] if yardsticks else able[0]]
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.name not in outputs:
            continue
        searching = least_of(limits, entry.model, lines, outputs[entry.name], beam_size)
        least = {kind: before[kind] + seconds for kind, seconds in searching.items()}
        found[entry.name] = shares(least, quartiles(times[entry.name], "it")["it"])
        if entry.same_weights:
            found[entry.name]["same_outputs"] = same(outputs[entry.name], reference)
    return found


def bench_trained(plan: Plan, models: Models, lines: Sequence[str], beam: int) -> None:
    """A trained model from strings to strings: outputs end where they end, finished ones leave."""
    limits, entries = Limits.probe(plan, sizes_of(models.default)), entries_of(plan, models, beam)
    model_of = {entry.name: str(entry.model) for entry in entries}
    with plan.opened_each([entry.contestant for entry in entries], "load_translator", model_of) as workers:
        for count in (1, 32, len(lines)):
            texts, outputs = list(lines[:count]), {}
            for name, worker in workers.items():
                worker.call("prepare_texts", texts, beam)
                outputs[name] = worker.result("run")
            if count == len(lines):
                check(plan, f"peers trained, beam size {beam}", entries, texts, outputs, beam)
            runs = Runs(workers, plan.clock)
            times = take_turns(runs.times(), budget=plan.budget, fewest=plan.fewest, warm=True)
            extra = extra_of(limits, entries, texts, outputs, times, beam, dict.fromkeys(limits.operations, 0.0))
            for name in extra:
                extra[name] |= {"peak_mib": runs.peaks.get(name), "engine": workers[name].told}
            facts = {"model": "trained", "batch": count, "beam_size": beam}
            plan.report(
                "peers trained", facts, times, yardsticks_of(entries, list(outputs)), extra, {"sentences": count}
            )


def configuration(model: Path) -> dict[str, Any]:
    """What a directory says of its model."""
    return json.loads((model / "config.json").read_text(encoding="utf-8"))["model"]


def train_models(plan: Plan, source: Path, target: Path, steps: int) -> Models:
    """The default model of a corpus after so many updates, and one with sinusoids; unless they are there."""
    default = train_model(plan, source, target, steps, {})
    sizes = configuration(default)
    own = {f"model.{key}": sizes[key] for key in (*SIZES, "tie_embeddings")}
    settings = {**own, "model.positions": "interleaved", "model.right_to_left": "false"}
    return Models(default, train_model(plan, source, target, steps, settings))


SIZES = ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")


def train_model(plan: Plan, source: Path, target: Path, steps: int, settings: Mapping[str, Any]) -> Path:
    """A model trained on the files, as `train` does by itself but for the tokenizer, unless it is there.

    Not `training.max_minutes`: a run that ends by the clock is given other settings.
    """
    kind = "-".join(str(value) for key, value in settings.items() if key == "model.positions") or "default"
    out = plan.folder / f"trained-{source.parent.name}-{source.name}-{steps}-{kind}"
    if not (out / "model.safetensors").exists():
        every = {"tokenizer.kind": "bpe", "training.max_steps": steps, "training.device": "cpu", **settings}
        given = [part for key, value in every.items() for part in ("--set", f"{key}={value}")]
        dragoman = str(Path(plan.ours[0].python).with_name("dragoman"))
        files = ["--source", str(source), "--target", str(target), "--out", str(out), "--quiet"]
        run_command([dragoman, "train", *files, *given], plan.threads)
    return out


def write_corpus(folder: Path) -> tuple[Path, Path]:
    """The demo's sentences: something to train on where nothing else is given."""
    from dragoman.demo.grammar import generate, load_grammar
    from dragoman.demo.grammar import write_corpus as write

    if not (folder / "train.en").exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            write(made, generate(load_grammar()))
            folder.mkdir(exist_ok=True)
            for file in Path(made).iterdir():
                file.rename(folder / file.name)
    return folder / "train.zh", folder / "train.en"
