"""Tokens and positions as vectors, and vectors back to tokens (paper sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn.dropout import Dropout


class TokenEmbedding(nn.Module):
    """A learned row per token, multiplied by √d_model (paper 3.4).

    Args:
        vocab: rows of the table.
        d_model: width of a row.
        pad: id of the padding token, whose row stays zero unless it is shared with the generator.
    """

    def __init__(self, vocab: int, d_model: int, pad: int | None = None) -> None:
        super().__init__()
        self.vocab, self.d_model, self.pad = vocab, d_model, pad
        self.weight = nn.Parameter(torch.empty(vocab, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights with deviation 1/√d_model, so that a scaled row has unit variance; the padding row is zero."""
        if self.weight.is_meta:
            return  # there is nothing to fill, and PyTorch would load its compiler (seconds) to not fill it
        nn.init.normal_(self.weight, std=self.d_model**-0.5)
        if self.pad is not None:
            with torch.no_grad():
                self.weight[self.pad].zero_()

    def forward(self, ids: Int[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        """Look the rows up and scale them."""
        return F.embedding(ids, self.weight, self.pad) * math.sqrt(self.d_model)


LAYOUTS = ("interleaved", "concatenated", "marian", "fairseq")


def sinusoids(
    length: int, d_model: int, *, layout: str = "interleaved", first: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """Return sine and cosine of each position at d_model/2 wavelengths from 2π to 10000·2π, in float64 (paper 3.5).

    Args:
        length: number of positions.
        d_model: number of columns.
        layout: `interleaved`, columns sin, cos, sin, cos … (the paper); or `concatenated`, all sines, then all
            cosines (MarianMT). An odd width has one sine more than cosines. `marian` and `fairseq` are concatenated
            too, with the wavelengths of tensor2tensor (the longest is reached) and angles in float32, as Marian and
            fairseq compute them; fairseq counts from 2. Their width is even and at least 4.
        first: the first position.
        device: where to build it.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout is one of {', '.join(LAYOUTS)}, got {layout!r}")
    if layout in ("marian", "fairseq"):
        return _tensor2tensor(length, d_model, layout, first).to(device)
    position = torch.arange(first, first + length, dtype=torch.float64, device="cpu")[:, None]
    pair = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angle = position / 10000.0 ** (pair / d_model)
    sine, cosine = angle.sin(), angle.cos()[:, : d_model // 2]
    if layout == "concatenated":
        table = torch.cat([sine, cosine], dim=1)
    else:
        table = torch.empty(length, d_model, dtype=torch.float64, device="cpu")
        table[:, 0::2], table[:, 1::2] = sine, cosine
    return table.to(device)


def _tensor2tensor(length: int, d_model: int, layout: str, first: int) -> Float[Tensor, "{length} {d_model}"]:
    """Sines, then cosines, each function rounded once from float64, as the C library does in float32."""
    half = d_model // 2
    if d_model % 2 or half < 2:
        raise ValueError(f"positions of {layout} need an even width of 4 or more, got {d_model}")
    # Each divides in its own precision.
    step = torch.tensor(math.log(10000.0) / (half - 1), dtype=torch.float32)
    if layout == "marian":
        step = torch.tensor(math.log(10000.0), dtype=torch.float32) / (half - 1)
    rate = (torch.arange(half, dtype=torch.float32, device="cpu") * -step).double().exp().float()
    begin = first + (2 if layout == "fairseq" else 0)
    position = torch.arange(begin, begin + length, dtype=torch.float32, device="cpu")[:, None]
    angle = (position * rate).double()
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class SinusoidalPositions(nn.Module):
    """Adds the sinusoid of each position to its token's vector (paper 3.5).

    There is no longest length: the table is built in float64 on the CPU when first needed and again, larger, when a
    longer sequence comes. It has no weights and is not part of the model's state.
    """

    def __init__(self, d_model: int, *, layout: str = "interleaved") -> None:
        super().__init__()
        self.d_model, self.layout = d_model, layout
        self._table: Tensor | None = None

    def table(self, length: int, like: Shaped[Tensor, "..."]) -> Float[Tensor, "{length} d_model"]:
        """Return the first `length` rows, in the type and on the device of `like`."""
        table = self._table
        if table is None or len(table) < length or table.dtype != like.dtype or table.device != like.device:
            rows = max(64, 1 << (length - 1).bit_length())
            # float64 is unknown to some devices: convert first, move then.
            table = sinusoids(rows, self.d_model, layout=self.layout).to(like.dtype).to(like.device)
            self._table = table
        return table[:length]

    def forward(self, x: Float[Tensor, "batch len d_model"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Add rows `start`, `start + 1`, … to the vectors."""
        return x + self.table(start + x.shape[1], x)[start:]


class InputEmbedding(nn.Module):
    """Tokens + positions, then dropout: what enters the first layer (paper figure 1 and section 5.4).

    Args:
        tokens: ids to vectors.
        positions: called as `positions(x, start)`; None where positions are left to the attentions.
        dropout: on the sum, in training.
        word_dropout: how probably a token is left out in training: its vector is zero, those of the others are divided
            by 1 - `word_dropout` (Gal and Ghahramani 2016; Sennrich, Haddow and Birch 2016).
    """

    def __init__(
        self, tokens: TokenEmbedding, positions: nn.Module | None, dropout: float = 0.0, word_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.tokens, self.positions = tokens, positions
        self.dropout = Dropout(dropout)
        self.word_dropout = Dropout(word_dropout) if word_dropout else None

    def forward(self, ids: Int[Tensor, "batch len"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Return the vectors of the tokens, the first of which stands at position `start`."""
        x = self.token_vectors(ids)
        return self.dropout(x if self.positions is None else self.positions(x, start))

    def token_vectors(self, ids: Int[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        """Return the vectors of the tokens without their positions, some of them left out in training."""
        x = self.tokens(ids)
        return x if self.word_dropout is None else x * self.word_dropout(x.new_ones(*ids.shape, 1))


class Generator(nn.Linear):
    """The projection from d_model to one logit per entry of the vocabulary (paper 3.4).

    Args:
        d_model: width of what comes in.
        vocab: number of logits.
        bias: a learned offset per entry.
        tied: an embedding whose table is also this projection's matrix.
    """

    def __init__(self, d_model: int, vocab: int, *, bias: bool = False, tied: TokenEmbedding | None = None) -> None:
        super().__init__(d_model, vocab, bias=bias)
        nn.init.xavier_uniform_(self.weight)
        if bias:
            nn.init.zeros_(self.bias)
        if tied is not None:
            if tied.weight.shape != self.weight.shape:
                raise ValueError(
                    f"cannot tie a generator of shape {tuple(self.weight.shape)} "
                    f"to an embedding of shape {tuple(tied.weight.shape)}"
                )
            self.weight = tied.weight
