"""The history of a run, out of `metrics.jsonl`: its losses, scores and rates by updates and by time."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config import SETTINGS_FILE, make_config, read_toml
from dragoman.config.training import LOWER_IS_BETTER
from dragoman.errors import ModelError
from dragoman.files import opened

METRICS, TEXT = "metrics.jsonl", "train.log"
LONGEST_LINE = 1 << 16  # bytes of a line that may be an event
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_TAIL = 1 << 16  # bytes of a log in which its last line is looked for


@dataclass(frozen=True)
class History:
    """What a run told of itself.

    Attributes:
        directory: the run.
        metric: what its best model was judged by.
        training: the events of training, by step: losses, learning rate, seconds since the start.
        validations: those of validations, by step.
    """

    directory: Path
    metric: str
    training: tuple[Mapping[str, Any], ...]
    validations: tuple[Mapping[str, Any], ...]

    @property
    def steps(self) -> int:
        """Updates that it tells of."""
        return max((int(one["step"]) for one in (*self.training, *self.validations)), default=0)

    @property
    def seconds(self) -> float:
        """Training time that it tells of."""
        return max((number(one, "seconds") or 0.0 for one in self.training), default=0.0)

    def minutes_at(self, step: int) -> float:
        """Return the training time of an update, between lines of the log in proportion."""
        steps = [0, *(int(one["step"]) for one in self.training)]
        seconds = [0.0, *(number(one, "seconds") or 0.0 for one in self.training)]
        after = bisect_left(steps, step)
        if after == len(steps):
            return seconds[-1] / 60
        if steps[after] == step or after == 0:
            return seconds[after] / 60
        share = (step - steps[after - 1]) / (steps[after] - steps[after - 1])
        return (seconds[after - 1] + share * (seconds[after] - seconds[after - 1])) / 60

    def best(self, metric: str) -> Mapping[str, Any] | None:
        """Return the validation of the best value of a metric, the first of equals; None if there is none."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        found = [(sign * value, one) for one in self.validations if (value := number(one, metric)) is not None]
        return max(found, key=lambda pair: pair[0])[1] if found else None


def number(event: Mapping[str, Any], name: str) -> float | None:
    """Return a finite number of an event; None if there is none of the name."""
    value = event.get(name)
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if sound else None


def read_history(directory: str | Path) -> History:
    """Return the history of a run; lines that are no events, such as one that a crash cut off, are passed over.

    Raises:
        ModelError: there is no run.
    """
    directory = Path(directory)
    if not (directory / METRICS).exists():
        hint = "a run directory is what `dragoman train --out` made"
        raise ModelError("no run here", file=directory, expected=METRICS, hint=hint)
    events = list(_events(directory / METRICS))
    validations = [one for one in events if one["event"] == "validation" and one.get("of") != "average"]
    return History(
        directory,
        _metric(directory, validations),
        _by_step([one for one in events if one["event"] == "train"]),
        _by_step(validations),
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with opened(path) as file:
        while line := file.readline(LONGEST_LINE):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str) and _is_step(event.get("step")):
                yield event


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _by_step(events: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The last event of each step, in order: a run that goes on tells some again."""
    latest = {one["step"]: one for one in events}
    return tuple(latest[step] for step in sorted(latest))


def _metric(directory: Path, validations: list[dict[str, Any]]) -> str:
    """What the settings say the best model was judged by; without them, the first score there is."""
    if (directory / SETTINGS_FILE).exists():
        found = make_config(read_toml(directory / SETTINGS_FILE)).validation.metric
        if found is not None:
            return found
    scores = [name for one in validations for name in ("exact", "bleu", "chrf") if number(one, name) is not None]
    return scores[0] if scores else "loss"


def last_stamp(directory: Path) -> str | None:
    """Return date and time of the last line of a run's log, as it stands there; None if there is none."""
    if not (directory / TEXT).exists():
        return None
    with opened(directory / TEXT) as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        text = file.read(_TAIL).decode("utf-8", "replace")
    found = [match[0] for line in text.split("\n") if (match := _STAMP.match(line))]
    return found[-1] if found else None
