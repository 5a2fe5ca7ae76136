"""From times to rows: medians, spread, how many times as fast as the yardstick, share of the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers_limits import BYTES, Sizes, decoding_limit
from peers_pool import Contestant, PeerError, UnequalError, Worker, quartiles, say, speedup
from rows import machine, print_row

Row = dict[str, Any]


@dataclass
class Plan:
    """What all tables share.

    Attributes:
        folder: for models and corpora.
        threads: of everyone.
        budget: seconds for the calls of one group.
        fewest: rounds at least.
        ours: this toolkit, the engine that is chosen by itself first.
        ctranslate2: the yardsticks of decoding.
        runtimes: ONNX Runtime and OpenVINO, whose search is a loop in Python.
        marian: Hugging Face.
        probe: measures the limits.
        rows: all that was printed.
    """

    folder: Path
    threads: int
    budget: float
    fewest: int
    ours: list[Contestant]
    ctranslate2: list[Contestant]
    marian: list[Contestant]
    probe: Contestant
    runtimes: list[Contestant] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def clock(self) -> str:
        """Time on the processor is what one thread would take alone; of several it would be the sum."""
        return "processor" if self.threads == 1 else "wall"

    def emit(self, benchmark: str, values: Mapping[str, Any]) -> None:
        """Print a row and keep it."""
        values = {**values, "threads": self.threads}
        print_row(benchmark, values)
        self.rows.append({"benchmark": benchmark, **values, **machine()})

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """A part of the run that may fail without ending the rest; without rows where systems do not agree."""
        try:
            yield
        except UnequalError as error:
            self.emit("peers unequal", {"what": what, "reason": str(error)})
            say(f"FAILED, {what}: {error}")
        except PeerError as error:
            self.emit("peers unavailable", {"what": what, "reason": str(error)})

    def opened(
        self, contestants: Sequence[Contestant], method: str, *arguments: Any
    ) -> AbstractContextManager[dict[str, Worker]]:
        """A process for each contestant that can do `method`, by name; the others are told of in a row."""
        return self._opened(contestants, method, {one.name: arguments for one in contestants})

    def opened_each(
        self, contestants: Sequence[Contestant], method: str, argument: Mapping[str, Any]
    ) -> AbstractContextManager[dict[str, Worker]]:
        """The same, where each has an argument of its own."""
        return self._opened(contestants, method, {name: (value,) for name, value in argument.items()})

    @contextmanager
    def _opened(
        self, contestants: Sequence[Contestant], method: str, arguments: Mapping[str, Sequence[Any]]
    ) -> Iterator[dict[str, Worker]]:
        with ExitStack() as stack:
            able: dict[str, Worker] = {}
            for contestant in contestants:
                try:
                    worker = stack.enter_context(Worker(contestant, self.threads))
                    worker.told = worker.result(method, *arguments[contestant.name])
                    able[contestant.name] = worker
                    say(f"{contestant.name}: {worker.told}")
                except PeerError as error:
                    self.emit("peers unavailable", {"what": contestant.name, "reason": str(error)})
            yield able

    def report(
        self,
        benchmark: str,
        facts: Mapping[str, Any],
        times: Mapping[str, Sequence[float]],
        yardsticks: Sequence[str],
        extra: Mapping[str, Mapping[str, Any]],
        work: Mapping[str, float],
    ) -> None:
        """A row for each: `speedup` over the fastest of the yardsticks, and over each of them by name.

        Args:
            benchmark: the name in each row.
            facts: sizes and settings, in each row.
            times: seconds of each, round by round.
            yardsticks: who the others are compared with.
            extra: what only one's row holds.
            work: what a call gets done, by unit.
        """
        medians = {name: quartiles(values, "seconds")["seconds"] for name, values in times.items()}
        there = sorted((name for name in yardsticks if name in times), key=lambda name: medians[name])
        for name, values in times.items():
            row: Row = {**facts, "what": name, **quartiles(values, "seconds"), "best": min(values)}
            row |= {"rounds": len(values), "clock": self.clock}
            row |= {f"{unit}_per_second": amount / medians[name] for unit, amount in work.items()}
            if there:
                row |= {"yardstick": there[0], **quartiles(speedup(values, times[there[0]]), "speedup")}
            for other in there:
                row[f"speedup over {other}"] = quartiles(speedup(values, times[other]), "it")["it"]
            self.emit(benchmark, {**row, **extra.get(name, {})})


@dataclass
class Runs:
    """Prepared calls of several workers, and the most memory each took."""

    workers: Mapping[str, Worker]
    clock: str
    peaks: dict[str, int | None] = field(default_factory=dict)

    def times(self) -> dict[str, Any]:
        """The calls, as `take_turns` wants them."""
        return {name: lambda name=name: self._run(name) for name in self.workers}

    def _run(self, name: str) -> float:
        reply = self.workers[name].call("run")
        if reply["peak_mib"] is not None:
            self.peaks[name] = max(reply["peak_mib"], self.peaks.get(name) or 0)
        return reply[self.clock]


@dataclass
class Limits:
    """What was probed on this machine in this run."""

    operations: dict[str, float]
    bandwidth: dict[str, float]

    @classmethod
    def probe(cls, plan: Plan, sizes: Sizes) -> Limits:
        """Products, and reading as much as the weights of a decoding step take in each precision."""
        with Worker(plan.probe, plan.threads) as worker:
            operations = worker.result("operations_per_second")
            bandwidth = {
                name: worker.result("bytes_per_second", sizes.step_weights * size) for name, size in BYTES.items()
            }
        facts = {f"{name}_operations_per_second": value for name, value in operations.items()}
        facts |= {f"{name}_weights_bytes_per_second": value for name, value in bandwidth.items()}
        plan.emit("peers limits", {**facts, "step_weights": sizes.step_weights})
        return cls(operations, bandwidth)

    def searching(
        self, sizes: Sizes, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], beam_size: int
    ) -> dict[str, float]:
        """Least seconds in each precision for batches of sources and outputs of so many tokens."""
        return {
            name: decoding_limit(sizes, sources, outputs, beam_size, self.operations[name], self.bandwidth[name], name)
            for name in BYTES
        }

    def loading(self, sizes: Sizes) -> dict[str, float]:
        """Least seconds in each precision to read all weights once, as fast as a step reads its own."""
        return {name: sizes.weights * size / self.bandwidth[name] for name, size in BYTES.items()}


def shares(least: Mapping[str, float], seconds: float) -> dict[str, float]:
    """What part of a time the least one is, by precision."""
    return {f"share_of_{name}_limit": value / seconds for name, value in least.items()}
