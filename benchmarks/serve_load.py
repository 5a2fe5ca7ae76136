"""Loads a service with requests for translations, on this machine only, and times the answers.

The clients speak plain HTTP over sockets that stay open, so that they take little of the processors that they share
with the service.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PATIENCE = 60.0


@dataclass
class Loaded:
    """What clients saw.

    Attributes:
        seconds: of each request that was answered, from the moment at which it was due.
        failed: statuses, or kinds of faults, and how often.
        characters: that were translated.
        took: seconds of all of it.
    """

    seconds: list[float] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)
    characters: int = 0
    took: float = 0.0

    def facts(self) -> dict[str, object]:
        """Return it for a row."""
        ranked = sorted(self.seconds) or [float("nan")]
        return {
            "requests": len(self.seconds),
            "failed": sum(self.failed.values()),
            "median_ms": 1000 * statistics.median(ranked),
            "p95_ms": 1000 * ranked[min(len(ranked) - 1, int(0.95 * len(ranked)))],
            "requests_per_second": len(self.seconds) / self.took if self.took else 0.0,
            "characters_per_second": self.characters / self.took if self.took else 0.0,
        }


class Client:
    """One connection, opened again where it was closed."""

    def __init__(self, address: str, source: str, target: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._pair = {"source": source, "target": target, "format": "text"}
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def translate(self, text: str) -> str:
        """Return "" or what went wrong."""
        body = json.dumps({"q": text, **self._pair}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            await self.close()
            return type(error).__name__

    async def _ask(self, request: bytes) -> str:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        await reader.readexactly(length)
        if "connection: close" in head:
            await self.close()
        status = head.split(" ", 2)[1]
        return "" if status == "200" else status

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def open_loop(
    address: str, pair: tuple[str, str], texts: Sequence[str], clients: int, seconds: float, rate: float, seed: int
) -> Loaded:
    """Send requests at times that do not depend on answers: each client `rate` a second on average, at random.

    A client whose answer is late opens a further connection for the next request.
    """
    loaded, draw = Loaded(), random.Random(seed)
    began = time.perf_counter()
    free: list[Client] = []
    tasks = []

    async def one(due: float, text: str) -> None:
        client = free.pop() if free else Client(address, *pair)
        problem = await client.translate(text)
        _note(loaded, problem, time.perf_counter() - due, text)
        free.append(client)

    due = began
    while True:
        due += draw.expovariate(rate * clients)
        if due > began + seconds:
            break
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(due, draw.choice(texts))))
    await asyncio.gather(*tasks)
    loaded.took = time.perf_counter() - began
    for client in free:
        await client.close()
    return loaded


async def closed_loop(
    address: str, pair: tuple[str, str], texts: Sequence[str], clients: int, seconds: float, seed: int
) -> Loaded:
    """Send requests as fast as they are answered, each client one at a time."""
    loaded, end = Loaded(), time.perf_counter() + seconds

    async def one(number: int) -> None:
        client, draw = Client(address, *pair), random.Random(seed + number)
        while time.perf_counter() < end:
            text, due = draw.choice(texts), time.perf_counter()
            problem = await client.translate(text)
            _note(loaded, problem, time.perf_counter() - due, text)
        await client.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(clients)))
    loaded.took = time.perf_counter() - began
    return loaded


def _note(loaded: Loaded, problem: str, seconds: float, text: str) -> None:
    if problem:
        loaded.failed[problem] = loaded.failed.get(problem, 0) + 1
    else:
        loaded.seconds.append(seconds)
        loaded.characters += len(text)
