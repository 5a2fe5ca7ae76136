"""Frames of sound as vectors, a quarter as many: not of the paper, but of Wang et al. 2020 (fairseq S2T).

Two convolutions of stride 2, each through a gated linear unit (Dauphin et al. 2017). What lies beyond the end of a
sound is set to zero before each of them, so a sound in a batch gives what it gives alone.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn.dropout import Dropout

KERNEL, STRIDE = 5, 2


def halved(lengths: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """Return how many outputs a convolution of stride 2 has for so many inputs: one for every second of them."""
    return (lengths + 1) // STRIDE


class Subsampling(nn.Module):
    """Two convolutions over time with kernel 5 and stride 2, each followed by a gated linear unit.

    Args:
        mels: numbers of a frame.
        channels: outputs of the first convolution; its unit gives half as many.
        d_model: numbers of a vector that comes out.
    """

    def __init__(self, mels: int, channels: int, d_model: int) -> None:
        super().__init__()
        if channels % 2:
            raise ValueError(f"a gated linear unit halves its inputs: channels must be even, not {channels}")
        sizes = ((mels, channels), (channels // 2, 2 * d_model))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, KERNEL, STRIDE, padding=KERNEL // 2) for before, after in sizes
        )

    def forward(
        self, frames: Float[Tensor, "batch frames mels"], mask: Bool[Tensor, "batch frames"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch src"]]:
        """Return vectors, one for four frames, and where there are some.

        Args:
            frames: of several sounds.
            mask: True where a sound has a frame; its frames come first.
        """
        x, lengths = frames.transpose(1, 2), mask.sum(1)
        for convolution in self.convolutions:
            x = x * _within(lengths, x.shape[2])[:, None]
            x, lengths = F.glu(convolution(x), dim=1), halved(lengths)
        there = _within(lengths, x.shape[2])
        return x.transpose(1, 2) * there[:, :, None], there


def _within(lengths: Int[Tensor, " batch"], width: int) -> Bool[Tensor, "batch {width}"]:
    return torch.arange(width, device=lengths.device) < lengths[:, None]


class FrameEmbedding(nn.Module):
    """Subsampled frames times √d_model, their positions, then dropout: what enters the first layer of an encoder.

    Args:
        subsampling: frames to vectors.
        d_model: their width.
        positions: called as `positions(x)`; None where positions are left to the attentions.
        dropout: on the sum, in training.
    """

    def __init__(
        self, subsampling: Subsampling, d_model: int, positions: nn.Module | None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.subsampling, self.positions = subsampling, positions
        self.scale = math.sqrt(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, frames: Float[Tensor, "batch frames mels"], mask: Bool[Tensor, "batch frames"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch src"]]:
        """Return the vectors of the frames, and where there are some; arguments as of `Subsampling`."""
        x, there = self.subsampling(frames, mask)
        x = x * self.scale
        return self.dropout(x if self.positions is None else self.positions(x)), there
