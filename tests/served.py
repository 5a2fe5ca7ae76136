"""Services in a thread of the tests' process, on a free port of this machine, and in processes of their own."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import httpx

from dragoman.serving.assembly import make_app
from dragoman.serving.server import run_server
from dragoman.serving.settings import ServeSettings

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
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.client.close()
        self.guard.server.end_from_elsewhere()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


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
