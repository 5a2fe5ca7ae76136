"""What a training leaves behind, finished or interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.config import TrainConfig
from dragoman.shown import html_table
from dragoman.training.progress import Progress
from dragoman.translation import Translator


@dataclass(frozen=True)
class Run:
    """A finished or interrupted training.

    Attributes:
        directory: the run directory, which is also the model directory.
        config: every setting, defaults included.
        progress: where training stands.
        exit_status: 0, or 128 + the signal that interrupted it.
    """

    directory: Path
    config: TrainConfig
    progress: Progress
    exit_status: int = 0

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts())
        return f"{type(self).__name__}({str(self.directory)!r}: {facts})"

    def _repr_html_(self) -> str:
        """For notebooks: where the run is and how far it came."""
        return html_table([("directory", self.directory), *self._facts()], caption="run")

    def _facts(self) -> list[tuple[str, str]]:
        progress = self.progress
        state = "finished" if progress.finished else "interrupted; resume goes on"
        best = [] if progress.best is None else [("best at step", f"{progress.best_step:,} ({progress.best:.4g})")]
        return [("steps", f"{progress.step:,}"), *best, ("is", state)]

    def translator(self) -> Translator:
        """Return the best model of the run."""
        return Translator.from_pretrained(self.directory)
