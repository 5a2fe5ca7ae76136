"""What training tells: a bar or lines for people, `train.log` and `metrics.jsonl` for later, TensorBoard if asked."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from dragoman.errors import ConfigError
from dragoman.files import json_text, open_append, opened, remove, write_bytes
from dragoman.runs.history import METRICS, TEXT

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from torch.utils.tensorboard import SummaryWriter

    from dragoman.training.watching import Watch

BOARD = "tensorboard"


class RunLog:
    """Writes to a run directory and, unless `quiet`, to standard error.

    Args:
        directory: the run.
        quiet: keep standard error free.
        tensorboard: also write event files.
        watch: hands what happens to a Python program.
    """

    def __init__(
        self, directory: Path, *, quiet: bool = False, tensorboard: bool = False, watch: Watch | None = None
    ) -> None:
        self.directory, self.quiet, self.watch = directory, quiet, watch
        self._metrics: TextIO | None = None
        self._text: TextIO | None = None
        self._board: SummaryWriter | None = _tensorboard(directory) if tensorboard else None
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._found = {name for name in (METRICS, TEXT) if (directory / name).exists()}

    def __enter__(self) -> RunLog:
        self._metrics, self._text = open_append(self.directory / METRICS, self.directory / TEXT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_progress()
        self._close()

    def _close(self) -> None:
        for file in (self._metrics, self._text, self._board):
            if file is not None:
                with suppress(OSError):
                    file.close()

    def line(self, text: str) -> None:
        """Write a line for people."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._write(self._text, f"{stamp} {text}\n")
        self._say(text)

    def _say(self, text: str) -> None:
        """A reader of standard error who goes away loses the lines, not the training."""
        if self.quiet:
            return
        try:
            if self._progress is not None:
                self._progress.console.print(text, markup=False, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)
        except OSError:
            self.quiet = True

    def event(self, name: str, step: int, values: Mapping[str, object]) -> None:
        """Write one line of `metrics.jsonl`: `{"event": ..., "step": ..., ...}`; numbers go to TensorBoard too."""
        row = {"event": name, "step": step, **values}
        self._write(self._metrics, json_text(row) + "\n")
        if self._board is not None:
            for key, value in values.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(f"{name}/{key}", value, step)
        if self.watch is not None:
            self.watch.tell_line(name, step, values)

    def _write(self, file: TextIO | None, text: str) -> None:
        """A full disk loses a line of the log, not the training."""
        if file is None:
            return
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            self._say(f"cannot write the log: {error.strerror}")

    def discard(self) -> None:
        """Leave nothing new behind: for a run that was refused before it began."""
        self._close()
        made = {METRICS, TEXT} - self._found
        for name in (*made, *([BOARD] if self._board is not None else [])):
            with suppress(OSError):
                remove(self.directory / name)
        self._metrics = self._text = self._board = None

    def forget_after(self, step: int) -> None:
        """Drop the events after `step` from `metrics.jsonl`: a resumed run will write them again."""
        path = self.directory / METRICS
        if self._metrics is not None:
            self._metrics.close()
        kept = []
        with opened(path) as file:
            lines = file.read().decode("utf-8", errors="replace").split("\n")
        for line in lines:
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # damaged, or the end of a line that a crash cut off
        write_bytes(path, "".join(kept).encode())
        (self._metrics,) = open_append(path)

    def start_progress(self, done: int, total: int) -> None:
        """Show a bar, where standard error is a terminal."""
        if self.quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("training", total=total, completed=done, status="")
        self._progress.start()

    def advance(self, done: int, status: str | None = None, total: int | None = None) -> None:
        """Move the bar to `done` updates, of `total` if that has changed."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)
            if status is not None:
                self._progress.update(self._task, status=status)

    @property
    def has_bar(self) -> bool:
        """Whether a bar is showing (lines for each update would then disturb)."""
        return self._progress is not None

    def end_progress(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None


def _tensorboard(directory: Path) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        hint = "pip install 'dragoman[tensorboard]', or leave training.tensorboard off"
        raise ConfigError("TensorBoard is not installed", hint=hint) from error
    return SummaryWriter(str(directory / BOARD))
