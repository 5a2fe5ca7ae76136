"""Residual connection and layer norm around a sub-layer (paper sections 3.1 and 5.4)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.nn.dropout import Dropout

NormFactory = Callable[[int], nn.Module]
SubLayer = Callable[[Tensor], Tensor]


class PostNorm(nn.Module):
    """norm(x + dropout(sublayer(x))): the paper's order.

    Args:
        d_model: width of the vectors.
        dropout: on the sub-layer's output, in training.
        norm: makes the norm for a width.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, norm: NormFactory = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch len d_model"], sublayer: SubLayer) -> Float[Tensor, "batch len d_model"]:
        """Add what the sub-layer says to what came in, then normalise."""
        return self.norm(x + self.dropout(sublayer(x)))


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))): trains without a long warm-up; a stack of these ends with one more norm.

    The order of tensor2tensor's later versions and of The Annotated Transformer. Arguments as in `PostNorm`.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, norm: NormFactory = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch len d_model"], sublayer: SubLayer) -> Float[Tensor, "batch len d_model"]:
        """Normalise what the sub-layer sees, then add what it says to what came in."""
        return x + self.dropout(sublayer(self.norm(x)))
