"""What a training tells a Python program: typed events, and the exception that stops it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class StopTraining(Exception):
    """To be raised in a callback of `train`: training saves a checkpoint and returns, as after Ctrl-C."""


@dataclass(frozen=True)
class Event:
    """What happened in a training.

    Attributes:
        step: updates done.
    """

    step: int


@dataclass(frozen=True)
class Started(Event):
    """The first update is about to be made; settings are chosen, the model is built.

    Attributes:
        directory: the run.
        max_steps: updates at most; None where nothing is trained but counted.
    """

    directory: Path
    max_steps: int | None


@dataclass(frozen=True)
class Advanced(Event):
    """Some updates were made: every `training.log_every` of them.

    Attributes:
        max_steps: updates at most.
        epoch: being trained, from 0.
        loss: of each label since the last such event.
        learning_rate: of the last update.
        seconds: of training so far.
        values: all of the line in `metrics.jsonl`.
    """

    max_steps: int | None
    epoch: int
    loss: float
    learning_rate: float
    seconds: float
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Validated(Event):
    """Held-out pairs, or lines, were looked at.

    Attributes:
        loss: of each of their labels.
        is_best: whether these weights are the best so far, and kept.
        values: all of the line in `metrics.jsonl`: scores by name, perplexity, accuracy.
    """

    loss: float
    is_best: bool
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint was written.

    Attributes:
        path: its directory.
    """

    path: Path


@dataclass(frozen=True)
class Finished(Event):
    """Training has ended: the last event of a run, unless it failed.

    Attributes:
        directory: the run, which is the model directory.
        is_complete: whether it went to its end, not only until it was stopped.
    """

    directory: Path
    is_complete: bool


# Gets each event; True stops the training.
OnEvent = Callable[[Event], object]
