"""The training loop: updates, validations, checkpoints, and when to stop."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import TrainConfig
from dragoman.data import Batch, Prepared, collate, plan_epoch
from dragoman.errors import DivergenceError, SaveError
from dragoman.files import make_directory, write_bytes
from dragoman.models.pretrained import WEIGHTS, save_weights
from dragoman.nn import Transformer
from dragoman.training.averaging import ExponentialMovingAverage
from dragoman.training.checkpoint import Checkpoint, prune, save_checkpoint
from dragoman.training.log import RunLog, duration
from dragoman.training.optimizer import load_optimizer_state, make_optimizer, optimizer_state
from dragoman.training.schedule import learning_rate
from dragoman.training.seeding import seed_all
from dragoman.training.signals import StopSignals
from dragoman.training.step import Sums, accumulate_gradients
from dragoman.training.validate import Validation, validate

MAX_SKIPPED_IN_A_ROW = 10
MAX_FAILED_SAVES_IN_A_ROW = 3


@dataclass
class Progress:
    """Where training stands: with weights and moments, all of its state.

    Attributes:
        step: updates done, skipped ones included.
        epoch: the epoch being trained, from 0.
        update: updates done in this epoch.
        seconds: training time so far, over all starts of the run.
        labels: target tokens learned from so far.
        skipped: updates left out because loss or gradient was not finite.
        skipped_in_a_row: such updates just now.
        best: the best validation's value of the metric, larger being better.
        best_loss: its loss, which decides between equal values.
        best_step: its step.
        worse_in_a_row: validations since the best one.
        validated: the last step that was validated.
        finished: training has ended, not only been interrupted.
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
    best_step: int = 0
    worse_in_a_row: int = 0
    validated: int = 0
    finished: bool = False
    sums: Sums = field(default_factory=Sums)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Progress:
        """From what a checkpoint kept."""
        rest: dict[str, Any] = {name: value for name, value in values.items() if name != "sums"}
        return cls(sums=Sums(**values["sums"]), **rest)


class Trainer:
    """Trains one model in one process.

    Args:
        model: an encoder-decoder, on its device.
        data: the prepared corpus.
        config: completed: nothing left open.
        directory: the run directory.
        log: where progress is told.
        config_hash: of the settings that resuming must share.
    """

    def __init__(
        self, model: Transformer, data: Prepared, config: TrainConfig, directory: Path, log: RunLog, config_hash: str
    ) -> None:
        self.model, self.data, self.config = model, data, config
        self.directory, self.log, self.config_hash = directory, log, config_hash
        self.settings = config.training
        self.device = next(model.parameters()).device
        self.optimizer = make_optimizer(model, self.settings)
        decay = self.settings.ema_decay
        self.average = ExponentialMovingAverage(model, decay) if decay else None
        self.progress = Progress()
        self.failures: Counter[str] = Counter()
        self.saved = 0
        self.hidden: Callable[[Tensor, Tensor], Tensor] = model.hidden
        if self.settings.compile:
            self.hidden = torch.compile(model.hidden, dynamic=True)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.directory / "checkpoints"

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, bit for bit."""
        self.model.load_state_dict(checkpoint.tensors["model"])
        load_optimizer_state(self.optimizer, self.model, checkpoint.tensors["optimizer"])
        if self.average is not None:
            self.average.load(checkpoint.tensors["average"])
        self.progress = Progress.from_values(checkpoint.values["progress"])
        self.saved = self.progress.step

    def run(self, stop: StopSignals) -> None:
        """Train until the end of the budget, of patience, or until a signal comes.

        Raises:
            DivergenceError: ten updates in a row were not finite.
            SaveError: three checkpoints in a row could not be written.
        """
        assert self.settings.max_steps is not None
        self.model.train()
        self.log.start_progress(self.progress.step, self.settings.max_steps)
        started = time.perf_counter() - self.progress.seconds
        since = _Clock(self.progress.sums)
        if self.progress.step:
            self._pause(stop)  # a validation that a signal prevented, or an end that a smaller budget brings
        for batches in self._updates():
            if self.progress.finished or stop.received is not None:
                break
            self._update(batches)
            self.progress.seconds = time.perf_counter() - started
            self._tell(since)
            self._pause(stop)
        self.log.end_progress()

    def _updates(self) -> Iterator[list[np.ndarray]]:
        """The micro-batches of each update, from where training stands, epoch after epoch."""
        while True:
            plan = self.plan(self.progress.epoch)
            while self.progress.update < len(plan):
                yield plan[self.progress.update]
            self.progress.epoch += 1
            self.progress.update = 0

    def plan(self, epoch: int) -> list[list[np.ndarray]]:
        """The updates of an epoch: a pure function of lengths and settings."""
        assert self.settings.batch_tokens is not None
        return plan_epoch(
            self.data.train.source_lengths,
            self.data.train.target_lengths,
            batch_tokens=self.settings.batch_tokens,
            seed=self.settings.seed,
            epoch=epoch,
            accumulate=self.settings.accumulate,
        )

    def autocast(self) -> AbstractContextManager[object]:
        """bfloat16 where it is set, or by default on CUDA; weights and sums stay float32."""
        wanted = self.settings.precision
        if wanted == "bfloat16" or (wanted == "auto" and self.device.type == "cuda"):
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _update(self, micro_batches: list[np.ndarray]) -> None:
        progress = self.progress
        step = progress.step + 1
        batches: list[Batch] = [collate(self.data.train, rows).to(self.device) for rows in micro_batches]
        labels = sum(batch.target_tokens for batch in batches)
        self.optimizer.zero_grad(set_to_none=True)
        sums = accumulate_gradients(
            self.model,
            batches,
            labels,
            smoothing=self.settings.label_smoothing,
            before=functools.partial(self._seed, progress.epoch, progress.update),
            autocast=self.autocast,
            hidden=self.hidden,
        )
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf))
        self.gradient_norm = norm
        if math.isfinite(sums.loss) and math.isfinite(norm):
            self._descend(step)
            progress.sums.add(sums)
            progress.labels += labels
            progress.skipped_in_a_row = 0
        else:
            self._skip(step, sums.loss, norm, micro_batches)
        progress.step = step
        progress.update += 1

    def _seed(self, epoch: int, update: int, micro: int) -> None:
        seed_all(self.settings.seed, epoch, update, micro, 0)

    def _descend(self, step: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(step)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model)

    def rate(self, step: int) -> float:
        """Learning rate of an update, counted from 1."""
        assert self.config.model.d_model is not None
        return learning_rate(step, self.settings, self.config.model.d_model)

    def _skip(self, step: int, loss: float, norm: float, micro_batches: list[np.ndarray]) -> None:
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.log.line(f"update {step}: loss {loss} and gradient norm {norm} are not finite; weights left as they were")
        self.log.event("skipped", step, {"loss": str(loss), "gradient_norm": str(norm)})
        if progress.skipped_in_a_row < MAX_SKIPPED_IN_A_ROW:
            return
        file = self.directory / "diverged.txt"
        rows = "\n".join(" ".join(map(str, batch.tolist())) for batch in micro_batches)
        write_bytes(file, f"update {step}, training pairs of each micro-batch:\n{rows}\n".encode())
        raise DivergenceError(
            f"{MAX_SKIPPED_IN_A_ROW} updates in a row were not finite",
            file=file,
            found=f"loss {loss}, gradient norm {norm} at update {step}",
            hint="lower training.learning_rate, lengthen training.warmup_steps, or look at the pairs listed there",
        )

    def _tell(self, since: _Clock) -> None:
        step, settings = self.progress.step, self.settings
        if step % settings.log_every and step != settings.max_steps:
            return
        sums = self.progress.sums
        self.progress.sums = Sums()
        labels = max(1, sums.labels)
        values = {
            "epoch": self.progress.epoch,
            "loss": sums.loss / labels,
            "perplexity": math.exp(min(sums.nll / labels, 700.0)),
            "accuracy": sums.correct / labels,
            "learning_rate": self.rate(step),
            "gradient_norm": self.gradient_norm,
            "target_tokens_per_second": round(since.rate(sums), 1),
            "source_tokens": sums.source_tokens,
            "target_tokens": sums.labels,
            "seconds": round(self.progress.seconds, 3),
        }
        self.log.event("train", step, values)
        status = (
            f"loss {values['loss']:.3f}  rate {values['learning_rate']:.2e}  "
            f"{values['target_tokens_per_second']:,.0f} tokens/s"
        )
        self.log.advance(step, status)
        if not self.log.has_bar:
            left = duration(((settings.max_steps or step) - step) * since.seconds_per_update)
            self.log.line(
                f"step {step:,}/{settings.max_steps:,}  epoch {self.progress.epoch + 1}  {status}  {left} left"
            )

    def _pause(self, stop: StopSignals) -> None:
        """Between two updates: validate, save, stop, each when it is due."""
        progress, every = self.progress, self.config.validation.every or 1
        step = progress.step
        self.log.advance(step)
        better = False
        if stop.received is None and progress.validated != step and (self.is_over() or step % every == 0):
            better = self._validate()
        if progress.validated == step and self.is_over():
            progress.finished = True
        due = step % (self.settings.save_every or every) == 0 or progress.finished or stop.received is not None
        if better or (due and self.saved != step):
            self.save()

    def is_over(self) -> bool:
        """Whether steps, time or patience are used up."""
        progress, settings = self.progress, self.settings
        out_of_time = settings.max_minutes is not None and progress.seconds >= 60 * settings.max_minutes
        out_of_patience = bool(settings.patience) and progress.worse_in_a_row >= (settings.patience or 0)
        return out_of_time or out_of_patience or progress.step >= (settings.max_steps or 0)

    def evaluated(self) -> AbstractContextManager[object]:
        """Within this the model has the weights that are judged and kept: the moving average, if there is one."""
        return nullcontext() if self.average is None else self.average.applied(self.model)

    def _validate(self) -> bool:
        """Validate, keep the weights if they are the best so far, and say so; whether they are."""
        progress = self.progress
        began = time.perf_counter()
        with self.evaluated():
            result = validate(self.model, self.data, self.config, self.autocast)
            better = self.is_better(result) and self._written(
                "weights", lambda: save_weights(self.directory, self.model)
            )
        progress.validated = progress.step
        if better:
            self.set_best(result)
        else:
            progress.worse_in_a_row += 1
        remark = "best so far" if better else f"best was step {progress.best_step:,}"
        self.keep_validation(result, f"step-{progress.step:08d}", remark)
        self.log.event("timing", progress.step, {"validation_seconds": round(time.perf_counter() - began, 3)})
        if self.settings.patience and progress.worse_in_a_row >= self.settings.patience:
            self.log.line(f"no better validation for {progress.worse_in_a_row}: stopping early")
        return better

    def is_better(self, result: Validation) -> bool:
        """Whether a validation beats the best one; between equal values the smaller loss wins, NaN never does."""
        value = result.value(self.config.validation.metric or "loss")
        if math.isnan(value) or math.isnan(result.loss):
            return False
        best, best_loss = self.progress.best, self.progress.best_loss
        return best is None or best_loss is None or (value, -result.loss) > (best, -best_loss)

    def set_best(self, result: Validation) -> None:
        """Take a validation as the one to beat."""
        progress = self.progress
        progress.best = result.value(self.config.validation.metric or "loss")
        progress.best_loss, progress.best_step, progress.worse_in_a_row = result.loss, progress.step, 0

    def keep_validation(self, result: Validation, name: str, remark: str) -> None:
        """Write the dev output to `hypotheses/NAME.txt` and tell the numbers."""
        step = self.progress.step
        text = "".join(line.replace("\n", " ") + "\n" for line in result.hypotheses)
        folder = self.directory / "hypotheses"
        self._written("hypotheses", lambda: write_text(folder / f"{name}.txt", text))
        self.log.event("validation", step, {"of": name, **result.numbers(), "signatures": result.signatures})
        numbers = "  ".join(f"{metric} {value:.2f}" for metric, value in result.scores.items())
        shown = f"loss {result.loss:.3f}  perplexity {result.perplexity:.2f}  {numbers}"
        self.log.line(f"validation at step {step:,}: {shown}  ({remark})")

    def save(self) -> None:
        """Write a checkpoint, and weights that can be translated with if there are none yet."""
        progress = self.progress
        tensors: dict[str, dict[str, Tensor]] = {
            "model": dict(self.model.state_dict()),
            "optimizer": optimizer_state(self.optimizer, self.model),
        }
        if self.average is not None:
            tensors["average"] = self.average.state()
        values = {"progress": asdict(progress), "seed": self.settings.seed}

        def write() -> None:
            save_checkpoint(self.checkpoints, progress.step, tensors, values, self.config_hash)
            keep = max(self.settings.keep_last, self.settings.average_last)
            prune(self.checkpoints, keep, protect=[progress.best_step])
            if not (self.directory / WEIGHTS).exists():
                with self.evaluated():
                    save_weights(self.directory, self.model)

        if self._written("checkpoint", write):
            self.saved = progress.step

    def _written(self, what: str, write: Callable[[], object]) -> bool:
        """Whether writing went well; a failure is told and tried again at the next occasion, unless it is the third."""
        try:
            write()
        except (SaveError, OSError) as error:
            self.failures[what] += 1
            self.log.line(f"{what} not written: {error}")
            if self.failures[what] >= MAX_FAILED_SAVES_IN_A_ROW:
                raise SaveError(f"{what} failed three times in a row", file=self.directory, found=error) from error
            return False
        self.failures[what] = 0
        return True


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all; its directory is made."""
    make_directory(path.parent)
    write_bytes(path, text.encode())


class _Clock:
    """Speed since it was last asked; what was summed before this start does not count."""

    def __init__(self, sums: Sums) -> None:
        self.last = time.perf_counter()
        self.carried = (sums.labels, sums.updates)
        self.seconds_per_update = 0.0

    def rate(self, sums: Sums) -> float:
        """Target tokens per second."""
        now = time.perf_counter()
        labels, updates = (total - part for total, part in zip((sums.labels, sums.updates), self.carried, strict=True))
        self.seconds_per_update = (now - self.last) / max(1, updates)
        rate = labels / max(1e-9, now - self.last)
        self.last, self.carried = now, (0, 0)
        return rate
