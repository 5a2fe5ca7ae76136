"""One update's loss and gradients: independent of how the update is split.

An update is a list of micro-batches. Each one's summed loss is divided by the number of labels of the whole update,
so that accumulation, padding and the number of ranks do not change the gradient: each rank runs its own micro-batches
with the global count, and the gradients are summed over ranks (`gradients`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig
from dragoman.data import Batch, TextBatch
from dragoman.fast.hidden import Hidden, module_hidden
from dragoman.losses.ctc import ctc_loss
from dragoman.losses.loss import LossSums, smoothed_cross_entropy
from dragoman.losses.r_drop import agreeing_cross_entropy
from dragoman.models.bidirectional import Memory
from dragoman.nn import CausalLM, MaskedLM, Transformer
from dragoman.sequences import Direction


@dataclass
class Sums:
    """What is summed over micro-batches, updates and ranks."""

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

    @classmethod
    def of(cls, values: Sequence[float], *, updates: int) -> Sums:
        """Return sums of these numbers, in the order of the fields, and so many updates."""
        loss, nll, *counts = values
        correct, labels, source_tokens = (round(value) for value in counts[:3])
        return cls(loss, nll, correct, labels, source_tokens, updates)


def batch_loss(
    model: Transformer | CausalLM | MaskedLM,
    batch: Batch | TextBatch,
    smoothing: float,
    hidden: Hidden | None = None,
    *,
    r_drop: float = 0.0,
    ctc: float = 0.0,
) -> LossSums:
    """Return the loss over all labels of a batch, each position predicted at once (teacher forcing).

    Args:
        model: of any family.
        batch: what such a model reads, and the labels, on its device.
        smoothing: of the labels.
        hidden: stands for `module_hidden`, e.g. compiled.
        r_drop: weight of the agreement between two passes; 0 is one pass.
        ctc: share of the loss that is of reading the target off the encoder's frames (of each pass); the rest is of
            the decoder. Of the sums, only the loss knows of it.
    """
    hidden, labels, mask = hidden or partial(module_hidden, model), batch.labels, batch.label_mask
    memories: list[Memory] | None = [] if ctc else None
    read, count = batch.repeat(2) if r_drop else batch, batch.target_tokens
    found = hidden(read) if memories is None else hidden(read, memories)
    if r_drop:
        passes = found.unflatten(0, (-1, 2, len(batch)))
        first, second = (one.flatten(0, 1) for one in passes.unbind(1))
        settings = {"weight": r_drop, "smoothing": smoothing}
        sums = agreeing_cross_entropy(first, second, model.generator, labels, mask=mask, count=count, **settings)
    else:
        sums = smoothed_cross_entropy(found, model.generator, labels, smoothing, mask=mask, count=count)
    if not memories:
        return sums
    off_frames = _ctc_loss(model, read, memories[0]) * (len(batch) / len(read))
    return replace(sums, loss=(1 - ctc) * sums.loss + ctc * off_frames)


def _ctc_loss(model: Transformer | CausalLM | MaskedLM, batch: Batch | TextBatch, memory: Memory) -> Tensor:
    assert isinstance(model, Transformer)
    assert isinstance(batch, Batch)
    assert model.ctc is not None
    target = next(one for one in batch.target.blocks() if one.directions == (Direction.LEFT_TO_RIGHT,))
    # What ends a target is no token that is heard.
    return ctc_loss(memory.vectors, memory.there, model.ctc, target.labels, target.label_mask.sum(1) - 1, model.pad)


def autocast(settings: TrainingConfig, device: torch.device) -> AbstractContextManager[object]:
    """Return a context with products in bfloat16 where it is set; weights and sums stay float32."""
    if settings.precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


class BatchLoss(nn.Module):
    """The loss of a micro-batch as a module, which is what PyTorch spreads over processes.

    Args:
        model: of any family.
        hidden: stands for `module_hidden`, e.g. compiled.
        ctc: as of `batch_loss`.
    """

    def __init__(
        self, model: Transformer | CausalLM | MaskedLM, hidden: Hidden | None = None, ctc: float = 0.0
    ) -> None:
        super().__init__()
        self.model, self._hidden, self._ctc = model, hidden, ctc

    def forward(self, batch: Batch | TextBatch, smoothing: float, r_drop: float) -> LossSums:
        """Return what `batch_loss` does."""
        return batch_loss(self.model, batch, smoothing, self._hidden, r_drop=r_drop, ctc=self._ctc)


def one_by_one(own: int, last: bool, forward: Callable[[], LossSums], backward: Callable[[LossSums], None]) -> LossSums:
    """Run a micro-batch: forward, then backward."""
    part = forward()
    backward(part)
    return part


def accumulate_gradients(
    learner: nn.Module,
    batches: Sequence[Batch | TextBatch],
    labels: int,
    *,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
    before: Callable[[int], None] = lambda micro: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    counted: int | None = None,
    attempt: Callable[..., LossSums | None] = one_by_one,
) -> Sums:
    """Add the gradient of (summed loss / `labels`) to the model's gradients.

    Args:
        learner: a `BatchLoss`, perhaps wrapped so that gradients are summed over ranks.
        batches: the micro-batches that this rank runs.
        labels: labels of the whole update, over all its micro-batches and ranks.
        smoothing: of the labels.
        r_drop: weight of the agreement between two passes; 0 is one pass.
        before: called with the number of each micro-batch just before it runs (to seed its dropout).
        autocast: makes the context that chooses the precision.
        counted: how many of the first micro-batches count, all by default; the others have a gradient of zero.
        attempt: runs a micro-batch (its number, whether it is the last, forward, backward); None if that failed.
    """
    found: list[tuple[LossSums, Batch | TextBatch]] = []
    for micro, batch in enumerate(batches):
        last = micro == len(batches) - 1
        weight = 1.0 if counted is None or micro < counted else 0.0

        def forward(micro: int = micro, batch: Batch | TextBatch = batch) -> LossSums:
            before(micro)
            with autocast():
                return learner(batch, smoothing, r_drop)

        def backward(part: LossSums, weight: float = weight) -> None:
            torch.autograd.backward(part.loss * (weight / labels) if weight != 1 else part.loss / labels)

        part = attempt(micro, last, forward, backward)
        if part is not None and weight:
            found.append((part, batch))
    sums = Sums(updates=1)
    for (part, batch), numbers in zip(found, _numbers([part for part, _ in found]), strict=True):
        loss, nll, correct = numbers
        sums.add(Sums(loss, nll, round(correct), part.count, batch.source_tokens))
    return sums


def _numbers(parts: Sequence[LossSums]) -> list[list[float]]:
    """Loss, likelihood and hits of micro-batches; the device is waited for once."""
    wide = torch.float32 if parts and parts[0].loss.device.type == "mps" else torch.float64
    told = [torch.stack([one.detach().to(wide) for one in (part.loss, part.nll, part.correct)]) for part in parts]
    return torch.stack(told).tolist() if told else []
