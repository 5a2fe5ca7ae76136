"""What a datastore adds at each step of a translation, and which known targets it has that from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.facts import Neighbour, Retrieval
from dragoman.memory.knn import KnnModel, Neighbours
from dragoman.nn import Transformer
from dragoman.sequences import SourceBatch, frame_target
from dragoman.text.tokenizer import Tokenizer

NEIGHBOURS = 3
# The share that is worth a line beside the largest one.
_LEAST = 0.02


@torch.no_grad()
def retrievals(
    knn: KnnModel,
    sources: SourceBatch,
    logits: Float[Tensor, "steps vocab"],
    written: Sequence[int],
    tokenizer: Tokenizer,
) -> list[Retrieval]:
    """Return what the datastore adds at each step of an output, its `</s>` included.

    Args:
        knn: a model and its datastore, with a weight above 0.
        sources: the one that was translated.
        logits: of the model alone, at these steps.
        written: the output, unframed.
        tokenizer: of targets.
    """
    model = knn.engine.model
    assert isinstance(model, Transformer)
    framed = frame_target(written)
    outputs = model.hidden(sources.ids, torch.tensor([framed[:-1]], device=sources.device))[0]
    near, tokens = knn.neighbours(outputs), framed[1:]
    together = knn.mixed(logits.to(outputs).log_softmax(-1), near).exp()[range(len(tokens)), tokens].tolist()
    weights = near.log_odds.sigmoid()[:, 0].tolist()
    return [
        Retrieval(weight, value, tuple(_pieces(near, row, knn, tokenizer)))
        for row, (weight, value) in enumerate(zip(weights, together, strict=True))
    ]


def _pieces(near: Neighbours, row: int, knn: KnnModel, tokenizer: Tokenizer) -> list[Neighbour]:
    shares: dict[int, float] = {}
    nearest: dict[int, int] = {}
    keys = (part[row].tolist() for part in (near.tokens, near.places, near.shares))
    for token, place, share in zip(*keys, strict=True):
        shares[token] = shares.get(token, 0.0) + share
        nearest.setdefault(token, place)
    first, *others = sorted(shares, key=lambda token: -shares[token])[:NEIGHBOURS]
    largest = [first, *(token for token in others if shares[token] >= _LEAST)]
    return [
        Neighbour(piece, token, shares[token], tokenizer.decode(knn.datastore.target(nearest[token])))
        for piece, token in zip(tokenizer.pieces(largest), largest, strict=True)
    ]
