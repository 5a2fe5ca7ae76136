"""Judging a model in training: validations, which of them is the best, and what is kept of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from dragoman.config import TrainConfig
from dragoman.config.training import LOWER_IS_BETTER
from dragoman.data import Prepared
from dragoman.distributed import ALONE, World
from dragoman.distributed.sharding import Spread
from dragoman.errors import ModelError
from dragoman.files import make_directory, write_bytes
from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.training.learned import Learner
from dragoman.training.log import RunLog
from dragoman.training.progress import Attempts, Progress, diverged
from dragoman.training.signals import StopSignals
from dragoman.training.validate import ORDER, Validation, validate

HYPOTHESES = "hypotheses"  # where outputs of validations lie


class Judge:
    """Validates, and keeps the best weights in the run directory.

    Args:
        learner: the model, with what of it is trained.
        data: the prepared corpus.
        config: completed.
        directory: the run.
        log: where results are told.
        attempts: writes.
        average: of the weights; judged and kept in their place, if there is one.
        autocast: makes the context that chooses the precision.
        world: the processes that share a validation; when the others have gone it is `ALONE`.
    """

    def __init__(
        self,
        learner: Learner,
        data: Prepared,
        config: TrainConfig,
        directory: Path,
        log: RunLog,
        attempts: Attempts,
        average: ExponentialMovingAverage | None,
        autocast: Callable[[], AbstractContextManager[object]],
        world: World = ALONE,
    ) -> None:
        self.learner, self.model = learner, learner.model
        self.data, self.config, self.directory = data, config, directory
        self.log, self.attempts, self.average, self.autocast, self.world = log, attempts, average, autocast, world
        self.metric = config.validation.metric or "loss"
        self.best: Validation | None = None  # of this start of the run
        self.spread: Spread | None = None  # where weights are in parts

    def evaluated(self) -> AbstractContextManager[object]:
        """Give the model, inside the `with` block, the weights that are judged and kept: the moving average, if any."""
        if self.spread is not None:
            return self.spread.filled(None if self.average is None else self.average.values)
        return nullcontext() if self.average is None else self.average.applied(self.learner.module)

    def measure(self) -> Validation:
        """Validate the model as it is."""
        return validate(self.model, self.data, self.config, self.autocast, self.world)

    def judge(self, progress: Progress, stop: StopSignals, as_best: str = "best so far") -> bool:
        """Validate, keep the weights if they are the best so far, and say so, as `as_best`; whether they are.

        Raises:
            DivergenceError: the model gives NaN.
            StopError: a signal came while the model was validated.
        """
        began = time.perf_counter()
        with self.evaluated():
            try:
                # Of several processes none may leave: the others would wait for it.
                with stop.interruptible() if self.world.size == 1 else nullcontext():
                    result = self.measure()
            except ModelError as error:
                raise diverged(self.directory, "the model cannot be validated", error.message) from error
            best = self.is_better(result, progress)
            better = best and self.attempts.write("weights", lambda: self.learner.save(self.directory))
        progress.validated = progress.step
        if better:
            remark = as_best + self.decided_by(result, progress)
            self.set_best(result, progress)
            progress.worse_in_a_row = 0
        else:
            remark = "better, but could not be written" if best else f"best was step {progress.best_step:,}"
            progress.worse_in_a_row += not self.is_blind(result, progress)
        progress.lowest_loss = min(result.loss, progress.lowest_loss or math.inf)
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
        """Return whether a validation beats the best by `Validation.rank`; NaN never does."""
        if math.isnan(result.value(self.metric)) or math.isnan(result.loss):
            return False
        best = self.best_rank(result, progress)
        return best is None or result.rank(self.metric) > best

    def best_rank(self, result: Validation, progress: Progress) -> tuple[float, ...] | None:
        """Return the rank of the best validation; of what it does not know it is like `result`."""
        if progress.best is None or progress.best_loss is None:
            return None
        if progress.best_rank is not None:
            return tuple(progress.best_rank)
        # A checkpoint from before there were ranks.
        scores = {**result.scores, self.metric: progress.best}  # of none that is the better the smaller it is
        return replace(result, scores=scores, loss=progress.best_loss, smoothed=frozenset()).rank(self.metric)

    def decided_by(self, result: Validation, progress: Progress) -> str:
        """Return by what a validation is better than the best, as words to be added; none where the metric tells."""
        rank, best = result.rank(self.metric), self.best_rank(result, progress)
        names = (*ORDER[self.metric], "loss")
        decides = next((name for name, its, other in zip(names, rank, best or (), strict=False) if its != other), "")
        return "" if decides in ("", self.metric) else f", by {decides}"

    def is_blind(self, result: Validation, progress: Progress) -> bool:
        """Return whether the metric is still at its floor while the loss falls: that must not use up patience."""
        falls = result.loss < (progress.lowest_loss or math.inf)
        worst = -100.0 if self.metric in LOWER_IS_BETTER else 0.0
        return self.metric != "loss" and result.rank(self.metric)[0] <= worst and falls

    def set_best(self, result: Validation, progress: Progress, averaged: int = 0) -> None:
        """Take a validation, perhaps one of the average of some checkpoints, as the one to beat."""
        progress.best, progress.best_loss = result.value(self.metric), result.loss
        progress.best_rank = list(result.rank(self.metric))
        progress.best_step, progress.averaged = progress.step, averaged
        self.best = result

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
