"""How threads that train wait for each other, on an idle machine and beside a program that keeps one core busy.

Training steps of the demo's sizes and of "tiny", on as many threads as `OMP_NUM_THREADS` says (2), for some seconds in
a process of its own: with the spinning that OpenMP comes with, some 300,000 turns before a thread sleeps, with fewer,
and on one thread. `dragoman` sets `GOMP_SPINCOUNT`, unless it is set. Times are wall time. The busy program has a
session of its own, as another window has: Linux shares cores between sessions before it shares them between threads.

`--all` measures every way with both models (some ten minutes), without it three ways with the demo's sizes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench_training import BATCH_TOKENS, our_model, our_step, turn
from rows import print_row, settle
from workload import TINY, training_batches

from dragoman.config import ModelConfig

WAYS = {
    "as it comes": {},
    **{f"{turns} turns": {"GOMP_SPINCOUNT": f"{turns}"} for turns in (10_000, 3_000, 1_000, 300)},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
THREADS = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
MAIN_WAYS = ("as it comes", "1000 turns", "one thread")
DEMO = TINY.replace(
    {"d_model": 128, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2, "tie_embeddings": "decoder"}
)
MODELS = {"demo": DEMO, "tiny": TINY}
ROUNDS, SECONDS = 3, 4.0


def steps_done(config: ModelConfig) -> tuple[int, float]:
    """Training steps of a model in some seconds of this process, after two that do not count."""
    step = our_step(our_model(0.1, config), turn(training_batches(16, BATCH_TOKENS)))
    count, start = -2, time.perf_counter()
    while (spent := time.perf_counter() - start) < SECONDS or count < 1:
        step()
        count += 1
        if not count:
            start = time.perf_counter()
    return count, spent


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A program that keeps a core busy meanwhile, or none."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as other:
        try:
            yield
        finally:
            other.kill()


def seconds_per_step(model: str, variables: dict[str, str]) -> float:
    """Of a process with these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = {**kept, **THREADS, **variables}
    command = [sys.executable, __file__, model]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, start_new_session=True)
    count, spent = done.stdout.split()
    return float(spent) / float(count)


def rounds(model: str, beside: bool, ways: dict[str, dict[str, str]]) -> None:
    """Rows of a model's steps, each way in turn."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for count in range(ROUNDS):
        for way in list(ways)[:: 1 if count % 2 else -1]:
            with busy(beside):
                times[way].append(seconds_per_step(model, ways[way]))
    for way, found in times.items():
        ratio = statistics.median(own / other for own, other in zip(found, times["as it comes"], strict=True))
        facts = {"model": model, "beside": "a busy program" if beside else "nothing", "what": way, "clock": "wall"}
        values = {"seconds": statistics.median(found), "best": min(found), "ratio": ratio, "rounds": ROUNDS}
        values["threads"] = int((THREADS | ways[way])["OMP_NUM_THREADS"])
        print_row("waiting threads", {**facts, **values})


def main() -> None:
    wanted = sys.argv[1] if sys.argv[1:] else ""
    if wanted in MODELS:
        settle()
        print(*steps_done(MODELS[wanted]))
        return
    everything = wanted == "--all"
    for model in MODELS if everything else ["demo"]:
        for beside in (False, True):
            rounds(model, beside, WAYS if everything else {way: WAYS[way] for way in MAIN_WAYS})


if __name__ == "__main__":
    main()
