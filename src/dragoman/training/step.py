"""One update's loss and gradients: independent of how the update is split.

An update is a list of micro-batches. Each one's summed loss is divided by the number of labels of the whole update,
so that accumulation, padding and the number of ranks do not change the gradient: with several ranks, each would run
its own micro-batches with the global count and the gradients would be summed (an all-reduce) afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch

from dragoman.config import TrainingConfig
from dragoman.data import Batch, TextBatch
from dragoman.fast.hidden import Hidden, module_hidden
from dragoman.losses.loss import LossSums, smoothed_cross_entropy
from dragoman.losses.r_drop import agreeing_cross_entropy
from dragoman.nn import CausalLM, MaskedLM, Transformer


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
    model: Transformer | CausalLM | MaskedLM,
    batch: Batch | TextBatch,
    smoothing: float,
    hidden: Hidden | None = None,
    *,
    r_drop: float = 0.0,
) -> LossSums:
    """Return the loss over all labels of a batch, each position predicted at once (teacher forcing).

    Args:
        model: of any family.
        batch: what such a model reads, and the labels, on its device.
        smoothing: of the labels.
        hidden: stands for `module_hidden`, e.g. compiled.
        r_drop: weight of the agreement between two passes; 0 is one pass.
    """
    hidden, labels, mask = hidden or partial(module_hidden, model), batch.labels, batch.label_mask
    if r_drop:
        passes = hidden(batch.repeat(2)).unflatten(0, (-1, 2, len(batch)))
        first, second = (one.flatten(0, 1) for one in passes.unbind(1))
        settings = {"weight": r_drop, "smoothing": smoothing}
        return agreeing_cross_entropy(first, second, model.generator, labels, mask=mask, **settings)
    return smoothed_cross_entropy(hidden(batch), model.generator, labels, smoothing, mask=mask)


def autocast(settings: TrainingConfig, device: torch.device) -> AbstractContextManager[object]:
    """Return a context with products in bfloat16 where it is set; weights and sums stay float32."""
    if settings.precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def accumulate_gradients(
    model: Transformer | CausalLM | MaskedLM,
    batches: Sequence[Batch | TextBatch],
    labels: int,
    *,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
    before: Callable[[int], None] = lambda micro: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    hidden: Hidden | None = None,
) -> Sums:
    """Add the gradient of (summed loss / `labels`) to the model's gradients.

    Args:
        model: of any family.
        batches: the micro-batches that this rank runs.
        labels: labels of the whole update, over all its micro-batches and ranks.
        smoothing: of the labels.
        r_drop: weight of the agreement between two passes; 0 is one pass.
        before: called with the number of each micro-batch just before it runs (to seed its dropout).
        autocast: makes the context that chooses the precision.
        hidden: stands for `module_hidden`, e.g. compiled.
    """
    sums = Sums(updates=1)
    for micro, batch in enumerate(batches):
        before(micro)
        with autocast():
            part = batch_loss(model, batch, smoothing, hidden, r_drop=r_drop)
        torch.autograd.backward(part.loss / labels)
        sums.add(Sums(float(part.loss.detach()), part.nll, part.correct, part.count, batch.source_tokens))
    return sums
