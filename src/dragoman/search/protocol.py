"""The protocol between searches and models, and what every search shares.

A search knows no model and a model knows no search. Between them stands the *next-token model*: it starts a state for
a batch of sources, and from a state and the newest token of each row gives log-probabilities over the vocabulary.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.sequences import SourceBatch


@runtime_checkable
class State(Protocol):
    """What a model carries from step to step, one row per hypothesis."""

    def reorder(self, indices: Int[Tensor, " rows"]) -> State:
        """Keep the rows at `indices`, in that order; a row may be repeated or left out."""
        ...

    def join(self, other: Any) -> State:
        """Append the rows of another state of the same model, whose rows may be at other steps."""
        ...


@runtime_checkable
class NextTokenModel(Protocol):
    """What a search needs of a model: the Transformer families, ensembles and the Markov models all have it.

    A state is used once: after `step`, `reorder` or `join` the old one must not be used again.

    A model that finds the likeliest tokens cheaper than all log-probabilities may also have
    `step_top(state, tokens, count, banned) -> (values, best, state)`: `step`, but only the `count` likeliest tokens (or
    all there are) of each row, likeliest first, the banned ones at -inf. Searches use it where they can.
    """

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        ...

    def start(self, sources: SourceBatch) -> Any:
        """Return the state before the first step, one row per source."""
        ...

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Return the log-probabilities of the token after `tokens` (the first time `<s>`), and the next state."""
        ...


@runtime_checkable
class ParallelScorer(Protocol):
    """A next-token model that scores all positions of given outputs in one pass."""

    def token_log_probabilities(
        self, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Return the natural log-probability of each token of the framed target after its first."""
        ...


def largest(
    x: Float[Tensor, "rows columns"], count: int
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Return the `count` largest of each row (or all), largest first, of equal ones the first: values and columns."""
    count = min(count, x.shape[1])
    values, columns = x.topk(count, dim=1)
    # `topk` takes any of equal ones, and in any order: only where there are some, all are sorted.
    least = values[:, -1:]
    same = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > float("-inf"))
    if bool(same.any() or (((x >= least) & (least > float("-inf"))).sum(1) > count).any()):
        values, columns = (found[:, :count] for found in x.sort(dim=1, descending=True, stable=True))
    return values, columns


def likeliest(
    log_probs: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Return the `count` likeliest tokens of each row, or all there are, likeliest first: values and tokens."""
    if count == 1:
        return log_probs.max(-1, keepdim=True)  # of equal ones the first
    return largest(log_probs, count)
