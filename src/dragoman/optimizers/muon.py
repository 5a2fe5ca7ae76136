"""Muon: momentum made orthogonal before it moves a matrix (Jordan et al. 2024; the rate as in Liu et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.distributed.sharding import is_part, part_of, whole
from dragoman.models.low_rank import Pair
from dragoman.nn import FeedForward, MultiHeadAttention

# Jordan's polynomial: it takes singular values to between 0.7 and 1.2, small ones in few steps.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5
# The root mean square of Adam's steps is about this part of the rate; so one rate does for both (Liu et al., 2.2).
_LIKE_ADAM = 0.2
# Of a matrix, how many rows each of those stacked in it has.
Matrix = tuple[Tensor, tuple[int, ...]]


def orthogonal(matrix: Float[Tensor, "rows columns"], factors: torch.dtype) -> Float[Tensor, "rows columns"]:
    """Return the matrix with its singular values brought near 1 (0.7 to 1.2) by Newton-Schulz steps.

    Singular values below about a thousandth of the matrix's norm stay smaller; a matrix of zeros stays one.

    Args:
        matrix: any.
        factors: type that the products are computed in, float32 or bfloat16.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    x = (wide / wide.norm().clamp_min(1e-7)).to(factors)
    first, third, fifth = _COEFFICIENTS
    for _ in range(_STEPS):
        gram = x @ x.t()
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=third, alpha=fifth), x, beta=first)
    return (x if wide is matrix else x.t()).to(matrix.dtype)


def orthogonal_operations(rows: int, columns: int) -> float:
    """Return how many multiplications and additions `orthogonal` takes for a matrix of this shape."""
    short, long = sorted((rows, columns))
    return _STEPS * (4.0 * short**2 * long + 2.0 * short**3)


class Muon(torch.optim.Optimizer):
    """Orthogonal steps for the matrices inside the layers, another optimiser's for all else.

    A step is rate · 0.2 · √(longer side) · orthogonal(momentum), Nesterov's: about as long as Adam's at the same rate.

    Args:
        matrices: those inside the layers.
        rest: what moves the other parameters; this optimiser has its groups and its state too.
        momentum: how much of the last step's direction is kept.
        weight_decay: of the matrices, apart from the gradient (as in AdamW).
        rate_factor: what the rate is multiplied by for the matrices, their decay included.
        factors: type of the products, float32 or bfloat16.
    """

    def __init__(
        self,
        matrices: Sequence[Matrix],
        rest: torch.optim.Optimizer,
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        rate_factor: float = 1.0,
        factors: torch.dtype = torch.float32,
    ) -> None:
        groups = [{"params": [matrix], "rows": rows} for matrix, rows in matrices]
        super().__init__(groups, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})
        self._own, self._rest, self._factors, self._rate_factor = self.param_groups, rest, factors, rate_factor
        self.param_groups = [*self._own, *rest.param_groups]
        rest.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyrefly: ignore[bad-override]
        """Move all parameters that have gradients.

        Args:
            closure: computes the loss anew, which is returned; None leaves the gradients as they are.
        """
        loss = self._rest.step(closure)  # pyrefly: ignore[bad-argument-type]
        for group in self._own:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._move(matrix, matrix.grad, group)
        return loss

    def _move(self, matrix: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].lerp_(grad, 1 - group["momentum"])
        direction = whole(grad.lerp(momentum, group["momentum"]))
        rate = group["lr"] * self._rate_factor
        matrix.mul_(1 - rate * group["weight_decay"])
        steps = [
            (orthogonal(part, self._factors), rate * _LIKE_ADAM * math.sqrt(max(part.shape)))
            for part in direction.split(group["rows"])
        ]
        if is_part(matrix):  # each process moves its own rows
            matrix.sub_(part_of(torch.cat([step * length for step, length in steps]), matrix))
            return
        for rows, (step, length) in zip(matrix.split(group["rows"]), steps, strict=True):
            rows.sub_(step, alpha=length)


def matrices_of(model: nn.Module) -> list[Matrix]:
    """Return the matrices inside the layers: each projection of attention by itself, and the feed-forward ones; those
    of adapters likewise. What is not trained is none of them.
    """
    found: list[Matrix] = []
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            found += [(part.projection.weight, part.widths), (part.output.weight, (len(part.output.weight),))]
        elif isinstance(part, FeedForward):
            found += [(linear.weight, (len(linear.weight),)) for linear in (part.inner, part.outer)]
        elif isinstance(part, Pair):
            found += [(factor, (len(factor),)) for factor in (part.a, part.b)]
    return [one for one in found if one[0].requires_grad]
