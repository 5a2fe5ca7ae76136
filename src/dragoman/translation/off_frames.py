"""What the head of a model that listens reads off frames, in searches and for times."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.nn import Transformer
from dragoman.search.ctc import JointModel, forced_alignment, padded
from dragoman.search.protocol import NextTokenModel
from dragoman.sequences import SPECIALS, Source, SourceBatch


@torch.no_grad()
def read_frames(model: Transformer, sources: SourceBatch) -> Float[Tensor, "batch frames vocab"]:
    """Return the log-probability of each token at each vector of the encoder, the blank certain where a sound is over.

    Args:
        model: has a head, in evaluation mode.
        sources: sounds.
    """
    assert model.ctc is not None
    memory, mask = model.encode(sources.ids, sources.mask)
    return padded(model.ctc(memory).double().log_softmax(-1), mask[:, 0, 0], model.pad)


def with_head(model: Transformer, engine: NextTokenModel, weight: float) -> NextTokenModel:
    """Return what runs a model that listens, mixed with what its own head reads off frames.

    Args:
        model: has a head.
        engine: runs its decoder.
        weight: of the head; 0 gives the engine itself.
    """
    if not weight:
        return engine

    def frames(sources: SourceBatch) -> Tensor:
        return read_frames(model, sources)

    return JointModel(engine, frames, weight=weight, blank=model.pad, bos=SPECIALS.bos, eos=SPECIALS.eos)


def token_spans(model: Transformer, source: Source, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return which vectors of the encoder say each token of an output: the first one, and the one after the last.

    Args:
        model: has a head, in evaluation mode.
        source: a sound.
        tokens: what is said, unframed.

    Returns:
        A pair for each token; none at all where the sound is too short to say them.
    """
    device = next(model.parameters()).device
    log_probs = read_frames(model, SourceBatch.of([source], device))[0].cpu()
    return forced_alignment(log_probs, torch.tensor(list(tokens), dtype=torch.long), blank=model.pad)
