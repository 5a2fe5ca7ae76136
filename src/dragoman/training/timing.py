"""Minutes as updates: some updates of a model that is thrown away are timed, before training or as it goes on."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.fast import keep_memory
from dragoman.models import build_model
from dragoman.pace import duration
from dragoman.planning import TimePlan
from dragoman.runs.checkpoint import load_checkpoint
from dragoman.training.defaults import Choice, complete
from dragoman.training.log import RunLog
from dragoman.training.progress import Progress
from dragoman.training.trainer import Trainer

# Updates that are timed, at least and at most, and the share of the time that they may take beyond the least.
LEAST, MOST, SHARE = 2, 12, 0.03
# As much as that longer than timed is usual over a whole run: batches differ, and losses are told.
SLOWER = 1.03


def seconds_per_update(config: TrainConfig, data: Prepared, device: torch.device, directory: Path) -> float:
    """Return how long an update of a run takes, in seconds, by doing a few; nothing is kept or written.

    Args:
        config: completed.
        data: the prepared corpus.
        device: where it is trained.
        directory: the run.
    """
    log = RunLog(directory, quiet=True)  # not entered: it writes nowhere
    trainer = Trainer(build_model(config.model).to(device), data, config, directory, log, "")
    trainer.model.train()
    if device.type == "cpu":
        keep_memory()
    limit = SHARE * 60 * (config.training.max_minutes or 0.0)
    began, took = time.perf_counter(), []
    plan = trainer.plan(0)
    # From all over the epoch; the first update also prepares what later ones find.
    for place in range(1 + MOST):
        start = time.perf_counter()
        trainer.learn(plan[place * len(plan) // (1 + MOST)])
        if place:
            took.append(time.perf_counter() - start)
        if len(took) >= LEAST and time.perf_counter() - began > limit:
            break
    return SLOWER * sum(took) / len(took)


def fit_to_time(
    config: TrainConfig,
    completed: TrainConfig,
    choices: list[Choice],
    data: Prepared,
    device: torch.device,
    passed: float,
    newest: Path | None,
) -> tuple[TrainConfig, list[Choice]]:
    """Make updates of `training.max_minutes`, and choose again what depends on their number.

    Args:
        config: as it was given.
        completed: with nothing left open; its `max_steps` are the most.
        choices: that were made for it.
        data: the prepared corpus.
        device: where it is trained.
        passed: seconds of the time that have gone already.
        newest: the checkpoint to go on from, whose speed counts then.
    """
    minutes, most = completed.training.max_minutes, completed.training.max_steps
    assert minutes is not None
    assert most is not None
    if newest is not None:
        before = Progress.from_values(load_checkpoint(newest, ()).values["progress"])
        each = before.seconds / max(1, before.step)
        steps = TimePlan(60 * minutes - passed, most).updates(before.step, before.seconds, each)
    else:
        began = time.perf_counter()
        each = seconds_per_update(completed, data, device, Path(config.out))
        steps = TimePlan(60 * minutes - passed - (time.perf_counter() - began), most).updates(0, 0.0, each)
    if steps >= most:
        return completed, choices
    training = {**config.training.to_dict(), "max_steps": steps}
    completed, choices = complete(config.replace({"training": training}), data, device)
    why = f"what fits into {duration(60 * minutes)} at {each:.3g} seconds an update"
    return completed, [*choices, Choice("training.max_steps", steps, why)]
