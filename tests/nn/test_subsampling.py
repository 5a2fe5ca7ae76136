"""Four frames become a vector, exactly as many as arithmetic says, whatever stands beside them in a batch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from dragoman.nn import FrameEmbedding, Subsampling
from dragoman.nn.subsampling import halved
from dragoman.sequences.source import positions_of


def by_hand(subsampling: Subsampling, frames: torch.Tensor) -> torch.Tensor:
    """One sound alone, frame by frame: zeros before and after it."""
    x = frames
    for convolution in subsampling.convolutions:
        rows = []
        for centre in range(0, len(x), 2):
            window = torch.stack(
                [x[i] if 0 <= i < len(x) else torch.zeros_like(x[0]) for i in range(centre - 2, centre + 3)]
            )
            both = torch.einsum("oik,ki->o", convolution.weight, window) + convolution.bias
            first, gate = both.chunk(2)
            rows.append(first * torch.sigmoid(gate))
        x = torch.stack(rows)
    return x


def test_lengths_are_exact() -> None:
    torch.manual_seed(0)
    subsampling = Subsampling(3, 4, 2)
    for length in range(1, 401):
        vectors, there = subsampling(torch.randn(1, length, 3), torch.ones(1, length, dtype=torch.bool))
        expected = ((length - 1) // 2 + 1 - 1) // 2 + 1
        assert vectors.shape[1] == there.sum() == positions_of(length) == expected
        assert int(halved(halved(torch.tensor(length)))) == expected


def test_it_is_two_gated_convolutions() -> None:
    torch.manual_seed(1)
    subsampling = Subsampling(5, 6, 4).double()
    for length in (1, 2, 3, 4, 5, 8, 13):
        frames = torch.randn(length, 5, dtype=torch.float64)
        found, _ = subsampling(frames[None], torch.ones(1, length, dtype=torch.bool))
        assert torch.allclose(found[0], by_hand(subsampling, frames), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beyond", [0.0, 7.5])
def test_a_sound_in_a_batch_is_a_sound_alone(beyond: float) -> None:
    torch.manual_seed(2)
    embedding = FrameEmbedding(Subsampling(5, 8, 6), 6, None, dropout=0.3).double().eval()
    lengths = [23, 1, 7, 22, 4]
    frames = torch.randn(5, 23, 5, dtype=torch.float64)
    mask = torch.arange(23) < torch.tensor(lengths)[:, None]
    frames = torch.where(mask[:, :, None], frames, beyond)
    together, there = embedding(frames, mask)
    for row, length in enumerate(lengths):
        alone, _ = embedding(frames[row : row + 1, :length], mask[row : row + 1, :length])
        assert torch.allclose(together[row, there[row]], alone[0], rtol=0, atol=1e-13)
        assert not together[row, ~there[row]].any()


def test_odd_channels_are_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        Subsampling(4, 5, 4)


def test_gradients_stay_within_the_sound() -> None:
    frames = torch.randn(1, 12, 3, requires_grad=True)
    mask = torch.arange(12)[None] < 5
    vectors, _ = Subsampling(3, 4, 2)(frames, mask)
    F.mse_loss(vectors, torch.ones_like(vectors)).backward()
    assert frames.grad is not None
    assert not frames.grad[0, 5:].any()
