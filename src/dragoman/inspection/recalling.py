"""What a datastore says at each step of a translation, and which known targets it has that from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.trace import Recalled, Voice
from dragoman.memory.remembering import Remembering, Told
from dragoman.nn import Transformer
from dragoman.sequences import SourceBatch, frame_target
from dragoman.text.tokenizer import Tokenizer

VOICES = 3
# Of a voice that is worth a line beside the loudest one.
_LEAST = 0.02


@torch.no_grad()
def recall(
    both: Remembering,
    sources: SourceBatch,
    logits: Float[Tensor, "steps vocab"],
    written: Sequence[int],
    tokenizer: Tokenizer,
) -> list[Recalled]:
    """What the datastore says at each step of an output, its `</s>` included.

    Args:
        both: a model and its datastore, with some weight.
        sources: the one that was translated.
        logits: of the model alone, at these steps.
        written: the output, unframed.
        tokenizer: of targets.
    """
    model = both.engine.model
    assert isinstance(model, Transformer)
    framed = frame_target(written)
    outputs = model.hidden(sources.ids, torch.tensor([framed[:-1]], device=sources.device))[0]
    told, tokens = both.ask(outputs), framed[1:]
    together = both.mixed(logits.to(outputs).log_softmax(-1), told).exp()[range(len(tokens)), tokens].tolist()
    weights = told.log_odds.sigmoid()[:, 0].tolist()
    return [
        Recalled(weight, value, tuple(_voices(told, row, both, tokenizer)))
        for row, (weight, value) in enumerate(zip(weights, together, strict=True))
    ]


def _voices(told: Told, row: int, both: Remembering, tokenizer: Tokenizer) -> list[Voice]:
    shares: dict[int, float] = {}
    nearest: dict[int, int] = {}
    keys = (part[row].tolist() for part in (told.tokens, told.places, told.shares))
    for token, place, share in zip(*keys, strict=True):
        shares[token] = shares.get(token, 0.0) + share
        nearest.setdefault(token, place)
    first, *others = sorted(shares, key=lambda token: -shares[token])[:VOICES]
    loudest = [first, *(token for token in others if shares[token] >= _LEAST)]
    return [
        Voice(piece, token, shares[token], tokenizer.decode(both.datastore.target(nearest[token])))
        for piece, token in zip(tokenizer.pieces(loudest), loudest, strict=True)
    ]
