"""Position-wise feed-forward network (paper section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn.dropout import Dropout


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂, the same at every position (paper equation 2).

    Args:
        d_model: width of what comes in and goes out.
        d_ff: inner width.
        dropout: on the inner activations, in training (not in the paper; in The Annotated Transformer).
        activation: the function between the two products.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, dropout: float = 0.0, activation: Callable[[Tensor], Tensor] = F.relu
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Xavier-uniform matrices; biases are zero."""
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """Widen to d_ff, activate, narrow to d_model."""
        return self.outer(self.dropout(self.activation(self.inner(x))))
