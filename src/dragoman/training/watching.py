"""From the training loop to a callback, and from the callback's wish to stop back to the loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.events import Advanced, Event, OnEvent, Started, StopTraining, Validated
from dragoman.training.progress import Progress
from dragoman.training.signals import StopSignals


class Watch:
    """Hands events to a callback, and a wish to stop to the loop.

    Args:
        callback: gets each event in the thread that trains; stops by returning True or raising `StopTraining`.
    """

    def __init__(self, callback: OnEvent) -> None:
        self._callback, self._asked = callback, False
        self._stop: StopSignals | None = None
        self._progress: Progress | None = None
        self._max_steps: int | None = None

    def begin(self, directory: Path, progress: Progress, stop: StopSignals, max_steps: int | None) -> None:
        """Tell that the loop begins; from now on it can be stopped."""
        self._progress, self._stop, self._max_steps = progress, stop, max_steps
        self.tell(Started(progress.step, directory, max_steps))

    def tell(self, event: Event) -> None:
        """Give an event to the callback."""
        try:
            self._asked = self._callback(event) is True or self._asked
        except StopTraining:
            self._asked = True
        if self._asked and self._stop is not None:
            self._stop.ask()

    def tell_line(self, name: str, step: int, values: Mapping[str, Any]) -> None:
        """Give it a line of `metrics.jsonl`, if there is an event for it."""
        if name == "train":
            common = (values["epoch"], values["loss"], values["learning_rate"], values["seconds"])
            self.tell(Advanced(step, self._max_steps, *common, values))
        elif name == "validation" and self._progress is not None:
            self.tell(Validated(step, values["loss"], self._progress.best_step == step, values))
