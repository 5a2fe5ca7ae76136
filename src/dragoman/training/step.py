"""One update's loss and gradients: independent of how the update is split.

An update is a list of micro-batches. Each one's summed loss is divided by the number of labels of the whole update,
so that accumulation, padding and the number of ranks do not change the gradient: with several ranks, each would run
its own micro-batches with the global count and the gradients would be summed (an all-reduce) afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.data import Batch
from dragoman.nn import Transformer
from dragoman.training.loss import LossSums, smoothed_cross_entropy


@dataclass
class Sums:
    """What is summed over micro-batches, updates and, some day, ranks."""

    loss: float = 0.0
    nll: float = 0.0
    correct: int = 0
    labels: int = 0
    source_tokens: int = 0
    updates: int = 0

    def add(self, other: Sums) -> None:
        """Add another part."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def batch_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    hidden: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> LossSums:
    """Teacher forcing: the decoder reads the target shifted right, the labels are the target shifted left.

    Args:
        model: an encoder-decoder.
        batch: framed source and target, on the model's device.
        smoothing: of the labels.
        hidden: stands for `model.hidden`, e.g. compiled.
    """
    decoded = (hidden or model.hidden)(batch.source, batch.target[:, :-1])
    return smoothed_cross_entropy(decoded, model.generator, batch.target[:, 1:], smoothing, model.pad)


def accumulate_gradients(
    model: Transformer,
    batches: Sequence[Batch],
    labels: int,
    *,
    smoothing: float = 0.0,
    before: Callable[[int], None] = lambda micro: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    hidden: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Sums:
    """Add the gradient of (summed loss / `labels`) to the model's gradients.

    Args:
        model: an encoder-decoder.
        batches: the micro-batches that this rank runs.
        labels: labels of the whole update, over all its micro-batches and ranks.
        smoothing: of the labels.
        before: called with the number of each micro-batch just before it runs (to seed its dropout).
        autocast: makes the context that chooses the precision.
        hidden: stands for `model.hidden`, e.g. compiled.
    """
    sums = Sums(updates=1)
    for micro, batch in enumerate(batches):
        before(micro)
        with autocast():
            part = batch_loss(model, batch, smoothing, hidden)
        torch.autograd.backward(part.loss / labels)
        sums.add(Sums(float(part.loss.detach()), part.nll, part.correct, part.count, batch.source_tokens))
    return sums
