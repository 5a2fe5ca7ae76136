"""Ends a service many times with many requests under way, and counts those that got no answer.

python benchmarks/serve_drain.py runs/demo --runs 20 --requests 200
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from served import Process, drained  # type: ignore[import-not-found]

TEXT = "ba ce di fo gu ha ki lo mu ne " * 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    lost, refused, slowest, statuses = 0, 0, 0.0, set()
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (given.model.resolve(), "--port", 0, "--log", "none", "--threads", 1)
            with Process(*arguments, cwd=Path(folder)) as process:
                told = asyncio.run(drained(process, given.requests, TEXT))
        lost, refused, slowest = lost + told["lost"], refused + told["refused"], max(slowest, told["seconds"])
        statuses.add(told["status"])
        print(json.dumps(told), file=sys.stderr)
    print(json.dumps({
        "name": "serve_drain", "runs": given.runs, "requests": given.requests, "lost": lost, "refused": refused,
        "slowest_seconds": round(slowest, 2), "exit_statuses": sorted(statuses),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
