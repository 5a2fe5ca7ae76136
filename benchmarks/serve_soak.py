"""Mixed load on a service for some minutes: does its memory grow, do its answers become slower?

python benchmarks/serve_soak.py runs/demo --minutes 5
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from served import Process  # type: ignore[import-not-found]

WORDS = ["ba", "ce", "di", "fo", "gu", "ha", "ki", "lo", "mu", "ne", "猫", "é", "</s>", "1234"]


async def one_request(client: httpx.AsyncClient, draw: random.Random) -> int:
    """Ask something: mostly a translation, now and then something else, wrong, or broken off."""
    text = " ".join(draw.choices(WORDS, k=draw.randint(1, 30)))
    kind = draw.random()
    if kind < 0.6:
        return (await client.post("/v1/translate", json={"text": text, "beam_size": draw.randint(1, 5)})).status_code
    if kind < 0.75:
        return (await client.post("/v1/translate/stream", json={"text": text})).status_code
    if kind < 0.8:
        return (await client.post("/v1/translate", json={"text": text, "words": True})).status_code
    if kind < 0.9:
        return (await client.post("/v1/translate", content=b"{" + text.encode())).status_code
    if kind < 0.95:
        files = {"file": ("a.txt", f"{text}\n{text}".encode())}
        return (await client.post("/translate_file", files=files, data={"source": "und", "target": "und"})).status_code
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.005):
            await client.post("/v1/translate", json={"text": text * 5})
    return 499


async def soak(process: Process, minutes: float, clients: int) -> dict[str, object]:
    """Return how memory and latency went."""
    end = time.monotonic() + 60 * minutes
    taken: list[tuple[float, float]] = []
    memory: list[tuple[float, float]] = []
    statuses: Counter[int] = Counter()

    async def caller(number: int) -> None:
        draw = random.Random(number)
        async with httpx.AsyncClient(base_url=process.address, timeout=60) as client:
            while time.monotonic() < end:
                began = time.monotonic()
                status = await one_request(client, draw)
                statuses[status] += 1
                if status == 200:
                    taken.append((began, time.monotonic() - began))

    async def watcher() -> None:
        pages = Path(f"/proc/{process.process.pid}/statm")
        while time.monotonic() < end:
            memory.append((time.monotonic() / 60, int(pages.read_text().split()[1]) * 4096 / 1e6))
            await asyncio.sleep(1)

    await asyncio.gather(watcher(), *(caller(number) for number in range(clients)))
    half, settled = len(taken) // 2, memory[len(memory) // 3 :]  # what is loaded at the first requests does not count
    first, second = (float(np.percentile([one for _, one in part], 95)) for part in (taken[:half], taken[half:]))
    times, sizes = np.array(settled).T
    slope = float(np.polyfit(times, sizes, 1)[0])
    return {
        "name": "serve_soak", "minutes": minutes, "clients": clients, "requests": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "rss_mb": round(memory[-1][1], 1), "rss_slope_mb_per_minute": round(slope, 3),
        "p95_ms": [round(1000 * first, 1), round(1000 * second, 1)], "p95_drift": round(second / first - 1, 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (given.model.resolve(), "--port", 0, "--log", "none", "--threads", 1)
        with Process(*arguments, cwd=Path(folder)) as process:
            print(json.dumps(asyncio.run(soak(process, given.minutes, given.clients))))


if __name__ == "__main__":
    main()
