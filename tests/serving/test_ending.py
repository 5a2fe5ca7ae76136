"""SIGTERM: what was taken on is answered, all else is refused, and the process ends by itself."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import httpx
import pytest

from served import Process, drained


@pytest.fixture
def process(model: Path, tmp_path: Path):
    arguments = [model, "--port", 0, "--log", "none", "--engine", "native", "--threads", 1]
    with Process(*arguments, cwd=tmp_path) as running:
        yield running


def test_what_was_taken_on_is_answered(process: Process) -> None:
    told = asyncio.run(drained(process, 50, "ba ce di fo gu ha ki " * 40))
    assert told["taken"] >= 50
    assert told["lost"] == 0
    assert told["ready"] in (503, None)
    assert told["new"] in ("ending", None)
    assert told["status"] == 0
    assert told["seconds"] < 30


def test_an_idle_one_ends_at_once(process: Process) -> None:
    began = time.monotonic()
    assert process.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 20  # PyTorch may just be on its way in


def test_those_who_come_late_are_told_so(process: Process) -> None:
    """For a moment after the signal, whatever is under way."""
    with httpx.Client(base_url=process.address, timeout=30) as client:
        assert client.get("/readyz").status_code == 200
        process.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        for path in ("/readyz", "/health", "/v1/models"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert answer.headers["connection"] == "close"
            assert answer.headers["retry-after"]
        assert client.get("/livez").status_code == 200
    assert process.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_twice_it_ends_at_once(process: Process, number: int) -> None:
    async def ask() -> float:
        async with httpx.AsyncClient(base_url=process.address, timeout=60) as client:
            body = {"texts": ["ba ce di fo gu ha ki " * 60] * 6, "beam_size": 16}
            asked = [asyncio.create_task(client.post("/v1/translate", json=body)) for _ in range(20)]
            await asyncio.sleep(0.5)
            process.process.send_signal(number)
            await asyncio.sleep(0.1)
            began = time.monotonic()
            process.process.send_signal(number)
            await asyncio.to_thread(process.process.wait, 30)
            await asyncio.gather(*asked, return_exceptions=True)
            return time.monotonic() - began

    assert asyncio.run(ask()) < 15
