"""Whole processes side by side: the first translation from a cold start, and a file from the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peers_decoding import sizes_of
from peers_pool import HERE, PeerError, Worker, quartiles, say, take_turns
from peers_rows import Limits, Plan
from peers_trained import Entry, Models, check, entries_of, extra_of, yardsticks_of
from peers_training import run_command
from peers_work import FILE_GOAL, START_GOAL

START = """
import json
import sys
from dragoman import Translator
model, engine, precision, options, text = sys.argv[1:]
chosen = {} if precision == "auto" else {"precision": precision}
translator = Translator.from_pretrained(model, device="cpu", engine=engine, **chosen)
translator.decoding = translator.decoding.replace(json.loads(options))
print(translator.translate([text])[0].text)
"""
# As CTranslate2 ranks: by log-probability over length.
RANKING = {"length_penalty": 1.0, "length_penalty_formula": "power"}

# Takes turns with first translations: no program in Python starts sooner.
INTERPRETER = "python -c pass"


def bench_start(plan: Plan, models: Models, text: str, beam_size: int) -> None:
    """Python itself, imports, the model and one sentence."""
    _bench(plan, "peers start", models, [text], beam_size, START_GOAL, _start_command, cold=True)


def bench_file(plan: Plan, models: Models, lines: Sequence[str], beam_size: int) -> None:
    """From standard input to standard output, start included."""
    _bench(plan, "peers file", models, lines, beam_size, FILE_GOAL, _file_command)


def _bench(
    plan: Plan, benchmark: str, models: Models, lines: Sequence[str], beam_size: int, goal: float,
    ours: Callable[[Entry, int, str], list[str]], *, cold: bool = False,
) -> None:  # fmt: skip
    limits, entries = Limits.probe(plan, sizes_of(models.default)), entries_of(plan, models, beam_size)
    given, calls, outputs = "".join(f"{line}\n" for line in lines), {}, {}
    say(f"{benchmark}: {len(lines)} lines, beam size {beam_size}")
    for entry in entries:
        try:
            command = ours(entry, beam_size, lines[0]) if entry.one.ours else _theirs(plan, entry, beam_size)
            threads = entry.one.options.get("threads", plan.threads)
            outputs[entry.name] = run_command(command, threads, given).removesuffix("\n").split("\n")
        except PeerError as error:
            plan.emit("peers unavailable", {"what": f"{entry.name}, {benchmark}", "reason": str(error)})
        else:
            calls[entry.name] = lambda command=command, threads=threads: _timed(command, threads, given)
    if not calls:
        return
    check(plan, f"{benchmark}, beam size {beam_size}", entries, lines, outputs, beam_size)
    if cold:
        calls[INTERPRETER] = lambda: _timed([plan.ours[0].python, "-c", "pass"], plan.threads, "")
    times = take_turns(calls, budget=plan.budget, fewest=plan.fewest, warm=True)
    facts: dict[str, Any] = {"lines": len(lines), "beam_size": beam_size, "goal": goal}
    before = dict.fromkeys(limits.operations, 0.0)
    if cold:
        facts["interpreter_seconds"] = quartiles(times.pop(INTERPRETER), "it")["it"]
        loading = limits.loading(sizes_of(models.default))
        before = {name: facts["interpreter_seconds"] + seconds for name, seconds in loading.items()}
    extra = extra_of(limits, entries, lines, outputs, times, beam_size, before)
    for row in extra.values():
        row["clock"] = "wall"
    plan.report(benchmark, facts, times, yardsticks_of(entries, list(outputs)), extra, {"sentences": len(lines)})


def _start_command(entry: Entry, beam_size: int, text: str) -> list[str]:
    given = entry.one.options
    options = json.dumps({**RANKING, **entry.decoding, "beam_size": beam_size})
    chosen = [given.get("engine", "auto"), given.get("precision", "auto")]
    return [entry.one.python, "-c", START, str(entry.model), *chosen, options, text]


def _file_command(entry: Entry, beam_size: int, _: str) -> list[str]:
    options, dragoman = entry.one.options, str(Path(entry.one.python).with_name("dragoman"))
    command = [dragoman, "translate", str(entry.model), "--beam-size", str(beam_size)]
    command += ["--engine", options.get("engine", "auto"), "--device", "cpu"]
    decoding = {**(RANKING if beam_size > 1 else {}), **entry.decoding}
    command += [part for key, value in decoding.items() for part in ("--set", f"{key}={value}")]
    precision = options.get("precision", "auto")
    return command if precision == "auto" else [*command, "--precision", precision]


def _theirs(plan: Plan, entry: Entry, beam_size: int) -> list[str]:
    """Converted beforehand: quantised weights lie on the disk."""
    with Worker(entry.one, plan.threads) as worker:
        worker.call("load_translator", str(entry.model))
    options = entry.one.options
    kind, threads = options["compute_type"], options.get("threads", plan.threads)
    script, converted = str(HERE / "peers_ctranslate2_file.py"), str(entry.model / f"ctranslate2-{kind}")
    sizes = [str(options.get("workers", 1)), str(threads), str(beam_size)]
    return [entry.one.python, script, converted, str(entry.model), kind, *sizes]


def _timed(command: Sequence[str], threads: int, given: str) -> float:
    start = time.perf_counter()
    run_command(command, threads, given)
    return time.perf_counter() - start
