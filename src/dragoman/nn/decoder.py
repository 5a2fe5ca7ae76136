"""The decoder stack, with and without cross-attention (paper section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.nn.cache import DecoderCache, GrowingCache, LayerCache


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual connection.

    Args:
        self_attention: called as `self_attention(x, mask=mask, cache=cache)`.
        feed_forward: called as `feed_forward(x)`.
        residual: makes a fresh connection, called as `connection(x, sublayer)`.
        cross_attention: called as `cross_attention(x, memory, mask=mask, cache=cache)`; None in a decoder-only model.
    """

    def __init__(
        self,
        self_attention: nn.Module,
        feed_forward: nn.Module,
        residual: Callable[[], nn.Module],
        cross_attention: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.self_attention_residual, self.feed_forward_residual = residual(), residual()
        self.cross_attention = cross_attention
        self.cross_attention_residual = None if cross_attention is None else residual()

    def forward(
        self,
        x: Float[Tensor, "batch tgt d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        memory: Float[Tensor, "batch src d_model"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Look back over the target, look over the source, then transform each position."""
        own = None if cache is None else cache.own
        cross = None if cache is None else cache.cross
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, mask=mask, cache=own))
        if self.cross_attention is not None and self.cross_attention_residual is not None:
            attend = self.cross_attention
            x = self.cross_attention_residual(x, lambda y: attend(y, memory, mask=memory_mask, cache=cross))
        return self.feed_forward_residual(x, self.feed_forward)


class Decoder(nn.Module):
    """A stack of decoder layers; `norm`, if given, ends it (needed with `PreNorm`)."""

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.Identity() if norm is None else norm

    def forward(
        self,
        x: Float[Tensor, "batch tgt d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        memory: Float[Tensor, "batch src d_model"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Return one vector per target position, from which the generator predicts the next token.

        With a cache, `x` holds the newest positions only, and `memory` and `memory_mask` are those of the cache.
        """
        if cache is not None:
            memory_mask = cache.memory_mask
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, memory, memory_mask, None if cache is None else cache.layers[index])
        if cache is not None:
            cache.length += x.shape[1]
        return self.norm(x)

    def start_cache(
        self,
        memory: Float[Tensor, "batch src d_model"] | None = None,
        memory_mask: Bool[Tensor, "batch 1 1 src"] | None = None,
        rows: int | None = None,
    ) -> DecoderCache:
        """Return an empty cache, the memory's keys and values projected once; `rows` if there is no memory."""
        layers = []
        for layer in self.layers:
            attend: Any = layer.cross_attention
            cross = None if attend is None or memory is None else attend.project_memory(memory)
            layers.append(LayerCache(GrowingCache(), cross))
        return DecoderCache(layers, memory_mask, rows=rows if memory is None else len(memory))
