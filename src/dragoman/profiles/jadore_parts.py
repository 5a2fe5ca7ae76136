"""What only jadore801120/attention-is-all-you-need-pytorch is made of: part of the `jadore` profile."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.nn import (
    FeedForward,
    FixedCache,
    GrowingCache,
    InputEmbedding,
    MultiHeadAttention,
    Transformer,
    causal_mask,
    combine_masks,
    key_mask,
    padding_mask,
)
from dragoman.nn.attention import Weigh
from dragoman.profiles.parts import ScaledEmbedding

NOTHING = -1


class NormedEmbedding(InputEmbedding):
    """dropout(token + position), then a norm."""

    def __init__(self, tokens: ScaledEmbedding, positions: nn.Module, dropout: float, norm: nn.Module) -> None:
        super().__init__(tokens, positions, dropout)
        self.norm = norm

    def forward(self, ids: Int[Tensor, "batch len"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Return the vectors of the tokens, the first of which stands at position `start`."""
        return self.norm(super().forward(ids, start))


class Scale(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Multiply."""
        return x * self.factor


class QueryNormed(MultiHeadAttention):
    """Normalises what looks, but not what is looked at; arguments as in `MultiHeadAttention`, after the norm."""

    def __init__(
        self, norm: nn.Module, d_model: int, num_heads: int, d_k: int, d_v: int, dropout: float, weigh: Weigh
    ) -> None:
        super().__init__(d_model, num_heads, d_k=d_k, d_v=d_v, dropout=dropout, bias=False, weigh=weigh)
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch src d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: GrowingCache | FixedCache | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """As of `MultiHeadAttention`: in self-attention the keys and values are those of `x` as it comes."""
        if memory is None and not isinstance(cache, FixedCache):
            own = self.project_memory(x)
            cache = own if cache is None else FixedCache(*cache.append(own.key, own.value))
        return super().forward(self.norm(x), memory, mask, cache)


class NormedFeedForward(FeedForward):
    """Normalises what comes in."""

    def __init__(self, norm: nn.Module, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.norm = norm

    def forward(self, x: Float[Tensor, "batch len d_model"]) -> Float[Tensor, "batch len d_model"]:
        """As of `FeedForward`, of the normalised vectors."""
        return super().forward(self.norm(x))


class ScaledNorm(nn.LayerNorm):
    """A layer norm, multiplied by a constant."""

    def __init__(self, d_model: int, eps: float, factor: float) -> None:
        super().__init__(d_model, eps=eps)
        self.factor = factor

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Normalise, then multiply."""
        return super().forward(input) * self.factor


class TwoPads(Transformer):
    """Hides an id in the source and an id in the target (`NOTHING`: none); `pad` stays the one of labels."""

    hidden_ids: tuple[int, int]

    def encode(
        self, source: Int[Tensor, "batch src"], mask: Bool[Tensor, "batch src"] | None = None
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """As of `Transformer`; nothing is hidden, whatever the mask, from a model that hides nothing."""
        keys = _keys(source, mask, self.hidden_ids[0])
        return self.encoder(self.source_embedding(source), keys), keys

    def decoder_mask(
        self, target: Int[Tensor, "rows tgt"], mask: Bool[Tensor, "rows tgt"] | None = None
    ) -> Bool[Tensor, "..."] | None:
        """As of `Transformer`; of a model that hides nothing, the future alone is hidden."""
        future = causal_mask(target.shape[1], device=target.device)
        return combine_masks(_keys(target, mask, self.hidden_ids[1]), future)


def _keys(ids: Tensor, tokens: Tensor | None, hidden: int) -> Tensor:
    return padding_mask(ids, hidden) if tokens is None or hidden == NOTHING else key_mask(tokens)


def inner_norms(layer: Any) -> list[nn.Module]:
    """Return the norms inside the sub-layers of a layer."""
    parts = (layer.self_attention, getattr(layer, "cross_attention", None), layer.feed_forward)
    return [part.norm for part in parts if part is not None]
