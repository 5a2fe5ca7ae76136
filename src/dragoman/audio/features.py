"""Log-mel frames of a sound as Kaldi computes them, normalised, and partly hidden in training.

Kaldi's options of `compute-fbank-feats` but for dither, which is 0: samples at the scale of 16 bits, frames of 25 ms
every 10 ms that lie whole within the sound, their mean taken away, pre-emphasis of 0.97, Povey's window, an FFT of a
power of two, triangles that are even on the mel scale, and logarithms of energies of at least the float's epsilon.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.config.audio import FRAMES_A_SECOND, MASKS

WINDOW_SECONDS = 0.025
PRE_EMPHASIS, SCALE = 0.97, 32768.0
FLOOR = 2.0**-23  # of an energy: the epsilon of 32 bits
# Of a bin's variance, so that one that never changes stays finite.
VARIANCE_FLOOR = 1e-10
_STREAM = 54  # sets these draws apart from others of the same seed and epoch
_BINS = 80  # to which the widths of frequency masks refer
# Frames that are computed at once: what lies in the processor's cache takes a third of the time.
BLOCK = 256


class FilterBank:
    """Waveforms to log-mel frames.

    Args:
        sample_rate: of the sounds, in Hz.
        mels: bins of a frame.
        low: where the lowest begins, in Hz.
        high: where the highest ends, in Hz; half the rate if None.
    """

    def __init__(self, sample_rate: int, mels: int = 80, low: float = 20.0, high: float | None = None) -> None:
        self.sample_rate, self.mels = sample_rate, mels
        self.window = int(sample_rate * WINDOW_SECONDS)
        self.shift = sample_rate // FRAMES_A_SECOND
        self.size = 1 << (self.window - 1).bit_length()
        self.low, self.high = low, sample_rate / 2 if high is None else high

    def count(self, samples: int) -> int:
        """Return how many frames so many samples give: those that lie whole within them."""
        return 0 if samples < self.window else 1 + (samples - self.window) // self.shift

    def __call__(self, samples: Float[Tensor, " time"]) -> Float[Tensor, "frames mels"]:
        """Return the frames of samples in [-1, 1]."""
        return self.of([samples])[0]

    def of(self, sounds: Sequence[Float[Tensor, " _"]]) -> list[Float[Tensor, "_ mels"]]:
        """Return the frames of several sounds; none has any influence on another's, nor has autocast."""
        with torch.autocast("cpu", enabled=False):  # where sounds are
            return [torch.cat([self._log_mels(block) for block in self._cut(one).split(BLOCK)]) for one in sounds]

    def _cut(self, samples: Tensor) -> Tensor:
        """The samples of each frame."""
        if not self.count(len(samples)):
            return samples.new_empty(0, self.window)
        return samples.unfold(0, self.window, self.shift)

    def _log_mels(self, frames: Tensor) -> Tensor:
        if not len(frames):
            return frames.new_empty(0, self.mels)
        window, matrix = _povey(self.window), _triangles(self.size, self.sample_rate, self.mels, self.low, self.high)
        x = frames * SCALE
        # Exact sums: of a constant nothing is left.
        x = x - (x.sum(1, keepdim=True, dtype=torch.float64) / self.window).to(x)
        # The first sample stands for the one before it.
        x = x - PRE_EMPHASIS * torch.cat([x[:, :1], x[:, :-1]], 1)
        spectrum = torch.fft.rfft(x * window.to(x), n=self.size)
        power = spectrum.real.square() + spectrum.imag.square()
        return (power[:, : self.size // 2] @ matrix.to(x)).clamp(min=FLOOR).log()


@functools.cache
def _povey(size: int) -> Tensor:
    return torch.hann_window(size, periodic=False, dtype=torch.float64).pow(0.85)


@functools.lru_cache(maxsize=16)
def _triangles(size: int, sample_rate: int, mels: int, low: float, high: float) -> Tensor:
    """What of the power at each frequency belongs to each bin, float64 [size / 2, mels]."""
    frequencies = torch.arange(size // 2, dtype=torch.float64) * sample_rate / size
    mel = 1127.0 * torch.log1p(frequencies / 700.0)
    first, last = (1127.0 * math.log1p(edge / 700.0) for edge in (low, high))
    left = first + torch.arange(mels, dtype=torch.float64) * (last - first) / (mels + 1)
    step = (last - first) / (mels + 1)
    rise, fall = (mel[:, None] - left) / step, (left + 2 * step - mel[:, None]) / step
    return torch.minimum(rise, fall).clamp(min=0)


def normalised(frames: Float[Tensor, "frames mels"]) -> Float[Tensor, "frames mels"]:
    """Return frames with mean 0 and variance 1 in each bin over this sound (CMVN); constant bins become 0."""
    if not len(frames):
        return frames
    # The mean is exact enough that of a bin that never changes nothing is left.
    centred = frames - frames.mean(0, dtype=torch.float64).to(frames)
    return centred * centred.square().mean(0).clamp(min=VARIANCE_FLOOR).rsqrt()


def masked(
    frames: Float[Tensor, "frames mels"], policy: str, *, seed: int, epoch: int, index: int
) -> Float[Tensor, "frames mels"]:
    """Return normalised frames with bands and stretches set to 0, their mean (SpecAugment, Park et al. 2019).

    What is hidden is a pure function of policy, lengths, seed, epoch and index. At least one frame, and in it one bin,
    is never hidden.

    Args:
        frames: of one sound.
        policy: a name of `config.audio.MASKS`.
        seed: of the run.
        epoch: from 0.
        index: of the sound among those that are trained on.
    """
    bands, width, stretches, longest, share = MASKS[policy]
    length, mels = frames.shape
    if not (bands or stretches) or not length:
        return frames
    draw = np.random.default_rng([seed, epoch, index, _STREAM])
    columns, rows = np.ones(mels, dtype=bool), np.ones(length, dtype=bool)
    for hidden, count, most in (
        (columns, bands, width * mels // _BINS),
        (rows, stretches, min(longest, int(share * length))),
    ):
        for _ in range(count):
            size = int(draw.integers(0, min(most, len(hidden) - 1) + 1))
            start = int(draw.integers(0, len(hidden) - size + 1))
            hidden[start : start + size] = False
        if not hidden.any():
            hidden[int(draw.integers(len(hidden)))] = True
    keep = torch.from_numpy(rows)[:, None] & torch.from_numpy(columns)
    return torch.where(keep.to(frames.device), frames, torch.zeros((), dtype=frames.dtype, device=frames.device))
