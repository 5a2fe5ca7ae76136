"""Sounds at another rate."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def resample(samples: Float[Tensor, " time"], from_rate: int, to_rate: int) -> Float[Tensor, " resampled"]:
    """Return samples of one rate at another."""
    if from_rate == to_rate or not len(samples):
        return samples
    size = -(-len(samples) * to_rate // from_rate)
    return F.interpolate(samples[None, None], size=size, mode="linear")[0, 0]
