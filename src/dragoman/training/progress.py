"""Where training stands, and writing that may fail now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.errors import DivergenceError, SaveError
from dragoman.files import write_bytes
from dragoman.training.log import RunLog
from dragoman.training.step import Sums

MAX_FAILED_IN_A_ROW = 3


@dataclass
class Progress:
    """Where training stands: with weights and moments, all of its state.

    Attributes:
        step: updates done, skipped ones included.
        epoch: the epoch being trained, from 0.
        update: updates done in this epoch.
        seconds: training time so far, over all starts of the run.
        labels: tokens learned from so far, each as often as it was predicted.
        skipped: updates left out because loss or gradient was not finite.
        skipped_in_a_row: such updates just now.
        best: the best validation's value of the metric, larger being better.
        best_loss: its loss.
        best_rank: what it is compared by, most important first (`Validation.rank`); None in older checkpoints.
        lowest_loss: of all validations so far.
        best_step: its step.
        averaged: the checkpoints up to that step whose average it was of; 0 where it was of the weights of the step.
        worse_in_a_row: validations since the best one.
        validated: the last step that was validated.
        finished: training has ended, not only been interrupted.
        limit: `max_steps` as the plan was made for it; 0: of a version without plans.
        last_step: the last update as planned now, by steps or by time.
        changed_at: the update at which the plan was changed so that the rate had to follow; 0: never.
        rate_then: the learning rate of that update.
        micro_batches: of each update, over all processes; 0: of a version that did not keep it.
        sums: losses since the last line of the log.
    """

    step: int = 0
    epoch: int = 0
    update: int = 0
    seconds: float = 0.0
    labels: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    best: float | None = None
    best_loss: float | None = None
    best_rank: list[float] | None = None
    lowest_loss: float | None = None
    best_step: int = 0
    averaged: int = 0
    worse_in_a_row: int = 0
    validated: int = 0
    finished: bool = False
    limit: int = 0
    last_step: int = 0
    changed_at: int = 0
    rate_then: float = 0.0
    micro_batches: int = 0
    sums: Sums = field(default_factory=Sums)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Progress:
        """Return the progress that a checkpoint kept."""
        rest: dict[str, Any] = {name: value for name, value in values.items() if name != "sums"}
        return cls(sums=Sums(**values["sums"]), **rest)


def diverged(directory: Path, message: str, found: str, details: str = "") -> DivergenceError:
    """Write `diverged.txt` into a run directory and return the error that names it."""
    file = directory / "diverged.txt"
    with suppress(OSError):
        write_bytes(file, f"{message}: {found}\n{details}".encode())
    hint = "lower training.learning_rate, lengthen training.warmup_steps, or look at the data"
    return DivergenceError(message, file=file, found=found, hint=hint)


class Attempts:
    """Writes into a run directory; a failure is told and tried again at the next occasion, unless it is the third.

    Args:
        directory: what errors name.
        log: where failures are told.
        writes: whether this process writes; if not, the first of them does, and here all goes well.
    """

    def __init__(self, directory: Path, log: RunLog, *, writes: bool = True) -> None:
        self._directory, self._log, self._writes = directory, log, writes
        self._failures: Counter[str] = Counter()

    def write(self, what: str, write: Callable[[], object]) -> bool:
        """Call `write`, which writes `what`; whether it went well.

        Raises:
            SaveError: it failed for the third time in a row.
        """
        if not self._writes:
            return True
        try:
            write()
        except (SaveError, OSError) as error:
            self._failures[what] += 1
            self._log.line(f"{what} not written: {error}")
            if self._failures[what] >= MAX_FAILED_IN_A_ROW:
                raise SaveError(f"{what} failed three times in a row", file=self._directory, found=error) from error
            return False
        self._failures[what] = 0
        return True


class Clock:
    """Speed since it was last asked; what was summed before this start does not count."""

    def __init__(self, sums: Sums) -> None:
        self.last = time.perf_counter()
        self.carried = (sums.labels, sums.updates)
        self.seconds_per_update = self.took = 0.0

    def rate(self, sums: Sums) -> float:
        """Return target tokens per second."""
        now = time.perf_counter()
        labels, updates = (total - part for total, part in zip((sums.labels, sums.updates), self.carried, strict=True))
        self.seconds_per_update = (now - self.last) / max(1, updates)
        self.took = now - self.last
        rate = labels / max(1e-9, self.took)
        self.last, self.carried = now, (0, 0)
        return rate
