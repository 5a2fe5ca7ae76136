"""Training in several processes of which each keeps a part of every tensor, for what does not fit on one device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.distributed import World
from dragoman.distributed.sharding import Spread, part_of, whole
from dragoman.events import Saved
from dragoman.models.pretrained import WEIGHTS
from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.runs.checkpoint import Checkpoint, load_checkpoint, prune
from dragoman.runs.in_parts import load_in_parts, save_in_parts
from dragoman.training.gradients import Gradients
from dragoman.training.log import RunLog
from dragoman.training.progress import Attempts, diverged
from dragoman.training.signals import StopSignals
from dragoman.training.state import State, state_of, take_state
from dragoman.training.tasks import Model
from dragoman.training.trainer import Trainer


def make_trainer(
    model: Model, data: Prepared, config: TrainConfig, directory: Path, log: RunLog, config_hash: str, world: World
) -> Trainer:
    """Make what trains as `training.sharding` says; arguments as of `Trainer`. One process has nothing to spread."""
    kind = ShardedTrainer if config.training.sharding == "full" and world.size > 1 else Trainer
    return kind(model, data, config, directory, log, config_hash, world)


class ShardedTrainer(Trainer):
    """A `Trainer` that spreads weights, gradients and moments over the processes while it runs.

    Before and after that the model is whole; while it is judged it is so in every process.
    """

    average: ExponentialMovingAverage | None

    def _checkpoint(self, path: Path) -> Checkpoint:
        return load_checkpoint(path, ())

    def _take(self, checkpoint: Checkpoint) -> None:
        self._begun_from = checkpoint  # its tensors come when there are parts to put them into

    def run(self, stop: StopSignals) -> None:
        """See `Trainer.run`."""
        self._spread()
        super().run(stop)
        self._gather()

    def _spread(self) -> None:
        spread = self.spread = Spread(self.model)
        parts: Model = spread.parts  # pyrefly: ignore[bad-assignment]
        ways = {"autocast": self.autocast, "report": self.log.line}
        self.gradients = Gradients(parts, self.task, self.settings, self.world, **ways, sharded=True)
        self.gradients.prepare()
        self.learner.module = parts
        self.optimizer = make_optimizer(parts, self.settings)
        self.judge.spread = spread
        if self.average is not None:
            self.average = self.judge.average = ExponentialMovingAverage(parts, self.average.decay)
        names: dict[int, str] = {id(one): name for name, one in parts.named_parameters()}
        tied = parts.named_parameters(remove_duplicate=False)
        self._aliases = {f"model.{name}": f"model.{names[id(one)]}" for name, one in tied if names[id(one)] != name}
        self._failures = Attempts(self.directory, self.log)  # all write, so all count
        if (begun := getattr(self, "_begun_from", None)) is not None:
            take_state(self._parts_of(begun), self.learner, self.optimizer, self.average)

    def _parts_of(self, checkpoint: Checkpoint) -> State:
        """The tensors of a checkpoint of any kind: of each, this process's part."""
        if checkpoint.manifest.in_parts:
            return load_in_parts(checkpoint.path, self._place, self.world).tensors
        state = load_checkpoint(checkpoint.path).tensors
        return {
            stem: {
                name: part_of(one, self._place(f"{stem}.{name}", one.shape, one.dtype)) for name, one in group.items()
            }
            for stem, group in state.items()
        }

    def _place(self, name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """Zeros in the place of a checkpoint's tensor: in parts as the parameter that it belongs to, if to any."""
        stem, _, rest = name.partition(".")
        own = self.spread.parts.state_dict().get(rest if stem == "model" else rest.partition(".")[2])
        if own is None or own.shape != shape:
            return torch.zeros(shape, dtype=dtype)
        return torch.zeros_like(own, dtype=dtype)

    def _gather(self) -> None:
        """Have the model whole again."""
        spread, average, self.judge.spread = self.spread, self.average, None
        spread.fill()
        state = None if average is None else {name: whole(one) for name, one in average.state().items()}
        self.learner.module = self.model
        if average is not None and state is not None:
            self.average = self.judge.average = ExponentialMovingAverage(self.model, average.decay)
            self.average.load(state)

    def _agreed(self, saves: bool) -> bool:
        return self.world.share(saves)

    def _check_finite(self) -> None:
        for name, parameter in self.spread.parts.named_parameters():
            if not bool(whole(torch.isfinite(parameter.detach()).all())):
                raise diverged(self.directory, "weights are not finite", f"{name} at update {self.progress.step}")

    def save(self) -> None:
        """See `Trainer.save`; all processes write."""
        self._check_finite()
        progress, world = self.progress, self.world
        values = {"progress": asdict(progress), "seed": self.settings.seed}
        state = state_of(self.learner, self.optimizer, self.average)
        parts = {"world": world, "aliases": self._aliases}
        written: list[Path] = []

        def write() -> None:
            written.append(save_in_parts(self.checkpoints, progress.step, state, values, self.config_hash, **parts))

        if not self._failures.write("checkpoint", write):
            return
        self.saved = progress.step
        if world.is_first:
            prune(self.checkpoints, self.settings.keep_last, protect=[progress.best_step])
        if world.share(not (self.directory / WEIGHTS).exists()):
            with self.judge.evaluated():
                self.attempts.write("weights", lambda: self.learner.save(self.directory))
        if self.log.watch is not None:
            self.log.watch.tell(Saved(progress.step, written[-1]))
