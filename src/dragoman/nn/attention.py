"""Scaled dot-product and multi-head attention (paper section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn.cache import FixedCache, GrowingCache
from dragoman.nn.dropout import dropout as drop
from dragoman.nn.positions import AttentionPositions

PLAIN_KEYS = 64


def attention_scores(
    query: Float[Tensor, "*rows q_len d_k"],
    key: Float[Tensor, "*rows k_len d_k"],
    bias: Float[Tensor, "*rows q_len k_len"] | None = None,
) -> Float[Tensor, "*rows q_len k_len"]:
    """Return QKᵀ/√d_k: how well each query fits each key, at unit variance for such inputs (paper 3.2.1).

    A bias, if any, is added: what positions inside attention say of each pair.
    """
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    return scores if bias is None else scores + bias


def attention_weights(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "*_"] | None = None
) -> Float[Tensor, "*rows q_len k_len"]:
    """Return the softmax over the keys: each row sums to 1, masked weights are exactly 0.

    A row whose keys are all masked is all zeros (not NaN), in the forward and in the backward pass.
    """
    if mask is None:
        return scores.softmax(-1)
    # The lowest finite number instead of -inf keeps a fully masked row, and its gradient, finite.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1) * mask


def scaled_dot_product_attention(
    query: Float[Tensor, "batch heads q_len d_k"],
    key: Float[Tensor, "batch heads k_len d_k"],
    value: Float[Tensor, "batch heads k_len d_v"],
    mask: Bool[Tensor, "*_"] | None = None,
    dropout: float = 0.0,
    bias: Float[Tensor, "batch heads q_len k_len"] | None = None,
) -> Float[Tensor, "batch heads q_len d_v"]:
    """Return softmax(QKᵀ/√d_k) V (paper 3.2.1, equation 1).

    Runs PyTorch's fused kernel, except where gradients are needed on a CPU with dropout, a bias or at most 64 keys:
    there, the plain products. Forward and backward on two threads they take 0.75 to 0.90 of the kernel's time with
    dropout, and without it 0.82 at 18 positions, 1.0 to 1.2 at 72, 2.5 at 512 (`benchmarks/bench_attention.py`).
    Gradients of a bias the kernels of a CPU do not have.

    Args:
        query: what looks.
        key: what is looked at.
        value: what is brought back.
        mask: True where a query may attend to a key; broadcasts to `[batch, heads, q_len, k_len]`.
        dropout: probability of dropping each weight.
        bias: what is added to the scores before the softmax.
    """
    few = key.shape[-2] <= PLAIN_KEYS
    plain = query.device.type == "cpu" and torch.is_grad_enabled() and (few or dropout > 0 or bias is not None)
    if not plain:
        if bias is not None:  # the kernel takes either a mask or numbers to add
            mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    weights = attention_weights(attention_scores(query, key, bias), mask)
    return drop(weights, dropout) @ value


@dataclass(frozen=True)
class AttentionRecord:
    """Everything one call of an attention module computed, as given to its observers (paper figure 2).

    Queries and keys are rotated already where positions are rotary; scores hold what other kinds add.
    """

    query: Float[Tensor, "batch heads q_len d_k"]
    key: Float[Tensor, "batch heads k_len d_k"]
    value: Float[Tensor, "batch heads k_len d_v"]
    mask: Bool[Tensor, "..."] | None
    scores: Float[Tensor, "batch heads q_len k_len"]
    weights: Float[Tensor, "batch heads q_len k_len"]
    output: Float[Tensor, "batch q_len d_model"]


Observer = Callable[[AttentionRecord], None]
Weigh = Callable[[Tensor, Tensor | None], Tensor]


class MultiHeadAttention(nn.Module):
    """Attention in several subspaces at once: self, masked self and cross (paper 3.2.2 and 3.2.3).

    The projections of queries, keys and values are one packed matrix, rows in the order q, k, v and head by head
    within each; self-attention uses it in one product.

    Weights are not kept. Whoever wants them registers an observer; only then are they computed explicitly.

    Args:
        d_model: width of what comes in and goes out.
        num_heads: number of heads.
        d_k: width of queries and keys per head; d_model / num_heads if None.
        d_v: width of values per head; d_model / num_heads if None.
        dropout: probability of dropping each attention weight in training.
        bias: learned offsets on all four projections.
        weigh: makes weights of scores and a mask; any other than `attention_weights` does without the fused kernel.
        positions: what it does about positions, where none are added to the embedding; None is nothing, as in the
            paper. Not every kind can stand in cross-attention.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        weigh: Weigh = attention_weights,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        if d_model % num_heads and (d_k is None or d_v is None):
            raise ValueError(f"d_model {d_model} does not divide into {num_heads} heads: give d_k and d_v")
        self.d_model, self.num_heads, self.dropout, self.weigh = d_model, num_heads, dropout, weigh
        self.d_k = d_model // num_heads if d_k is None else d_k
        self.d_v = d_model // num_heads if d_v is None else d_v
        self.widths = (num_heads * self.d_k, num_heads * self.d_k, num_heads * self.d_v)
        self.projection = nn.Linear(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(num_heads * self.d_v, d_model, bias=bias)
        self.positions = positions
        self._observers: list[Observer] = []
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each of the four matrices Xavier-uniform on its own; biases are zero."""
        for matrix in (*self.projection.weight.split(self.widths), self.output.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.projection, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with an `AttentionRecord` after each forward pass; returns what ends it."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def unobserved(self) -> MultiHeadAttention:
        """Return an attention with the same weights that nobody observes, to be observed without the other's users."""
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__, _observers=[])
        return made

    def project_memory(self, memory: Float[Tensor, "batch src d_model"]) -> FixedCache:
        """Return keys and values of the encoder's output, to be used at every decoding step."""
        projected = self._project(memory, self.widths[0], sum(self.widths))
        key, value = (self._split_heads(part) for part in projected.split(self.widths[1:], dim=-1))
        return FixedCache(key if self.positions is None else self.positions.place(key, 0), value)

    def forward(
        self,
        x: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch src d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: GrowingCache | FixedCache | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """Attend from `x` to `x` itself, or to `memory` when it (or a `FixedCache` of it) is given.

        Args:
            x: one vector per query.
            memory: the encoder's output, for cross-attention.
            mask: True where a query may attend; broadcasts to `[batch, heads, q_len, k_len]`.
            cache: a `GrowingCache` of the earlier positions of `x`, which are then keys too; or the `FixedCache`
                of the memory.
        """
        if memory is None and not isinstance(cache, FixedCache):
            packed = self.projection(x)
            query, key, value = (self._split_heads(part) for part in packed.split(self.widths, dim=-1))
            if self.positions is not None:
                start = 0 if cache is None else cache.length
                query, key = (self.positions.place(one, start) for one in (query, key))
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            if self.positions is not None and not self.positions.across:
                raise ValueError(f"{type(self.positions).__name__} are for self-attention, but a memory was given")
            query = self._split_heads(self._project(x, 0, self.widths[0]))
            if not isinstance(cache, FixedCache):
                assert memory is not None
                cache = self.project_memory(memory)
            if self.positions is not None:
                query = self.positions.place(query, cache.length)
            cache.length += x.shape[1]
            key, value = cache.key, cache.value

        bias = None if self.positions is None else self.positions.bias(query, key.shape[-2])
        if self._observers or self.weigh is not attention_weights:
            return self._explicit(query, key, value, mask, bias)
        mixed = scaled_dot_product_attention(query, key, value, mask, self.dropout if self.training else 0.0, bias)
        return self.output(self._join_heads(mixed))

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        scores = attention_scores(query, key, bias)
        weights = self.weigh(scores, mask)
        mixed = drop(weights, self.dropout, self.training) @ value
        output = self.output(self._join_heads(mixed))
        for observer in tuple(self._observers):
            observer(AttentionRecord(query, key, value, mask, scores, weights, output))
        return output

    def _project(self, x: Tensor, first: int, last: int) -> Tensor:
        bias = self.projection.bias
        return F.linear(x, self.projection.weight[first:last], None if bias is None else bias[first:last])

    def _split_heads(self, x: Tensor) -> Tensor:
        # [batch, len, heads * d] -> [batch, heads, len, d]
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _join_heads(self, x: Tensor) -> Tensor:
        # [batch, heads, len, d_v] -> [batch, len, heads * d_v]
        return x.transpose(1, 2).flatten(2)
