"""What a checkpoint keeps of a training besides plain values: weights, moments and their average, by file and name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.optimizers.optimizer import load_optimizer_state, optimizer_state
from dragoman.training.learned import Learner

State = Mapping[str, Mapping[str, Tensor]]


def state_of(learner: Learner, optimizer: torch.optim.Optimizer, average: ExponentialMovingAverage | None) -> State:
    """Return the state of a training."""
    state = {"model": learner.state(), "optimizer": optimizer_state(optimizer, learner.module)}
    return state if average is None else {**state, "average": average.state()}


def take_state(
    state: State, learner: Learner, optimizer: torch.optim.Optimizer, average: ExponentialMovingAverage | None
) -> None:
    """Put a `state_of` back."""
    learner.load(state["model"])
    load_optimizer_state(optimizer, learner.module, state["optimizer"])
    if average is not None:
        average.load(state["average"])
