"""Processes to measure in, and calls that take turns among them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).parent
FEWEST, MOST = 3, 51
PAUSE = 0.01  # threads of the one before fall asleep


class PeerError(Exception):
    """A peer cannot do what it was asked, or has died."""


class UnequalError(PeerError):
    """Two systems that are to be compared do not compute the same."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured.

    Attributes:
        name: what rows call it.
        kind: which module runs it (`peers_worker.PEERS`).
        python: the interpreter of its environment.
        options: what it is started with; `threads` and `workers` if it has other ones than the rest, `environment` for
            what its process finds in the environment.
    """

    name: str
    kind: str
    python: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether it is this toolkit."""
        return self.kind == "dragoman"

    @property
    def is_float32(self) -> bool:
        """Whether its numbers are float32, so that they can be compared."""
        kinds = self.options.get("precision"), self.options.get("compute_type")
        return "float32" in kinds or self.options.get("engine") == "module"


class Worker:
    """A process that runs one contestant; use as a context manager.

    Raises:
        PeerError: there is no such interpreter.
    """

    def __init__(self, contestant: Contestant, threads: int) -> None:
        self.contestant = contestant
        self.told: object = None  # by the call that made it ready
        settings = {"threads": threads, **contestant.options}
        environment = {**environment_of(settings["threads"]), **contestant.options.get("environment", {})}
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (it lives as long as the process)
        command = [contestant.python, str(HERE / "peers_worker.py"), contestant.kind, json.dumps(settings)]
        try:
            self._process = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
        except OSError as error:
            self._log.close()
            raise PeerError(f"{contestant.name}: {error}") from error

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            assert self._process.stdin
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()

    def call(self, method: str, *arguments: Any) -> dict[str, Any]:
        """The reply to a request: `result`, `wall`, `processor`, `peak_mib`.

        Raises:
            PeerError: with the peer's own words, or the last line that it wrote before it died.
        """
        assert self._process.stdin
        assert self._process.stdout
        line = ""
        with suppress(OSError):
            print(json.dumps({"method": method, "arguments": arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise PeerError(f"{self.contestant.name} ended: {(self._log.read().splitlines() or ['no word'])[-1]}")
        reply = json.loads(line)
        if "error" in reply:
            raise PeerError(f"{self.contestant.name}: {reply['error']}")
        return reply

    def result(self, method: str, *arguments: Any) -> Any:
        """Only the result."""
        return self.call(method, *arguments)["result"]


Time = Callable[[], float]


def take_turns(
    runs: Mapping[str, Time], *, budget: float, fewest: int = FEWEST, warm: bool = False
) -> dict[str, list[float]]:
    """Seconds of each call, as each tells itself, over rounds that start with another one each time.

    Args:
        runs: calls by name, each doing the same work.
        budget: seconds to spend on all of them together, after a round that does not count.
        warm: there was such a round before.
        fewest: rounds at least, whatever the budget: a median of one is none.
    """
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for run in [] if warm else runs.values():
        run()
    end = time.monotonic() + budget
    for turn in range(MOST):
        if turn >= fewest and time.monotonic() > end:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(PAUSE)
            times[name].append(runs[name]())
    return times


def quartiles(values: Sequence[float], name: str) -> dict[str, float]:
    """The median as `name`, the quartiles as `name_1` and `name_3`."""
    if len(values) == 1:
        return dict.fromkeys((f"{name}_1", name, f"{name}_3"), values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {name: median, f"{name}_1": low, f"{name}_3": high}


def speedup(own: Sequence[float], other: Sequence[float]) -> list[float]:
    """How many times as fast as another, round by round."""
    return [theirs / ours for ours, theirs in zip(own, other, strict=True)]


def environment_of(threads: int) -> dict[str, str]:
    """Of a process that computes with so many threads on the processor, and fetches nothing."""
    # Users have compiled bytecode; some machines forbid to write it.
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def say(text: str) -> None:
    """A line for people; rows go to standard output."""
    print(text, file=sys.stderr, flush=True)
