"""Connectionist temporal classification (Graves et al. 2006): targets read off frames, whatever their alignment.

As in `loss`, what is returned is a sum; whoever knows the global count of labels divides, once.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def ctc_loss(
    memory: Float[Tensor, "batch frames d_model"],
    there: Bool[Tensor, "batch frames"],
    head: nn.Linear,
    labels: Int[Tensor, "batch labels"],
    lengths: Int[Tensor, " batch"],
    blank: int,
) -> Float[Tensor, ""]:
    """Return the negative log-likelihood of targets in nats, summed over sequences.

    A target that has more tokens than there are frames (with one more for each that repeats the one before it) cannot
    be read off them: it counts nothing, and nothing is learned of it.

    Args:
        memory: the encoder's output.
        there: where it is of something; only ends are padding.
        head: projects it to logits.
        labels: the targets, padded.
        lengths: how many tokens each has.
        blank: id that says that there is no token.
    """
    wide = torch.promote_types(memory.dtype, torch.float32)
    log_probs = head(memory).to(wide).log_softmax(-1).transpose(0, 1)
    settings = {"blank": blank, "reduction": "sum", "zero_infinity": True}
    return F.ctc_loss(log_probs, labels, there.sum(1), lengths, **settings)


def frames_needed(tokens: np.ndarray) -> int:
    """Return how many frames a target's ids [tokens] need at least, to be read off them."""
    return len(tokens) + int((tokens[1:] == tokens[:-1]).sum())
