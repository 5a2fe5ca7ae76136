"""Too much at once, and senders who never finish: quick answers, nothing lost, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.serving import ServeSettings
from served import Served, connected, until

BODY = {"text": "ba ce di fo", "source": "zh", "target": "en"}


@pytest.fixture(scope="module")
def tight(settings: ServeSettings) -> Iterator[Served]:
    """A service that takes on little, and waits a second for those who send."""
    limits = settings.limits.model_copy(update={"requests": 8, "receive_seconds": 1.0})
    with Served(settings.model_copy(update={"limits": limits, "models": settings.models[:1]})) as served:
        yield served


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if os.path.isdir("/proc/self/fd") else 0


def test_too_much_is_told_and_leaves_nothing_behind(tight: Served) -> None:
    tight.client.post("/v1/translate", json=BODY)
    before = descriptors()

    async def all_of_them() -> Counter[int]:
        async with httpx.AsyncClient(
            base_url=tight.address, timeout=60, limits=httpx.Limits(max_connections=None)
        ) as client:

            async def one() -> list[int]:
                statuses = []
                for _ in range(3):
                    answer = await client.post("/v1/translate", json=BODY)
                    statuses.append(answer.status_code)
                    assert answer.status_code == 200 or int(answer.headers["retry-after"]) >= 1
                return statuses

            found = await asyncio.gather(*(one() for _ in range(100)))
            return Counter(status for statuses in found for status in statuses)

    statuses = asyncio.run(all_of_them())
    assert set(statuses) <= {200, 429, 503}
    assert statuses[200] >= 8
    until(lambda: not tight.guard.under_way and not tight.guard.server.server_state.tasks, 5)
    until(lambda: descriptors() <= before + 1, 10)
    assert tight.guard._held == tight.guard._busy == 0


@pytest.mark.parametrize("what", ["head", "body", "chunks", "second head"])
def test_slow_senders_are_closed_and_take_no_place_from_others(tight: Served, what: str) -> None:
    start = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    first = {
        "head": b"",
        "body": start + b"content-length: 1000\r\n\r\n",
        "chunks": start + b"transfer-encoding: chunked\r\n\r\n",
        "second head": b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n",
    }[what]
    trickle = {"head": start, "body": b"{" * 99, "chunks": b"1\r\n{\r\n" * 30, "second head": b"\r\n" * 50}[what]
    socks = [connected(tight.address) for _ in range(20)]
    try:
        for sock in socks:
            sock.sendall(first)
            sock.setblocking(False)
        open_ones, began = list(socks), time.monotonic()
        for byte in trickle:
            for sock in list(open_ones):
                try:
                    sock.send(bytes([byte]))
                    while got := sock.recv(4096):
                        pass
                    assert got == b""
                    open_ones.remove(sock)
                except BlockingIOError:
                    pass
                except OSError:
                    open_ones.remove(sock)
            assert tight.client.post("/v1/translate", json=BODY).status_code == 200
            if not open_ones:
                break
            time.sleep(0.1)
        assert not open_ones
        assert time.monotonic() - began < 4
    finally:
        for sock in socks:
            sock.close()
