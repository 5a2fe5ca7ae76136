"""Word alignments from cross-attention."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.scoring import pad_rows
from dragoman.nn import AttentionRecord, MultiHeadAttention, Transformer
from dragoman.text.tokenizer import BOS, PAD


@torch.no_grad()
def cross_attention(
    model: Transformer, source: Int[Tensor, "batch src"], targets: Sequence[Sequence[int]], layer: int | None = None
) -> Float[Tensor, "batch tgt src"]:
    """Where each target token looked in the source, teacher-forced, averaged over the heads of one layer.

    Args:
        model: an encoder-decoder.
        source: framed ids, padded.
        targets: unframed ids, one list per row; `tgt` is the longest.
        layer: decoder layer, from 0; the last but one if None, which aligns best (Garg et al. 2019), or the only one.
    """
    layers = model.decoder.layers
    chosen = layers[max(0, len(layers) - 2) if layer is None else layer]
    attention = chosen.cross_attention
    assert isinstance(attention, MultiHeadAttention)
    seen: list[AttentionRecord] = []
    ours = threading.get_ident()

    def keep(record: AttentionRecord) -> None:
        if threading.get_ident() == ours:  # another thread may be running the same model
            seen.append(record)

    stop = attention.observe(keep)
    try:
        # The query that predicts token t is token t - 1: the decoder input without its last token.
        model.hidden(source, pad_rows([[BOS, *target[:-1]] for target in targets], source.device))
    finally:
        stop()
    return seen[0].weights.mean(dim=1)


def align(
    model: Transformer, source: Int[Tensor, "batch src"], targets: Sequence[Sequence[int]], layer: int | None = None
) -> list[list[tuple[int, int]]]:
    """For each target token the source token it looked at most, as (source, target) positions (Pharaoh's `i-j`).

    Positions count unframed tokens from 0; the source's `</s>` is never aligned to. Arguments as `cross_attention`.
    """
    weights = cross_attention(model, source, targets, layer)
    real = source != PAD
    real &= real.flip(1).cumsum(1).flip(1) > 1  # all but the last real token, which is `</s>`
    best = weights.masked_fill(~real[:, None, :], -1.0).argmax(-1).tolist()
    has_words = real.any(1).tolist()
    return [
        [(best[row][j], j) for j in range(len(target))] if has_words[row] else [] for row, target in enumerate(targets)
    ]
