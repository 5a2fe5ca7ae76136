"""Small parts that more than one founding system needs."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ModelError
from dragoman.nn import Decoder, DecoderLayer, Encoder, EncoderLayer, TokenEmbedding

Make = Callable[[], nn.Module]


def stacks(
    sizes: tuple[int, int],
    attention: Make,
    feed_forward: Make,
    residual: Make,
    ends: tuple[nn.Module | None, nn.Module | None] = (None, None),
) -> tuple[Encoder, Decoder]:
    """Encoder and decoder of so many layers, each of fresh parts, and what ends them."""
    encoder = [EncoderLayer(attention(), feed_forward(), residual) for _ in range(sizes[0])]
    decoder = [DecoderLayer(attention(), feed_forward(), residual, attention()) for _ in range(sizes[1])]
    return Encoder(encoder, ends[0]), Decoder(decoder, ends[1])


def filled_weights(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "..."] | None = None, *, fill: float
) -> Float[Tensor, "*rows q_len k_len"]:
    """Softmax over the keys after masked scores are set to `fill`: a row that may see no key weighs all keys alike."""
    return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1)


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
