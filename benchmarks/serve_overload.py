"""Asks a service for much more than it can do at once, on this machine only, and counts the answers.

python benchmarks/serve_overload.py runs/demo --clients 1000 --each 5

Each client opens a connection of its own and sends its requests one after another. `refused_p99_ms` is how long a
refusal took; `answered` tells every status, `reset` what got none.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from serve_load import Client

from served import Process  # type: ignore[import-not-found]

TEXT = "ba ce di fo gu ha ki lo mu ne " * 3


async def overload(address: str, clients: int, each: int) -> dict[str, object]:
    """Return what became of all requests."""
    answered: collections.Counter[str] = collections.Counter()
    refusals, waits = [], []

    async def one() -> None:
        client = Client(address, "auto", "en")
        for _ in range(each):
            start = time.perf_counter()
            problem = await client.translate(TEXT)
            seconds = time.perf_counter() - start
            answered[problem or "200"] += 1
            (refusals if problem in ("429", "503") else waits).append(seconds)
        await client.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    slowest = sorted(refusals)[int(0.99 * len(refusals))] if refusals else 0.0
    known = {"200", "429", "503"}
    return {
        "answered": dict(answered), "reset": sum(count for told, count in answered.items() if told not in known),
        "refused_p99_ms": round(1000 * slowest, 1), "longest_accepted_s": round(max(waits, default=0.0), 2),
    }  # fmt: skip


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--each", type=int, default=5)
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        arguments = (given.model.resolve(), "--port", 0, "--log", "none")
        with Process(*arguments, cwd=Path(folder)) as process:
            asyncio.run(overload(process.address, 20, 5))
            before = _state(process)
            told = asyncio.run(overload(process.address, given.clients, given.each))
            time.sleep(7)  # idle connections are closed by then
            after = _state(process)
    row = {"name": "serve_overload", "clients": given.clients, "each": given.each, **told}
    print(json.dumps({**row, "before": before, "after": after}))


def _state(process: Process) -> dict[str, int]:
    """Of a Linux process: MB in memory and open descriptors."""
    place = Path(f"/proc/{process.process.pid}")
    pages = int((place / "statm").read_text().split()[1])
    return {
        "megabytes": pages * resource.getpagesize() // 1_000_000,
        "descriptors": len(list((place / "fd").iterdir())),
    }


if __name__ == "__main__":
    main()
