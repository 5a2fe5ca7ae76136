"""Sounds at another rate: a polyphase filter, one windowed sinc for each phase."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

# Zero crossings of the sinc on each side, the Kaiser window over them, and the share of the smaller band that passes:
# measured on sines, what passes is right within 1e-3 and what must not pass is 60 dB down.
CROSSINGS, BETA, PASS = 32, 8.0, 0.94
# Rates that share no factor would ask for a filter per sample of a second; the ratio is then near enough within 1e-6.
MOST_PHASES = 1000
# Frames of the filter that are computed at once: bounds the memory, whatever the length.
BLOCK = 4096


def resample(samples: Float[Tensor, " time"], from_rate: int, to_rate: int) -> Float[Tensor, " resampled"]:
    """Return samples of one rate at another: ceil(time x to_rate / from_rate) of them.

    Frequencies above 94 % of the lower of both halves are filtered out. Beyond its ends the sound is silence.

    Args:
        samples: of one channel.
        from_rate: their rate in Hz.
        to_rate: the rate wanted, in Hz.
    """
    if from_rate == to_rate or not len(samples):
        return samples
    ratio = Fraction(to_rate, from_rate).limit_denominator(MOST_PHASES) or Fraction(1, MOST_PHASES)
    if ratio.numerator > MOST_PHASES:
        ratio = Fraction(round(ratio)) if ratio > 1 else 1 / (1 / ratio).limit_denominator(MOST_PHASES)
    filters, width = _filters(ratio.denominator, ratio.numerator)
    old = ratio.denominator
    size = -(-len(samples) * to_rate // from_rate)
    frames = -(-size // ratio.numerator)
    padded = F.pad(samples, (width, max(0, frames * old + width + old - len(samples))))
    kernel = filters.to(samples)
    blocks = []
    for first in range(0, frames, BLOCK):
        count = min(BLOCK, frames - first)
        part = padded[first * old : (first + count - 1) * old + kernel.shape[1]]
        # As a matrix product it takes a tenth of the time of a convolution.
        blocks.append((part.unfold(0, kernel.shape[1], old) @ kernel.T).reshape(-1))
    return torch.cat(blocks)[:size]


@functools.lru_cache(maxsize=8)
def _filters(old: int, new: int) -> tuple[Float[Tensor, "phases taps"], int]:
    """The filter of each of `new` outputs for `old` inputs, and how many inputs before the first it reads."""
    cutoff = PASS * min(old, new)  # in half cycles per `old` inputs
    width = math.ceil(CROSSINGS * old / cutoff)
    taps = torch.arange(-width, width + old, dtype=torch.float64) / old
    phases = torch.arange(new, dtype=torch.float64) / new
    at = (taps[None] - phases[:, None]) * cutoff
    inside = (1 - (at / CROSSINGS) ** 2).clamp(min=0)
    window = torch.special.i0(BETA * inside.sqrt()) / torch.special.i0(torch.tensor(BETA, dtype=torch.float64))
    filters = torch.sinc(at) * window * (inside > 0)
    # At rest nothing changes: each phase passes a constant as it is.
    return filters / filters.sum(1, keepdim=True), width
