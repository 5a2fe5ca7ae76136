"""What the head of a model that listens reads off frames, in searches and for times."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.nn import Transformer
from dragoman.search.ctc import JointModel, padded
from dragoman.search.protocol import NextTokenModel
from dragoman.sequences import SPECIALS, SourceBatch


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
