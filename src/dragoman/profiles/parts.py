"""Small parts that more than one founding system needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import Decoder, DecoderLayer, Encoder, EncoderLayer, TokenEmbedding

Make = Callable[[], nn.Module]


def check_choice(what: str, found: object, known: Collection[object]) -> None:
    """Refuse an option that a system does not have.

    Raises:
        ConfigError: `found` is not among the known.
    """
    if found not in known:
        raise ConfigError(f"there is no such {what}", expected=" or ".join(map(str, known)), found=found)


def check_heads(name: str, heads: int, *widths: int) -> None:
    """Refuse a number of heads that does not divide what they share.

    Raises:
        ConfigError: it does not; it says so under the system's own name for it.
    """
    if heads < 1 or any(width % heads for width in widths):
        expected = f"{name} divides {' and '.join(map(str, dict.fromkeys(widths)))}"
        raise ConfigError("the heads do not divide the width", expected=expected, found=heads)


def encoder(count: int, attention: Make, feed_forward: Make, residual: Make, end: nn.Module | None = None) -> Encoder:
    """Make so many layers, each of fresh parts, and what ends them."""
    return Encoder([EncoderLayer(attention(), feed_forward(), residual) for _ in range(count)], end)


def decoder(count: int, attention: Make, feed_forward: Make, residual: Make, end: nn.Module | None = None) -> Decoder:
    """Make so many layers, each of fresh parts, and what ends them."""
    return Decoder([DecoderLayer(attention(), feed_forward(), residual, attention()) for _ in range(count)], end)


def stacks(
    sizes: tuple[int, int],
    attention: Make,
    feed_forward: Make,
    residual: Make,
    ends: tuple[nn.Module | None, nn.Module | None] = (None, None),
) -> tuple[Encoder, Decoder]:
    """Make an encoder and a decoder of the same parts."""
    parts = attention, feed_forward, residual
    return encoder(sizes[0], *parts, ends[0]), decoder(sizes[1], *parts, ends[1])


def filled_weights(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "..."] | None = None, *, fill: float
) -> Float[Tensor, "*rows q_len k_len"]:
    """Return softmax weights after masked scores are set to `fill`: a row that sees no key weighs all alike."""
    return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1)


def filling(fill: float) -> Callable[..., Tensor]:
    """Return `filled_weights` of one `fill`, as attention wants it."""
    return partial(filled_weights, fill=fill)


def interleaved(angle: Float[Tensor, "length pairs"], d_model: int) -> Float[Tensor, "length {d_model}"]:
    """Return sine and cosine of each angle in columns side by side; an odd width ends with a sine."""
    table = angle.new_zeros(len(angle), d_model)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle[:, : d_model // 2].cos()
    return table


class StdNorm(nn.Module):
    """weight·(x - mean)/(std + eps) + bias: `eps` outside the root, the deviation by default unbiased."""

    unbiased = True

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """Normalise each vector."""
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.std(-1, correction=int(self.unbiased), keepdim=True) + self.eps) + self.bias


class ScaledEmbedding(TokenEmbedding):
    """A learned row per token, multiplied by a factor of its own."""

    def __init__(self, vocab: int, d_model: int, scale: float, pad: int | None = None) -> None:
        super().__init__(vocab, d_model, pad)
        self.scale = scale

    def forward(self, ids: Int[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        """Look the rows up and scale them."""
        return F.embedding(ids, self.weight, self.pad) * self.scale


class PositionTable(nn.Module):
    """Adds the rows of a given table, which is no parameter."""

    rows: Float[Tensor, "length d_model"]

    def __init__(self, rows: Float[Tensor, "length d_model"]) -> None:
        super().__init__()
        self.register_buffer("rows", rows.clone(), persistent=False)

    def forward(self, x: Float[Tensor, "batch len d_model"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Add rows `start`, `start + 1`, … to the vectors.

        Raises:
            ModelError: the sequence is longer than the table.
        """
        end = start + x.shape[1]
        if end > len(self.rows):
            raise ModelError(
                "a sequence is longer than the model's table of positions",
                expected=f"at most {len(self.rows)} tokens",
                found=f"{end} tokens",
                hint="split the text or limit the length of the output; or load without the table, asking for a longer",
            )
        return x + self.rows[start:end]
