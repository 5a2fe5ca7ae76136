"""Several models deciding together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.protocol import NextTokenModel, State
from dragoman.sequences import SourceBatch


@dataclass
class EnsembleState:
    """One state per model."""

    states: list[State]

    def reorder(self, indices: Int[Tensor, " rows"]) -> EnsembleState:
        """Reorder the rows of every model's state."""
        return EnsembleState([state.reorder(indices) for state in self.states])

    def join(self, other: EnsembleState) -> EnsembleState:
        """Append the rows of another state to every model's."""
        return EnsembleState([one.join(two) for one, two in zip(self.states, other.states, strict=True)])


class Ensemble:
    """A next-token model whose probabilities are the weighted mean of its members'.

    Args:
        models: members that share a vocabulary and read the same source ids.
        weights: one per member, positive; equal if None.
    """

    def __init__(self, models: Sequence[NextTokenModel], weights: Sequence[float] | None = None) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        weights = [1.0] * len(models) if weights is None else weights
        if len(weights) != len(models) or min(weights) <= 0:
            raise ValueError(f"an ensemble of {len(models)} needs as many positive weights, got {list(weights)}")
        self.models = list(models)
        self.log_weights = [math.log(weight / sum(weights)) for weight in weights]

    @property
    def device(self) -> torch.device:
        """Where ids are expected: the first member's device."""
        return self.models[0].device

    def start(self, sources: SourceBatch) -> EnsembleState:
        """Start every member."""
        return EnsembleState([model.start(sources) for model in self.models])

    def step(
        self, state: EnsembleState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], EnsembleState]:
        """Return the log of the mean probability, and every member's next state."""
        steps = [model.step(one, tokens) for model, one in zip(self.models, state.states, strict=True)]
        weighted = [values + weight for (values, _), weight in zip(steps, self.log_weights, strict=True)]
        return torch.stack(weighted).logsumexp(0), EnsembleState([next_state for _, next_state in steps])
