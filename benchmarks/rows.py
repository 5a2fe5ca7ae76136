"""What every benchmark prints: one JSON row per measurement, with the machine it was made on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

Run = Callable[[], object]
FEWEST, MOST = 5, 101
CLOCKS = {"processor": time.process_time, "wall": time.perf_counter}


def print_row(benchmark: str, values: Mapping[str, object]) -> None:
    """Print one measurement; numbers are rounded to what a clock can tell.

    What it says of the machine, such as the threads of another process, stands.
    """
    rounded = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in values.items()}
    print(json.dumps({"benchmark": benchmark, **rounded, **machine(), **rounded}, ensure_ascii=False), flush=True)


def print_rows(
    benchmark: str, facts: Mapping[str, object], runs: Mapping[str, Run], *, budget: float,
    work: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    """Time calls in turns and print a row for each.

    Args:
        benchmark: the name in each row.
        facts: sizes and settings, in each row.
        runs: calls by name, the one to compare with first; all do the same work.
        budget: seconds to spend on all of them together.
        work: what one call gets done, by unit: each unit is reported per second of the median.
    """
    for name, timing in compare(runs, budget=budget).items():
        rates = {f"{unit}_per_second": amount / timing["seconds"] for unit, amount in (work or {}).items()}
        print_row(benchmark, {**facts, "what": name, **timing, **rates, "clock": _clock()})


def compare(runs: Mapping[str, Run], *, budget: float = 5.0) -> dict[str, dict[str, float]]:
    """Times of calls that take turns, so that a machine that slows down slows all of them down.

    Each round calls each once, another one first each time. There are as many rounds as fit the budget, at least
    `FEWEST` and at most `MOST`, after one that does not count.

    Returns:
        For each call: `seconds` (the median), its quartiles, `best`, `ratio` (the median over the rounds of its time
        to that of the first call in the same round) with its quartiles, and `rounds`.
    """
    names, clock = list(runs), CLOCKS[_clock()]
    times: dict[str, list[float]] = {name: [] for name in names}
    end = clock() + budget
    for run in runs.values():
        run()
    for turn in range(MOST):
        if turn >= FEWEST and clock() > end:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            runs[name]()
            times[name].append(clock() - start)
    baseline = times[names[0]]
    return {name: _summary(taken, baseline) for name, taken in times.items()}


def seconds(run: Run, repeats: int = 9, warm_up: int = 2) -> dict[str, object]:
    """Wall time of a call after some that do not count: the median and the best of so many repeats."""
    for _ in range(warm_up):
        run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "best": min(times), "repeats": repeats, "clock": "wall"}


def settle() -> None:
    """One thread, unless OMP_NUM_THREADS says otherwise, and the same random numbers each time."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(1)


def machine() -> dict[str, object]:
    """What a number depends on besides the code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {"python": platform.python_version(), "torch": version("torch"), "dragoman": version("dragoman")}
    threads = {"threads": sys.modules["torch"].get_num_threads()} if "torch" in sys.modules else {}
    date = datetime.now(UTC).date().isoformat()
    return {"processor": _processor(), "cores": cores, **threads, "system": platform.system(), **versions, "date": date}


def _clock() -> str:
    """Time on the processor, which other programs do not lengthen; of several threads it would be the sum."""
    return "processor" if "torch" in sys.modules and sys.modules["torch"].get_num_threads() == 1 else "wall"


def _summary(times: list[float], baseline: list[float]) -> dict[str, float]:
    ratios = [own / other for own, other in zip(times, baseline, strict=True)]
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    ratio_low, ratio, ratio_high = statistics.quantiles(ratios, n=4, method="inclusive")
    spread = {"seconds": median, "quartile_1": low, "quartile_3": high, "best": min(times)}
    return {**spread, "ratio": ratio, "ratio_1": ratio_low, "ratio_3": ratio_high, "rounds": len(times)}


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
