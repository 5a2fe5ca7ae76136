"""A training in several processes: the first one leads; the others get everything from it, and write nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.distributed import ALONE, World
from dragoman.engines import choose_device
from dragoman.fast import keep_few_products
from dragoman.models import build_model
from dragoman.training.finished import Run
from dragoman.training.log import RunLog
from dragoman.training.progress import Progress
from dragoman.training.sharded import make_trainer
from dragoman.training.signals import StopSignals
from dragoman.training.trainer import Trainer


@dataclass(frozen=True)
class Start:
    """What the first process tells the others before the first update.

    Attributes:
        config: completed.
        data: directory of the prepared corpus, which all machines must see.
        config_hash: of the settings that resuming must share.
        checkpoint: to go on from, if any.
        planned: the `max_steps` it was made with.
        judges_base: whether the model to start from is validated first.
    """

    config: TrainConfig
    data: Path
    config_hash: str
    checkpoint: Path | None
    planned: int | None
    judges_base: bool


class Lead:
    """What the first process tells the others; alone it does nothing.

    Args:
        world: the processes.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._told = False

    def start(self, trainer: Trainer, checkpoint: Path | None, planned: int | None, *, judges_base: bool) -> None:
        """Have the others begin where a trainer stands, which must be ready for its first update."""
        data, shared = trainer.data.directory, trainer.config_hash
        self.world.share(Start(trainer.config, data, shared, checkpoint, planned, judges_base), patiently=True)
        self._told = True
        self.world.send_weights(trainer.model)
        self.world.send_weights(trainer.learner.module)

    def leave(self) -> None:
        """Let the others end, if they have not begun, and go on alone."""
        if not self._told and self.world.size > 1:
            with suppress(RuntimeError):  # they have gone already
                self.world.share(None, patiently=True)
        self._told = True
        self.world.close()
        self.world = ALONE


@contextmanager
def leading(world: World) -> Iterator[Lead]:
    """Give the first process what it tells the others with, and let them go in the end.

    Raises:
        RankError: another process has ended or does not answer.
    """
    lead = Lead(world)
    try:
        with world.watched():
            yield lead
    finally:
        lead.leave()


def follow(config: TrainConfig, world: World) -> Run:
    """Train along with the first process, which prepares, decides, tells and writes.

    Args:
        config: as given; what counts comes from the first process.
        world: the processes.

    Raises:
        RankError: another process has ended or does not answer.
    """
    directory = Path(config.out)
    with closing(world), world.watched(), StopSignals(quiet=True) as stop:
        start: Start | None = world.share(None, patiently=True)
        if start is None:  # there is nothing to train; why, the first process says
            return Run(directory, config, Progress())
        settings = start.config.training
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        keep_few_products()
        model = build_model(start.config.model).to(choose_device(settings.device))
        world.send_weights(model)
        log = RunLog(directory, quiet=True)  # not entered: it writes nowhere
        data = Prepared.open(start.data, verify=False)
        trainer = make_trainer(model, data, start.config, directory, log, start.config_hash, world)
        world.send_weights(trainer.learner.module)
        trainer.learner.moved()
        if start.checkpoint is not None:
            trainer.restore(start.checkpoint, start.planned)
        if start.judges_base:
            trainer.judge_base(stop)
        trainer.run(stop)
    return Run(directory, start.config, trainer.progress)
