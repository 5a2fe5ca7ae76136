"""Whole processes side by side: the first translation from a cold start, and a file from the command line."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peers_decoding import least_of, sizes_of
from peers_pool import HERE, Contestant, PeerError, Worker, quartiles, say, take_turns
from peers_rows import Limits, Plan, shares
from peers_training import run_command
from peers_work import FILE_GOAL, START_GOAL

START = """
import sys
from dragoman import Translator
model, engine, precision, beam_size, text = sys.argv[1:]
chosen = {} if precision == "auto" else {"precision": precision}
translator = Translator.from_pretrained(model, device="cpu", engine=engine, **chosen)
ranking = {"length_penalty": 1.0, "length_penalty_formula": "power"}
print(translator.translate([text], beam_size=int(beam_size), **ranking)[0].text)
"""

# Takes turns with first translations: no program in Python starts sooner.
INTERPRETER = "python -c pass"


def bench_start(plan: Plan, model: Path, text: str, beam_size: int) -> None:
    """Python itself, imports, the model and one sentence."""
    _bench(plan, "peers start", model, [text], beam_size, START_GOAL, _start_command, cold=True)


def bench_file(plan: Plan, model: Path, lines: Sequence[str], beam_size: int) -> None:
    """From standard input to standard output, start included."""
    _bench(plan, "peers file", model, lines, beam_size, FILE_GOAL, _file_command)


def _bench(
    plan: Plan, benchmark: str, model: Path, lines: Sequence[str], beam_size: int, goal: float,
    ours: Callable[[Contestant, Path, int, str], list[str]], *, cold: bool = False,
) -> None:  # fmt: skip
    limits = Limits.probe(plan, sizes_of(model))
    given, calls, outputs = "".join(f"{line}\n" for line in lines), {}, {}
    say(f"{benchmark}: {len(lines)} lines, beam size {beam_size}")
    for one in [*plan.ours, *plan.ctranslate2]:
        try:
            command = ours(one, model, beam_size, lines[0]) if one.ours else _theirs(plan, one, model, beam_size)
            threads = one.options.get("threads", plan.threads)
            outputs[one.name] = run_command(command, threads, given).removesuffix("\n").split("\n")
        except PeerError as error:
            plan.emit("peers unavailable", {"what": f"{one.name}, {benchmark}", "reason": str(error)})
        else:
            calls[one.name] = lambda command=command, threads=threads: _timed(command, threads, given)
    if not calls:
        return
    if cold:
        calls[INTERPRETER] = lambda: _timed([plan.ours[0].python, "-c", "pass"], plan.threads, "")
    times = take_turns(calls, budget=plan.budget, fewest=plan.fewest, warm=True)
    facts: dict[str, Any] = {"lines": len(lines), "beam_size": beam_size, "goal": goal}
    before = dict.fromkeys(limits.operations, 0.0)
    if cold:
        facts["interpreter_seconds"] = quartiles(times.pop(INTERPRETER), "it")["it"]
        loading = limits.loading(sizes_of(model))
        before = {name: facts["interpreter_seconds"] + seconds for name, seconds in loading.items()}
    yardsticks = [one.name for one in plan.ctranslate2]
    reference = outputs[next((name for name in yardsticks if name in calls), next(iter(calls)))]
    extra: dict[str, dict[str, Any]] = {}
    for name, found in outputs.items():
        searching = least_of(limits, model, lines, found, beam_size)
        least = {kind: before[kind] + seconds for kind, seconds in searching.items()}
        same = sum(map(str.__eq__, found, reference)) / len(lines)
        extra[name] = {"same_outputs": same, "clock": "wall", **shares(least, quartiles(times[name], "it")["it"])}
    plan.report(benchmark, facts, times, yardsticks, extra, {"sentences": len(lines)})


def _start_command(one: Contestant, model: Path, beam_size: int, text: str) -> list[str]:
    engine, precision = one.options.get("engine", "auto"), one.options.get("precision", "auto")
    return [one.python, "-c", START, str(model), engine, precision, str(beam_size), text]


def _file_command(one: Contestant, model: Path, beam_size: int, _: str) -> list[str]:
    command = [str(Path(one.python).with_name("dragoman")), "translate", str(model), "--beam-size", str(beam_size)]
    command += ["--engine", one.options.get("engine", "auto"), "--device", "cpu"]
    if beam_size > 1:  # as CTranslate2 ranks
        command += ["--length-penalty", "1", "--set", "length_penalty_formula=power"]
    precision = one.options.get("precision", "auto")
    return command if precision == "auto" else [*command, "--precision", precision]


def _theirs(plan: Plan, one: Contestant, model: Path, beam_size: int) -> list[str]:
    """Converted beforehand: quantised weights lie on the disk."""
    with Worker(one, plan.threads) as worker:
        worker.call("load_translator", str(model))
    kind = one.options["compute_type"]
    script, converted = str(HERE / "peers_ctranslate2_file.py"), str(model / f"ctranslate2-{kind}")
    workers, threads = one.options.get("workers", 1), one.options.get("threads", plan.threads)
    return [one.python, script, converted, str(model), kind, str(workers), str(threads), str(beam_size)]


def _timed(command: Sequence[str], threads: int, given: str) -> float:
    start = time.perf_counter()
    run_command(command, threads, given)
    return time.perf_counter() - start


def train_model(plan: Plan, source: Path, target: Path, minutes: float) -> Path:
    """A model to translate with, trained on the files for some minutes, unless it is there."""
    out = plan.folder / f"trained-{source.parent.name}-{source.name}-{minutes:g}"
    if not (out / "model.safetensors").exists():
        settings = {"tokenizer.kind": "bpe", "training.max_minutes": minutes, "training.device": "cpu"}
        given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        dragoman = str(Path(plan.ours[0].python).with_name("dragoman"))
        run_command([dragoman, "train", "--source", str(source), "--target", str(target), "--out", str(out), *given], 2)
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
