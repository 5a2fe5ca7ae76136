"""The encoder stack (paper section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxtyping import Bool, Float
from torch import Tensor, nn


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection.

    Args:
        self_attention: called as `self_attention(x, mask=mask)`.
        feed_forward: called as `feed_forward(x)`.
        residual: makes a fresh connection, called as `connection(x, sublayer)`.
    """

    def __init__(self, self_attention: nn.Module, feed_forward: nn.Module, residual: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.self_attention_residual, self.feed_forward_residual = residual(), residual()

    def forward(
        self, x: Float[Tensor, "batch src d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch src d_model"]:
        """Mix positions, then transform each one."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, mask=mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of encoder layers; `norm`, if given, ends it (needed with `PreNorm`)."""

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.Identity() if norm is None else norm

    def forward(
        self, x: Float[Tensor, "batch src d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch src d_model"]:
        """Return the memory: one vector per source position."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
