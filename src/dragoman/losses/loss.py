"""Label-smoothed cross-entropy, with the generator's product inside (paper section 5.4).

The loss and its gradients are computed some rows at a time, so that logits over the vocabulary exist for those rows
only. Everything is returned as sums with a count; whoever knows the global count divides, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Num, Shaped
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dragoman.fast.kernels import Kernels, load_kernels

# Devices that are not waited for where something is to be counted.
AT_HAND = {"cpu"}
ROWS = {"cpu": 512}
ROWS_ELSEWHERE = 8192


@dataclass(frozen=True)
class LossSums:
    """Sums over the real labels of a batch.

    Attributes:
        loss: label-smoothed cross-entropy in nats; differentiable.
        nll: negative log-likelihood in nats, without smoothing; still on the device.
        correct: labels that were the likeliest token; likewise.
        count: number of labels.
    """

    loss: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    correct: Num[Tensor, ""]
    count: int


def smoothed_cross_entropy(
    hidden: Float[Tensor, "*batch d_model"],
    generator: nn.Linear,
    labels: Int[Tensor, "*batch"],
    smoothing: float = 0.0,
    pad: int = 0,
    *,
    mask: Bool[Tensor, "*batch"] | None = None,
    count: int | None = None,
) -> LossSums:
    """Return the cross-entropy between the generator's softmax and the smoothed label, summed over real labels.

    The smoothed label has 1 - ε on the right token, and ε/V more on each of the V tokens (the convention of
    `torch.nn.CrossEntropyLoss`, Marian and Sockeye; tensor2tensor and fairseq spread ε over the others only).

    Args:
        hidden: the decoder's output.
        generator: projects it to logits.
        labels: the target, shifted left.
        smoothing: ε.
        pad: id of padding, which is no label; does not matter where there is a mask.
        mask: which labels are real.
        count: how many are, where that is known: then nobody waits for the device to count them.
    """
    real = labels != pad if mask is None else mask
    rows, wanted = pick(real, count, hidden, labels)
    loss, nll, correct = _CrossEntropy.apply(
        rows, generator.weight, generator.bias, wanted, smoothing, torch.is_grad_enabled()
    )
    return LossSums(loss, nll, correct, len(wanted))


def pick(
    real: Bool[Tensor, "*batch"], count: int | None, *tensors: Shaped[Tensor, "*batch ..."]
) -> list[Shaped[Tensor, "labels ..."]]:
    """Return the rows of tensors that belong to real labels.

    Args:
        real: which labels are.
        count: how many they are, for a device that would be waited for; None: it is asked.
        tensors: of all labels.
    """
    flat = real.flatten()
    asks = count is None or real.device.type in AT_HAND
    places = flat.nonzero() if asks else torch.nonzero_static(flat, size=count or 0)
    return [one.flatten(0, real.dim() - 1).index_select(0, places[:, 0]) for one in tensors]


class _CrossEntropy(torch.autograd.Function):
    """Gradients are taken along with the loss; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, wants: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Summed loss, likelihood and hits."""
        grads = [torch.zeros_like(part) if wants and part is not None else None for part in (hidden, weight, bias)]
        wide = torch.promote_types(hidden.dtype, torch.float32)
        loss = torch.zeros((), dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32).to(hidden.device)
        nll, correct = loss.clone(), torch.zeros((), dtype=torch.long, device=hidden.device)
        size = ROWS.get(hidden.device.type, ROWS_ELSEWHERE)
        room = hidden.new_empty(min(size, len(labels)), weight.shape[0], dtype=wide)
        kernels = kernels_for(room)
        for start in range(0, len(labels), size):
            part, wanted = hidden[start : start + size], labels[start : start + size, None]
            logits = logits_into(room[: len(part)], part, weight, bias)
            sums, slope = (_rows if kernels is None else kernels.cross_entropy)(logits, wanted, smoothing)
            loss, nll, correct = loss + sums[0], nll + sums[1], correct + sums[2]
            if wants:
                add_gradients(grads, part, weight, slope, start)
        ctx.save_for_backward(*[grad for grad in grads if grad is not None])
        ctx.mark_non_differentiable(nll, correct)
        return loss.to(wide), nll, correct

    @staticmethod
    @once_differentiable
    def backward(  # pyrefly: ignore[bad-override]
        ctx: Any, *grad_outputs: Any
    ) -> tuple[Tensor | None, ...]:
        grad_loss: Tensor = grad_outputs[0]
        hidden, weight, *bias = (grad * grad_loss.to(grad.dtype) for grad in ctx.saved_tensors)
        return hidden, weight, bias[0] if bias else None, None, None, None


def _product_type(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def kernels_for(room: Float[Tensor, "*some rows vocab"]) -> Kernels | None:
    """Return the compiled kernels, where they take logits such as `room` is for; else None."""
    return load_kernels() if room.device.type == "cpu" and room.dtype == torch.float32 else None


def logits_into(
    room: Float[Tensor, "rows vocab"],
    hidden: Float[Tensor, "rows d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None,
) -> Float[Tensor, "rows vocab"]:
    """Return the logits, written into `room`, which is used again: fresh memory costs a tenth of the product."""
    if _product_type(hidden) != room.dtype:
        return room.copy_(F.linear(hidden, weight, bias))
    torch.mm(hidden, weight.t(), out=room)
    return room if bias is None else room.add_(bias)


def _rows(logits: Tensor, wanted: Tensor, smoothing: float) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Loss, likelihood and hits of some rows; and the loss's derivative by the logits, in their place."""
    top, likeliest = logits.max(-1, keepdim=True)
    right, mean = logits.gather(1, wanted), logits.mean(-1, keepdim=True)
    total = logits.sub_(top).exp_().sum(-1, keepdim=True)
    slope = logits.div_(total).sub_(smoothing / logits.shape[1])
    slope.scatter_add_(1, wanted, slope.new_full(wanted.shape, smoothing - 1))
    log_norm = total.log() + top
    chosen, spread = log_norm - right, log_norm - mean
    loss = (1 - smoothing) * chosen.sum() + smoothing * spread.sum()
    return (loss, chosen.sum(), (likeliest == wanted).sum()), slope


def add_gradients(
    grads: Sequence[Float[Tensor, "..."] | None],
    part: Float[Tensor, "some d_model"],
    weight: Float[Tensor, "vocab d_model"],
    slope: Float[Tensor, "some vocab"],
    start: int,
) -> None:
    """Add to `grads` what the derivative by the logits gives hidden vectors (rows from `start`), weight and bias.

    Args:
        grads: of all rows, into which theirs are written; of the weight and of the bias, added to.
        part: the decoder's output in these rows.
        weight: the generator's.
        slope: the loss's derivative by the logits.
        start: number of the first row.
    """
    hidden, matrix, bias = grads
    assert hidden is not None
    assert matrix is not None
    slope = slope.to(_product_type(part))
    hidden[start : start + len(part)] = slope @ weight.to(slope.dtype)
    if slope.dtype == matrix.dtype:
        matrix.addmm_(slope.t(), part)
    else:
        matrix += slope.t() @ part.to(slope.dtype)
    if bias is not None:
        bias += slope.sum(0)
