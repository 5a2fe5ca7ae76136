"""Bulk translation: one process, several workers, Ray, each the whole command, in turns.

`bench_bulk.py [MODEL [FILE]]`: a trained model and lines for it, the demo's unless named; the file is repeated
up to `LINES` lines. Each way is a process of its own on one thread a worker. `seconds` is wall time of the command, and
`start` that of the same command for one line, so `lines_per_second` is what a file without end would have. `processor`
is what all its processes took together, which other programs on the machine do not change: the overhead of a way is
its `processor_ratio`. `speedup` is the plain command's time to this one's, start-up aside, in the same round.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rows import print_row

LINES = int(os.environ.get("LINES", "40000"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
WAYS = {
    "one process": [],
    "1 worker": ["--workers", "1", "--part-lines", "2000"],
    "2 workers": ["--workers", "2", "--part-lines", "2000"],
    "Ray, 1 actor": ["--ray", "local", "--workers", "1"],
    "Ray, 2 actors": ["--ray", "local", "--workers", "2"],
}


def taken(model: str, source: Path, words: list[str]) -> tuple[float, float]:
    """Wall time and time on processors of one command."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dragoman", "translate", model, "--input", str(source), *words]
        command += ["--output", str(Path(folder) / "out.txt"), "--threads", "1"]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "runs/demo"
    given = Path(sys.argv[2]) if len(sys.argv) > 2 else next(Path(model, "corpus").glob("test.zh"))
    ways = [way for way in WAYS if find_spec("ray") or not way.startswith("Ray")]
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    with TemporaryDirectory() as folder:
        lines = given.read_bytes().splitlines(keepends=True)
        source, first = Path(folder) / "lines.txt", Path(folder) / "first.txt"
        source.write_bytes(b"".join(islice(cycle(lines), LINES)))
        first.write_bytes(lines[0])
        for turn in range(ROUNDS):
            for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
                start, _ = taken(model, first, WAYS[way])
                found[way].append((start, *taken(model, source, WAYS[way])))
    plain = found["one process"]
    for way, rows in found.items():
        start, seconds, processor = (statistics.median(column) for column in zip(*rows, strict=True))
        both = list(zip(plain, rows, strict=True))
        print_row("bulk", {
            "what": way, "lines": LINES, "rounds": ROUNDS, "seconds": seconds, "start": start,
            "lines_per_second": statistics.median(LINES / (one[1] - one[0]) for one in rows),
            "speedup": statistics.median((a[1] - a[0]) / (b[1] - b[0]) for a, b in both),
            "processor": processor, "processor_ratio": statistics.median(b[2] / a[2] for a, b in both),
            "load": os.getloadavg()[0], "model": model, "clock": "wall",
        })  # fmt: skip


if __name__ == "__main__":
    main()
