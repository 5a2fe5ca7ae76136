"""Services in a thread of the tests' process, on a free port of this machine, and in processes of their own."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from dragoman.serving.assembly import make_app
from dragoman.serving.server import run_server
from dragoman.serving.settings import ServeSettings
from dragoman.translation import Scheduler
from dragoman.translation.running_batch import RunningBatch

PATIENCE = 60  # seconds


class Served:
    """A service that runs as long as the block does.

    Attributes:
        guard: the application.
        address: where it listens, as `http://127.0.0.1:40000`.
        client: of it.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.guard = make_app((), settings)
        self.address = ""
        self._ready: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        run_server(self.guard, self._ready.put)

    def __enter__(self) -> Served:
        self._thread.start()
        self.address = self._ready.get(timeout=PATIENCE)
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE)
        until(lambda: not self.guard.context.service.registry.tasks)  # what is prepared after the start
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.client.close()
        self.guard.server.end_from_elsewhere()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def schedulers(self) -> list[Scheduler]:
        """Return the schedulers of all models that are open."""
        models = self.guard.context.service.registry.models.values()
        return [model.scheduler for model in models if model.scheduler is not None]

    def calls(self) -> int:
        """Return how many calls there were so far, as soon as none is under way."""
        until(lambda: not any(one.waiting[0] for one in self.schedulers()))
        return sum(one.counts.calls for one in self.schedulers())


def until(is_so: Callable[[], Any], seconds: float = PATIENCE) -> float:
    """Wait until something is so; return how many seconds that took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds, "it did not become so"
        time.sleep(0.005)
    return time.monotonic() - began


def slowed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each step of a search take so long, and make single ones."""
    advance = RunningBatch.advance

    def slow(batch: RunningBatch) -> None:
        time.sleep(seconds)
        batch.pace = batch.slice
        advance(batch)

    monkeypatch.setattr(RunningBatch, "advance", slow)


@dataclass
class RawAnswer:
    """What came back over a connection until it was closed."""

    status: int
    headers: dict[str, str]
    body: bytes


def connected(address: str) -> socket.socket:
    """Return a connection to a service."""
    where = urlsplit(address)
    return socket.create_connection((where.hostname, where.port), PATIENCE)


def ask_raw(address: str, data: bytes) -> RawAnswer:
    """Send bytes, and read the one answer until the connection is closed."""
    with connected(address) as sock:
        sock.sendall(data)
        return read_raw(sock)


def read_raw(sock: socket.socket) -> RawAnswer:
    """Read one answer until the connection is closed."""
    got = b""
    while part := sock.recv(1 << 16):
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return RawAnswer(int(first.split()[1]), headers, body)


class Process:
    """`dragoman serve` in a process of its own."""

    def __init__(self, *arguments: object, cwd: Path) -> None:
        command = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert self.process.stderr is not None
        self.said = ""
        while not (found := re.search(r"listening on (http://\S+)", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.address = found[1]

    def end(self, signal_number: int) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(signal_number)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def limit(keys: Path, name: str, setting: str) -> None:
    """Give a key of a file a further setting, as people do with an editor."""
    line = f'name = "{name}"\n'
    text = keys.read_text(encoding="utf-8")
    assert line in text
    keys.write_text(text.replace(line, f"{line}{setting}\n"), encoding="utf-8")


async def drained(process: Process, requests: int, text: str) -> dict[str, Any]:
    """End a service while so many requests are under way; return what became of them and of it.

    Returns:
        `taken`: how many were under way or over, `finished`: how many were over, `refused`: how many of those, as there
        was too much to do, `lost`: how many of all others got no translation, `ready` and `new`: how it answers
        others meanwhile (None: not at all), `status`: of the process, `seconds`: until it had ended.
    """
    limits = httpx.Limits(max_connections=None)
    body = {"text": text}

    async def status_of(client: httpx.AsyncClient, path: str, **how: Any) -> int | str | None:
        try:
            answer = await client.request("POST" if how else "GET", path, **how)
        except httpx.TransportError:
            return None
        if answer.status_code == 503 and path != "/readyz":
            code = answer.json()["error"]["code"]
            assert code != "ending" or answer.headers["connection"] == "close"
            return code
        return answer.status_code

    async with httpx.AsyncClient(base_url=process.address, timeout=PATIENCE, limits=limits) as client:
        asked = [asyncio.create_task(status_of(client, "/v1/translate", json=body)) for _ in range(requests)]
        taken = finished = 0
        while taken < requests and not all(one.done() for one in asked):
            found = re.search(r"^dragoman_requests_under_way (\d+)", (await client.get("/metrics")).text, re.MULTILINE)
            taken = int(found[1]) - 1 if found else 0  # without the one that asks
            finished = sum(one.done() for one in asked)
            taken += finished
        began = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        ready, new = await status_of(client, "/readyz"), await status_of(client, "/v1/translate", json=body)
        answers = await asyncio.gather(*asked)
        status = await asyncio.to_thread(process.process.wait, PATIENCE)
    refused = answers.count("overloaded")
    return {
        "taken": taken, "finished": finished, "refused": refused, "lost": len(answers) - answers.count(200) - refused,
        "ready": ready, "new": new, "status": status, "seconds": round(time.monotonic() - began, 2),
    }  # fmt: skip
