"""R-Drop (Liang et al. 2021): each label is predicted twice, under different dropout, and the two are to agree.

As in `loss`, the generator's product is inside, and logits over the vocabulary exist for some rows at a time only.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.losses.loss import ROWS, ROWS_ELSEWHERE, LossSums, add_gradients, kernels_for, logits_into, pick


def agreeing_cross_entropy(
    first: Float[Tensor, "*batch d_model"],
    second: Float[Tensor, "*batch d_model"],
    generator: nn.Linear,
    labels: Int[Tensor, "*batch"],
    *,
    weight: float,
    smoothing: float = 0.0,
    pad: int = 0,
    mask: Bool[Tensor, "*batch"] | None = None,
    count: int | None = None,
) -> LossSums:
    """Return the mean of two smoothed cross-entropies and a quarter of `weight` times how far the predictions differ.

    They differ by KL(p, q) + KL(q, p). The paper minimises the sum of the two cross-entropies and half of `weight`
    times that: twice this, so `weight` is its alpha, and one label counts once.

    Args:
        first: the decoder's output.
        second: the same under other dropout.
        generator: projects both to logits.
        labels: the target, shifted left.
        weight: alpha.
        smoothing: of the labels.
        pad: id of padding, which is no label; does not matter where there is a mask.
        mask: which labels are real.
        count: how many are, as of `smoothed_cross_entropy`.

    Returns:
        Sums over the labels: `nll` is the mean of both passes, `correct` counts those of the first.
    """
    real = labels != pad if mask is None else mask
    one, other, wanted = pick(real, count, first, second, labels)
    loss, nll, correct = _AgreeingCrossEntropy.apply(
        one, other, generator.weight, generator.bias, wanted, smoothing, weight, torch.is_grad_enabled()
    )
    return LossSums(loss, nll, correct, len(wanted))


class _AgreeingCrossEntropy(torch.autograd.Function):
    """Gradients are taken along with the loss; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        weight: float,
        wants: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Summed loss, likelihood and hits."""
        parts = (first, second, matrix, bias)
        grads = [torch.zeros_like(part) if wants and part is not None else None for part in parts]
        wide = torch.promote_types(first.dtype, torch.float32)
        sums = torch.zeros(3, dtype=torch.float64 if first.device.type == "cpu" else wide, device=first.device)
        size = ROWS.get(first.device.type, ROWS_ELSEWHERE)
        rooms = first.new_empty(2, min(size, len(labels)), matrix.shape[0], dtype=wide)
        kernels = kernels_for(rooms)
        for start in range(0, len(labels), size):
            rows = slice(start, min(start + size, len(labels)))
            one, other = (
                logits_into(room[: rows.stop - start], hidden[rows], matrix, bias)
                for room, hidden in zip(rooms, (first, second), strict=True)
            )
            block = _block if kernels is None else kernels.agreement
            found, slopes = block((one, other), labels[rows, None], smoothing, weight)
            sums += torch.as_tensor(found, dtype=sums.dtype)
            if wants:
                for by_hidden, hidden, slope in zip(grads[:2], (first, second), slopes, strict=True):
                    add_gradients((by_hidden, *grads[2:]), hidden[rows], matrix, slope, start)
        ctx.save_for_backward(*[grad for grad in grads if grad is not None])
        loss, nll, correct = sums.unbind()
        ctx.mark_non_differentiable(nll, correct)
        return loss.to(wide), nll, correct

    @staticmethod
    @once_differentiable
    def backward(  # pyrefly: ignore[bad-override]
        ctx: Any, *grad_outputs: Any
    ) -> tuple[Tensor | None, ...]:
        grad_loss: Tensor = grad_outputs[0]
        first, second, matrix, *bias = (grad * grad_loss.to(grad.dtype) for grad in ctx.saved_tensors)
        return first, second, matrix, bias[0] if bias else None, None, None, None, None


def _block(
    logits: tuple[Tensor, Tensor], wanted: Tensor, smoothing: float, weight: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Loss, likelihood and hits of some rows [3], and the loss's derivatives by both logits."""
    log_p, log_q = (one.log_softmax(-1) for one in logits)
    p, q, log_ratio = log_p.exp(), log_q.exp(), log_p - log_q
    p_to_q, q_to_p = (p * log_ratio).sum(-1, keepdim=True), -(q * log_ratio).sum(-1, keepdim=True)
    chosen = -(log_p.gather(1, wanted) + log_q.gather(1, wanted)).sum() / 2
    spread = -(log_p.mean(-1) + log_q.mean(-1)).sum() / 2
    loss = (1 - smoothing) * chosen + smoothing * spread + weight / 4 * (p_to_q + q_to_p).sum()
    hits = (log_p.argmax(-1, keepdim=True) == wanted).sum()
    by_p = weight / 4 * (p * (log_ratio - p_to_q) + p - q) + _cross_entropy_slope(p, wanted, smoothing) / 2
    by_q = weight / 4 * (q * (-log_ratio - q_to_p) + q - p) + _cross_entropy_slope(q, wanted, smoothing) / 2
    return torch.stack([loss, chosen, hits]), (by_p, by_q)


def _cross_entropy_slope(probabilities: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    slope = probabilities - smoothing / probabilities.shape[1]
    return slope.scatter_add_(1, wanted, slope.new_full(wanted.shape, smoothing - 1))
