"""How well a next-token model predicts held-out sequences: what each rung of the ladder is compared by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from dragoman.markov.framing import BOS, EOS, PAD
from dragoman.sequences import SourceBatch


@runtime_checkable
class Predictor(Protocol):
    """What is needed of a model: the next-token protocol (`dragoman.search.NextTokenModel`)."""

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        ...

    def start(self, sources: SourceBatch) -> Any:
        """Return the state before the first step."""
        ...

    def step(self, state: Any, tokens: Any) -> tuple[Any, Any]:
        """Return the log-probabilities of the next token, and the next state."""
        ...


@dataclass(frozen=True)
class Measure:
    """Sums over sequences; two of them add up to that of all.

    Attributes:
        log_probability: natural logarithm, of all tokens and the `</s>` of each sequence.
        correct: tokens that were the likeliest one.
        tokens: how many were predicted, each `</s>` counted.
    """

    log_probability: float = 0.0
    correct: int = 0
    tokens: int = 0

    def __add__(self, other: Measure) -> Measure:
        sums = self.log_probability + other.log_probability, self.correct + other.correct, self.tokens + other.tokens
        return Measure(*sums)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability: among how many equal choices a guess would do as well."""
        mean = -self.log_probability / self.tokens
        return math.exp(mean) if mean < 700.0 else math.inf

    @property
    def accuracy(self) -> float:
        """The part of the tokens that was the likeliest one."""
        return self.correct / self.tokens


@torch.no_grad()
def measure(model: Predictor, sequences: Sequence[Sequence[int]], batch: int = 64) -> Measure:
    """Predict every token of every sequence from those before it, and the `</s>` after the last.

    Args:
        model: any next-token model that needs no source.
        sequences: unframed ids.
        batch: sequences at a time; it changes nothing but the speed.
    """
    ordered = sorted(sequences, key=len)
    found = Measure()
    for first in range(0, len(ordered), batch):
        found += _measure_some(model, ordered[first : first + batch])
    return found


def _measure_some(model: Predictor, sequences: Sequence[Sequence[int]]) -> Measure:
    longest = max(len(ids) for ids in sequences)
    rows = [[BOS, *ids, EOS] + [PAD] * (longest - len(ids)) for ids in sequences]
    framed = torch.tensor(rows, device=model.device)
    state = model.start(SourceBatch.nothing(len(rows), model.device))
    found = Measure()
    for tokens, answers in zip(framed.T[:-1], framed.T[1:], strict=True):
        log_probs, state = model.step(state, tokens)
        real = answers != PAD
        given = log_probs.gather(1, answers[:, None])[:, 0][real].double().sum().item()
        correct = (log_probs.argmax(-1) == answers)[real].sum().item()
        found += Measure(given, int(correct), int(real.sum()))
    return found
