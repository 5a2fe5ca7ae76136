"""The training loop: updates, validations, checkpoints, and when to stop."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from dragoman.config import TrainConfig
from dragoman.data import EPOCHS, EpochStores, Prepared, doubt_draws, plan_of, update_of
from dragoman.data.mixing import Mixing
from dragoman.distributed import ALONE, World
from dragoman.distributed.sharding import clip_gradients
from dragoman.errors import ConfigError
from dragoman.events import Saved
from dragoman.fast import keep_memory
from dragoman.models.pretrained import WEIGHTS
from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.optimizers.schedule import learning_rate, rejoined
from dragoman.pace import duration
from dragoman.planning import LONG, TimePlan, cheaper_plans
from dragoman.runs.checkpoint import CHECKPOINTS, Checkpoint, load_checkpoint, prune, save_checkpoint
from dragoman.training.gradients import Gradients
from dragoman.training.judging import Judge
from dragoman.training.learned import Learner
from dragoman.training.log import RunLog
from dragoman.training.progress import Attempts, Clock, Progress, diverged
from dragoman.training.signals import StopError, StopSignals
from dragoman.training.state import state_of, take_state
from dragoman.training.step import Sums, autocast
from dragoman.training.tasks import Model, task_of

MAX_SKIPPED_IN_A_ROW = 10
# Seconds: without a line, off a terminal; without any checkpoint.
SILENCE, UNSAVED = 30.0, 300.0
# Updates and seconds after which the speed is known well enough to tell of a long plan.
FEW_UPDATES, FEW_SECONDS = 10, 10.0


class Trainer:
    """Trains one model, in one process or as one of several that do the same.

    Args:
        model: of any family, on its device.
        data: the prepared corpus.
        config: completed: nothing left open.
        directory: the run directory.
        log: where progress is told.
        config_hash: of the settings that resuming must share.
        world: the processes; only the first one writes.
    """

    def __init__(
        self,
        model: Model,
        data: Prepared,
        config: TrainConfig,
        directory: Path,
        log: RunLog,
        config_hash: str,
        world: World = ALONE,
    ) -> None:
        self.model, self.data, self.config = model, data, config
        self.directory, self.log, self.config_hash = directory, log, config_hash
        self.settings, self.world = config.training, world
        self.device = next(model.parameters()).device
        self.learner = Learner(model, config)
        self.optimizer = make_optimizer(self.learner.module, self.settings)
        decay = self.settings.ema_decay
        self.average = ExponentialMovingAverage(self.learner.module, decay) if decay else None
        self.progress = Progress()
        self.stores = EpochStores(data, self.settings, config.audio, directory / EPOCHS, world, log.line)
        self.mixing = Mixing(config.data, data.sizes, self.settings.seed)
        for note in (doubt_draws(self.settings), self.mixing.doubt(self.settings.max_steps)):
            if note:
                log.line(f"warning: {note}")
        self.task = task_of(config, data.tokenizers.source.specials)
        self.attempts = Attempts(directory, log, writes=world.is_first)
        self.autocast = functools.partial(autocast, self.settings, self.device)
        parts = self.attempts, self.average, self.autocast, world
        self.judge = Judge(self.learner, data, config, directory, log, *parts)
        self.saved, self.asked, self._told, self._began = 0, False, 0.0, 0.0
        self.time: TimePlan | None = None
        self._started_at: tuple[int, float] | None = None
        self.gradients = Gradients(model, self.task, self.settings, world, autocast=self.autocast, report=log.line)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.directory / CHECKPOINTS

    @property
    def last_step(self) -> int:
        """The last update, as planned now."""
        return self.progress.last_step or self.settings.max_steps or 0

    def restore(self, path: Path, planned: int | None = None) -> None:
        """Go on from a checkpoint, bit for bit, and past its end if there is more to do now.

        Args:
            path: the checkpoint.
            planned: the `max_steps` that it was made with, if it does not say so itself; None: those of now.

        Raises:
            ConfigError: it was made with other settings or data.
        """
        if (checkpoint := self._checkpoint(path)).manifest.config_hash != self.config_hash:
            hint = "give those it was made with, or start a new run"
            raise ConfigError("the checkpoint was made with other settings or data", file=path, hint=hint)
        self._take(checkpoint)
        self.progress = Progress.from_values(checkpoint.values["progress"])
        limit = self.settings.max_steps or 0
        before = self.progress.limit or planned or limit
        if before != limit:
            self.progress.last_step = self.progress.last_step or before
            self.replan(limit)
            self.progress.worse_in_a_row = 0
        self.progress.limit = limit
        self.progress.finished = self.progress.finished and self.is_over()
        self.saved = self.progress.step

    def _checkpoint(self, path: Path) -> Checkpoint:
        return load_checkpoint(path)

    def _take(self, checkpoint: Checkpoint) -> None:
        take_state(checkpoint.tensors, self.learner, self.optimizer, self.average)

    def replan(self, last: int) -> None:
        """Have training end at another update; from the next one on the rate follows the curve of such a run."""
        progress, before = self.progress, self.last_step
        if last == before:
            return
        d_model, step = self.config.model.d_model or 1, progress.step
        rates = [learning_rate(step + 1, self.settings, d_model, end) for end in (before, last)]
        now = self.rate(step) if step else 0.0
        progress.last_step = last
        if step and rates[0] != rates[1]:
            progress.changed_at, progress.rate_then = step, now

    def judge_base(self, stop: StopSignals) -> None:
        """Validate the model that training starts from: the one to beat, kept until something is better."""
        self.judge.judge(self.progress, stop, "the model to start from, which is kept until something is better")

    def run(self, stop: StopSignals) -> None:
        """Train until the end of the budget, of patience, or until a signal comes.

        Raises:
            DivergenceError: ten updates in a row were not finite, or weights are not.
            SaveError: three checkpoints in a row could not be written.
        """
        assert self.settings.max_steps is not None
        self.progress.limit, self.progress.last_step = self.settings.max_steps, self.last_step
        self.progress.micro_batches = self.progress.micro_batches or self.settings.accumulate * self.world.size
        self.model.train()
        if self.device.type == "cpu":
            keep_memory()
        self.log.start_progress(self.progress.step, self.last_step)
        self._told = self._began = time.perf_counter()
        self._started_at = (self.progress.step, self._began)
        started, since = self._began - self.progress.seconds, Clock(self.progress.sums)
        self._agree(stop)
        if self.progress.step:
            self._pause(stop)  # a validation that a signal prevented, or an end that a smaller budget brings
        for batches in self._updates():
            if self.progress.finished or self._stops(stop):
                break
            self.learn(batches)
            self.progress.seconds = time.perf_counter() - started
            self._mend()
            self._tell(since)
            self._agree(stop)
            self._pause(stop)
        self.log.end_progress()

    def _agree(self, stop: StopSignals) -> None:
        """Take over where the first process stands; all stop when one is asked to."""
        if self.world.size > 1:
            self.progress, self.time = self.world.share((self.progress, self.time))
            self.asked = self.world.total([float(stop.received is not None)])[0] > 0

    def _stops(self, stop: StopSignals) -> bool:
        return self.asked if self.world.size > 1 else stop.received is not None

    def _mend(self) -> None:
        """Keep to the time where the machine has become slower or faster than planned; tell of a plan that is long."""
        progress, last = self.progress, self.last_step
        if self.time is not None:
            self.replan(self.time.mended(progress.step, progress.seconds, last))
            if abs(self.last_step - last) > 0.05 * last:
                pace = "slower" if self.last_step < last else "faster"
                self.log.line(f"{pace} than timed before: {self.last_step:,} updates fit now, not {last:,}")
        elif self._started_at is not None:
            step, began = self._started_at
            done, took = progress.step - step, time.perf_counter() - began
            if done < FEW_UPDATES or took < FEW_SECONDS:
                return
            self._started_at, each = None, took / done
            if (seconds := each * (last - progress.step)) > LONG:
                self.log.line(f"at this speed {last - progress.step:,} more updates take {duration(seconds)}; cheaper:")
                for line in cheaper_plans(self.config.model, seconds, each):
                    self.log.line(line)

    def _updates(self) -> Iterator[list[np.ndarray]]:
        """The micro-batches of each update, from where training stands, epoch after epoch."""
        while True:
            begun = self.progress.step - self.progress.update
            if note := self.mixing.told(begun):
                self.log.line(note)
            plan, end = self.plan(self.progress.epoch, begun), self.mixing.end(begun)
            while self.progress.step != end and (update := update_of(plan, self.progress.update)) is not None:
                yield update
            self.progress.epoch += 1
            self.progress.update = 0

    def plan(self, epoch: int, begun: int = 0) -> Sequence[list[np.ndarray]]:
        """Return the updates of an epoch after so many updates: a pure function of lengths and settings."""
        store, rows, budget = self.stores.of(epoch), self.mixing.rows(epoch, begun), self.settings.batch_tokens
        assert budget is not None
        each, seed = self.progress.micro_batches or self.settings.accumulate * self.world.size, self.settings.seed
        return plan_of(store, batch_tokens=budget, seed=seed, epoch=epoch, accumulate=each, rows=rows)

    def learn(self, micro_batches: list[np.ndarray]) -> None:
        """Train on the micro-batches of one update."""
        progress = self.progress
        step = progress.step + 1
        store = self.stores.of(progress.epoch)
        self.optimizer.zero_grad(set_to_none=True)
        r_drop = self.settings.r_drop if step > self.settings.r_drop_after else 0.0
        sums = self.gradients.add(store, micro_batches, epoch=progress.epoch, update=progress.update, r_drop=r_drop)
        self.learner.take_gradients()
        longest = self.settings.clip_norm or math.inf
        norm = self.gradient_norm = clip_gradients(self.learner.module.parameters(), longest)
        if math.isfinite(sums.loss) and math.isfinite(norm):
            self._descend(step)
            progress.sums.add(sums)
            progress.labels += sums.labels
            progress.skipped_in_a_row = 0
        else:
            self._skip(step, sums.loss, norm, micro_batches)
        progress.step = step
        progress.update += 1

    def _descend(self, step: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(step)
        self.optimizer.step()
        self.learner.moved()
        if self.average is not None:
            self.average.update(self.learner.module)

    def rate(self, step: int) -> float:
        """Return the learning rate of an update, counted from 1."""
        assert self.config.model.d_model is not None
        last, progress = self.last_step, self.progress
        curve = learning_rate(step, self.settings, self.config.model.d_model, last)
        if not progress.changed_at or step <= progress.changed_at:
            return progress.rate_then if progress.changed_at == step else curve
        return rejoined(step, curve, progress.changed_at, progress.rate_then, last)

    def _skip(self, step: int, loss: float, norm: float, micro_batches: list[np.ndarray]) -> None:
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.log.line(f"update {step}: loss {loss} and gradient norm {norm} are not finite; weights left as they were")
        self.log.event("skipped", step, {"loss": str(loss), "gradient_norm": str(norm)})
        if progress.skipped_in_a_row < MAX_SKIPPED_IN_A_ROW:
            return
        rows = "\n".join(" ".join(map(str, batch.tolist())) for batch in micro_batches)
        raise diverged(
            self.directory, f"{MAX_SKIPPED_IN_A_ROW} updates in a row were not finite",
            f"loss {loss}, gradient norm {norm} at update {step}", f"training pairs of each micro-batch:\n{rows}\n",
        )  # fmt: skip

    def _check_finite(self) -> None:
        """Refuse to judge or keep weights with which nothing can be computed any more."""
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise diverged(self.directory, "weights are not finite", f"{name} at update {self.progress.step}")

    def _tell(self, since: Clock) -> None:
        step = self.progress.step
        if step % self.settings.log_every and step != self.last_step:
            self._tell_between(step)
            return
        self._told = time.perf_counter()
        sums = self.progress.sums
        self.progress.sums = Sums()
        labels = max(1, sums.labels)
        values = {
            "epoch": self.progress.epoch,
            "loss": sums.loss / labels,
            self.task.perplexity: math.exp(min(sums.nll / labels, 700.0)),
            "accuracy": sums.correct / labels,
            "learning_rate": self.rate(step),
            "gradient_norm": self.gradient_norm,
            "target_tokens_per_second": round(since.rate(sums), 1),
            "source_tokens": sums.source_tokens,
            "target_tokens": sums.labels,
            "seconds": round(self.progress.seconds, 3),
        }
        speed = f"{values['target_tokens_per_second']:,.0f} tokens/s"
        if (sound := self.data.tokenizers.sound) is not None:
            heard = sums.source_tokens * sound.seconds_each
            values["seconds_of_sound"] = round(heard, 1)
            speed = f"{heard / max(1e-9, since.took):,.0f} s of sound/s"
        self.log.event("train", step, values)
        status = f"loss {values['loss']:.3f}  rate {values['learning_rate']:.2e}  {speed}"
        self.log.advance(step, status, self.last_step)
        if not self.log.has_bar:
            left = duration(self._left(since.seconds_per_update))
            self.log.line(f"step {step:,}/{self.last_step:,}  epoch {self.progress.epoch + 1}  {status}  {left} left")

    def _tell_between(self, step: int) -> None:
        """A line by time, where the next one by updates is far; sums and events stay as they are."""
        now = time.perf_counter()
        if self.log.has_bar or now - self._told < SILENCE:
            return
        self._told, sums = now, self.progress.sums
        loss = f"loss {sums.loss / sums.labels:.3f}  " if sums.labels else ""
        left = duration(self._left(self.progress.seconds / step))
        self.log.line(f"step {step:,}/{self.last_step:,}  epoch {self.progress.epoch + 1}  {loss}{left} left")

    def _left(self, per_update: float) -> float:
        """Seconds until training ends, at this speed; never more than the time that was given."""
        left = (self.last_step - self.progress.step) * per_update
        return left if self.time is None else min(left, max(0.0, self.time.seconds - self.progress.seconds))

    def _pause(self, stop: StopSignals) -> None:
        """Between two updates: validate, save, stop, each when it is due."""
        progress, every = self.progress, self.config.validation.every or 1
        step = progress.step
        self.log.advance(step)
        better = False
        if not self._stops(stop) and progress.validated != step and (self.is_over() or self._validates(every)):
            self._check_finite()
            began = time.perf_counter()
            with suppress(StopError):  # the step is then validated when the run goes on
                better = self.judge.judge(progress, stop)
                if self.time is not None:
                    self.time.validated(time.perf_counter() - began)
        if progress.validated == step and self.is_over():
            progress.finished = True
            self._tell_time()
            if self.time is not None and self.time.is_up(progress.seconds):
                progress.last_step = step  # it ended here: the same command again finds it finished
        due = step % (self.settings.save_every or every) == 0 or progress.finished or self._stops(stop)
        # Checkpoints by time alone would be among those that average_last takes, which go by updates.
        if not self.saved and not self.settings.average_last and time.perf_counter() - self._began >= UNSAVED:
            due = True
        if self._agreed(better or (due and self.saved != step)):
            self.save()

    def _agreed(self, saves: bool) -> bool:
        return saves  # where tensors are whole, each process can go by itself

    def _validates(self, every: int) -> bool:
        due = self.progress.step % every == 0
        return due and (self.time is None or self.time.affords_validation(self.progress.seconds))

    def _tell_time(self) -> None:
        progress, minutes = self.progress, self.settings.max_minutes
        if self.time is None or not minutes or progress.step >= self.time.most:
            return
        if progress.step >= self.last_step or self.time.is_up(progress.seconds):  # and not patience
            self.log.line(f"time is up: {progress.step:,} updates within the {duration(60 * minutes)} given")

    def is_over(self) -> bool:
        """Return whether steps, time or patience are used up."""
        progress = self.progress
        out_of_time = self.time is not None and progress.step > 0 and self.time.is_up(progress.seconds)
        return out_of_time or self.judge.is_out_of_patience(progress) or progress.step >= self.last_step

    def save(self) -> None:
        """Write a checkpoint, and weights that can be translated with if there are none yet."""
        progress = self.progress
        self._check_finite()
        tensors = state_of(self.learner, self.optimizer, self.average)
        values = {"progress": asdict(progress), "seed": self.settings.seed}
        written: list[Path] = []

        def write() -> None:
            written.append(save_checkpoint(self.checkpoints, progress.step, tensors, values, self.config_hash))
            keep = max(self.settings.keep_last, self.settings.average_last)
            prune(self.checkpoints, keep, protect=[progress.best_step])
            if not (self.directory / WEIGHTS).exists():
                with self.judge.evaluated():
                    self.learner.save(self.directory)

        if self.attempts.write("checkpoint", write):
            self.saved = progress.step
            if self.log.watch is not None:
                self.log.watch.tell(Saved(progress.step, written[-1]))
