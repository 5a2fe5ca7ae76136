"""Judging a model in training: validations, which of them is the best, and what is kept of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.errors import ModelError
from dragoman.files import make_directory, write_bytes
from dragoman.models.pretrained import save_weights
from dragoman.training.averaging import ExponentialMovingAverage
from dragoman.training.log import RunLog
from dragoman.training.progress import Attempts, Progress, diverged
from dragoman.training.signals import StopSignals
from dragoman.training.tasks import Model
from dragoman.training.validate import Validation, validate

HYPOTHESES = "hypotheses"  # where outputs of validations lie


class Judge:
    """Validates, and keeps the best weights in the run directory.

    Args:
        model: being trained.
        data: the prepared corpus.
        config: completed.
        directory: the run.
        log: where results are told.
        attempts: writes.
        average: of the weights; judged and kept in their place, if there is one.
        autocast: makes the context that chooses the precision.
    """

    def __init__(
        self,
        model: Model,
        data: Prepared,
        config: TrainConfig,
        directory: Path,
        log: RunLog,
        attempts: Attempts,
        average: ExponentialMovingAverage | None,
        autocast: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self.model, self.data, self.config, self.directory = model, data, config, directory
        self.log, self.attempts, self.average, self.autocast = log, attempts, average, autocast
        self.metric = config.validation.metric or "loss"

    def evaluated(self) -> AbstractContextManager[object]:
        """Give the model, inside the `with` block, the weights that are judged and kept: the moving average, if any."""
        return nullcontext() if self.average is None else self.average.applied(self.model)

    def measure(self) -> Validation:
        """Validate the model as it is."""
        return validate(self.model, self.data, self.config, self.autocast)

    def judge(self, progress: Progress, stop: StopSignals) -> bool:
        """Validate, keep the weights if they are the best so far, and say so; whether they are.

        Raises:
            DivergenceError: the model gives NaN.
            StopError: a signal came while the model was validated.
        """
        began = time.perf_counter()
        with self.evaluated():
            try:
                with stop.interruptible():
                    result = self.measure()
            except ModelError as error:
                raise diverged(self.directory, "the model cannot be validated", error.message) from error
            best = self.is_better(result, progress)
            better = best and self.attempts.write("weights", lambda: save_weights(self.directory, self.model))
        progress.validated = progress.step
        if better:
            self.set_best(result, progress)
            progress.worse_in_a_row = 0
        else:
            progress.worse_in_a_row += 1
        not_kept = "better, but could not be written" if best else f"best was step {progress.best_step:,}"
        remark = "best so far" if better else not_kept
        self.keep(result, progress.step, f"step-{progress.step:08d}", remark)
        self.log.event("timing", progress.step, {"validation_seconds": round(time.perf_counter() - began, 3)})
        if self.is_out_of_patience(progress):
            self.log.line(f"no better validation for {progress.worse_in_a_row}: stopping early")
        return better

    def is_out_of_patience(self, progress: Progress) -> bool:
        """Return whether too many validations in a row were no better."""
        patience = self.config.training.patience or 0
        return 0 < patience <= progress.worse_in_a_row

    def is_better(self, result: Validation, progress: Progress) -> bool:
        """Return whether a validation beats the best; of equal values the smaller loss wins, NaN never does."""
        value = result.value(self.metric)
        if math.isnan(value) or math.isnan(result.loss):
            return False
        best, best_loss = progress.best, progress.best_loss
        return best is None or best_loss is None or (value, -result.loss) > (best, -best_loss)

    def set_best(self, result: Validation, progress: Progress, averaged: int = 0) -> None:
        """Take a validation, perhaps one of the average of some checkpoints, as the one to beat."""
        progress.best, progress.best_loss = result.value(self.metric), result.loss
        progress.best_step, progress.averaged = progress.step, averaged

    def keep(self, result: Validation, step: int, name: str, remark: str) -> None:
        """Write the dev output to `hypotheses/NAME.txt` and tell the numbers."""
        text = "".join(line.replace("\n", " ") + "\n" for line in result.hypotheses)
        folder = self.directory / HYPOTHESES
        self.attempts.write("hypotheses", lambda: _write_text(folder / f"{name}.txt", text))
        self.log.event("validation", step, {"of": name, **result.numbers(), "signatures": result.signatures})
        perplexity = f"{result.perplexity_name.replace('_', '-')} {result.perplexity:.2f}"
        scores = [f"{metric} {value:.2f}" for metric, value in result.scores.items()]
        accuracy = [] if scores else [f"accuracy {100 * result.accuracy:.2f} %"]
        loss = f"loss {result.loss:.3f} (training {self.data.counts['train'].unit} {result.training_loss:.3f})"
        cut = [f"cut at the limit {result.cut:,} of {len(result.hypotheses):,}"] if result.cut else []
        shown = "  ".join([loss, perplexity, *accuracy, *scores, *cut])
        self.log.line(f"validation at step {step:,}: {shown}  ({remark})")


def _write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all; its directory is made."""
    make_directory(path.parent)
    write_bytes(path, text.encode())
