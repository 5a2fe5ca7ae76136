"""Word alignments from cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.nn import AttentionRecord, MultiHeadAttention, Transformer
from dragoman.sequences import Source, SourceBatch, frame_target, length_mask, pad_rows

M = TypeVar("M", bound=nn.Module)


def words_of(pieces: Sequence[str]) -> list[int | None]:
    """Return the blank-separated word that each piece belongs to, counted from 0; None for a piece of blanks alone.

    Blanks show as U+2581 in pieces. Where no piece has one, as in a word vocabulary, each piece is a word.
    """
    if not any("\u2581" in piece for piece in pieces):
        return list(range(len(pieces)))
    found: list[int | None] = []
    word, inside = -1, False
    for piece in pieces:
        own = None
        for character in piece:
            if character in "\u2581 ":
                inside = False
                continue
            word, inside = word + (not inside), True
            own = word
        found.append(own)
    return found


def word_alignment(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return an alignment of pieces as one of blank-separated words: words are aligned if any of their pieces are.

    Args:
        source: the source's pieces.
        target: the output's pieces.
        pairs: (source, target) positions of pieces.
    """
    left, right = words_of(source), words_of(target)
    words = {(left[i], right[j]) for i, j in pairs}
    return sorted((i, j) for i, j in words if i is not None and j is not None)


@torch.no_grad()
def cross_attention(
    model: Transformer, sources: SourceBatch, targets: Sequence[Sequence[int]], layer: int | None = None
) -> Float[Tensor, "batch tgt src"]:
    """Return how each target token attends to the source, teacher-forced, averaged over the heads of one layer.

    Args:
        model: an encoder-decoder.
        sources: a batch on the model's device.
        targets: unframed ids, one list per row; `tgt` is the longest.
        layer: decoder layer, from 0; the last but one if None, which aligns best (Garg et al. 2019), or the only one.
    """
    numbers = range(len(model.decoder.layers))
    number = max(0, len(numbers) - 2) if layer is None else numbers[layer]
    # Observed is a double of the attention in a double of the model: other threads may be running the model itself.
    model = _with_a_double(model, ["decoder", "layers", str(number), "cross_attention"])
    attention = model.decoder.layers[number].cross_attention
    assert isinstance(attention, MultiHeadAttention)
    seen: list[AttentionRecord] = []
    attention.observe(seen.append)
    # The query that predicts token t is token t - 1: the decoder input without its last token.
    inputs = [frame_target(target)[: max(len(target), 1)] for target in targets]
    mask = length_mask([len(row) for row in inputs], device=sources.device)
    model.hidden(sources.ids, pad_rows(inputs, sources.device), sources.mask, mask)
    return seen[0].weights.mean(dim=1)


def _with_a_double(module: M, path: Sequence[str]) -> M:
    """The same module, weights not copied, with another object for each part on a path, the last one unobserved."""
    made, inner = copy(module), module.get_submodule(path[0])
    double = inner.unobserved() if isinstance(inner, MultiHeadAttention) else _with_a_double(inner, path[1:])
    made.__dict__["_modules"] = {**made._modules, path[0]: double}
    return made


def align(
    model: Transformer, sources: Sequence[Source], targets: Sequence[Sequence[int]], layer: int | None = None
) -> list[list[tuple[int, int]]]:
    """Return (source, target) positions: for each target token the source token it looked at most (Pharaoh's `i-j`).

    Positions count the source's own tokens from 0: its `</s>` and its fuzzy matches are never aligned to.

    Args:
        model: an encoder-decoder.
        sources: a batch.
        targets: unframed ids, one list for each.
        layer: as for `cross_attention`.
    """
    batch = SourceBatch.of(sources, next(model.parameters()).device)
    weights = cross_attention(model, batch, targets, layer)
    own = length_mask([len(source) for source in sources], batch.ids.shape[1], batch.device)
    best = weights.masked_fill(~own[:, None, :], -1.0).argmax(-1).tolist()
    return [
        [(best[row][place], place) for place in range(len(target))] if len(sources[row]) else []
        for row, target in enumerate(targets)
    ]
