"""Other rates: sines stay sines, what a rate cannot hold is gone."""

from __future__ import annotations

import math

import pytest
import torch

from dragoman.audio.resampling import resample


def sine(rate: int, hertz: float, seconds: float = 0.5) -> torch.Tensor:
    return torch.sin(2 * math.pi * hertz * torch.arange(round(rate * seconds), dtype=torch.float64) / rate)


@pytest.mark.parametrize(("old", "new"), [(8000, 16000), (44100, 16000), (22050, 8000), (48000, 16000), (100, 105)])
def test_a_sine_stays_the_same_sine(old: int, new: int) -> None:
    for share in (0.05, 0.3, 0.85):
        hertz = share * min(old, new) / 2
        out = resample(sine(old, hertz, 4000 / old), old, new)
        assert len(out) == -(-4000 * new // old)
        inner = slice(len(out) // 5, -len(out) // 5)
        torch.testing.assert_close(
            out[inner], sine(new, hertz, 2 * len(out) / new)[: len(out)][inner], atol=1e-3, rtol=0
        )


def test_what_the_new_rate_cannot_hold_is_gone() -> None:
    assert resample(sine(16000, 5000), 16000, 8000)[200:-200].abs().max() < 1e-3


@pytest.mark.parametrize("length", [0, 1, 2, 7, 4096, 10_001])
def test_every_length(length: int) -> None:
    for old, new in ((8000, 16000), (16000, 8000), (44100, 16000), (16000, 44100), (7, 5)):
        assert len(resample(torch.ones(length), old, new)) == -(-length * new // old)


def test_a_constant_stays_and_rates_without_a_common_factor_need_no_memory() -> None:
    assert torch.allclose(resample(torch.ones(9000), 44100, 16000)[100:-100], torch.ones(()), atol=1e-5)
    for old, new in ((44101, 16000), (1000, 767_999), (767_999, 1000)):
        assert len(resample(torch.ones(3000), old, new)) == -(-3000 * new // old)
