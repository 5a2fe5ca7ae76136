"""Teacher forcing one step at a time, for engines whose steps are the only thing they run."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.module import ModuleEngine
from dragoman.sequences import SourceBatch


@runtime_checkable
class Steps(Protocol):
    """What is needed of an engine."""

    def start(self, sources: SourceBatch) -> Any:
        """Return the state before the first step."""
        ...

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Return the log-probabilities of the token after `tokens`, and the next state."""
        ...


def exact_log_probabilities(
    engine: ModuleEngine, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
) -> Float[Tensor, "batch labels"]:
    """Return the log-probability of each token of the framed target after its first.

    In float32 by the modules in one pass; in other precisions step by step, as the engine's own searches find it.
    """
    if engine.precision == "float32":
        return ModuleEngine.token_log_probabilities(engine, sources, target)
    return serial_log_probabilities(engine, sources, target)


def serial_log_probabilities(
    engine: Steps, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
) -> Float[Tensor, "batch labels"]:
    """Return the log-probability of each token of the framed target after its first, exactly as a search finds it."""
    state = engine.start(sources)
    columns = []
    for index in range(target.shape[1] - 1):
        log_probs, state = engine.step(state, target[:, index])
        columns.append(log_probs.gather(1, target[:, index + 1, None]))
    return torch.cat(columns, dim=1)
