"""Where somebody speaks, and where not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from dragoman.audio import Waveform
from dragoman.audio.segments import Segment, cut_at_silences, speech_segments

RATE = 8000


def noise(seconds: float, decibels: float, seed: int = 0) -> torch.Tensor:
    draw = np.random.default_rng(seed)
    return torch.from_numpy(draw.standard_normal(round(seconds * RATE), dtype=np.float32)) * 10 ** (decibels / 20)


def syllables(seconds: float) -> torch.Tensor:
    """Something as loud as speech that comes and goes four times a second."""
    time = torch.arange(round(seconds * RATE)) / RATE
    return 0.4 * torch.sin(2 * torch.pi * 300 * time) * torch.sin(torch.pi * 4 * time).abs()


def recording(*parts: torch.Tensor) -> Waveform:
    sound = torch.cat(parts)
    return Waveform((sound + noise(len(sound) / RATE, -50, 9)[: len(sound)]).clamp(-1, 1), RATE)


@pytest.mark.parametrize("decibels", [-200, -80, -60, -40, -20, -5])
@pytest.mark.parametrize("seconds", [0.2, 1.0, 10.0])
def test_nobody_speaks_in_silence_and_steady_noise(decibels: float, seconds: float) -> None:
    assert speech_segments(Waveform(noise(seconds, decibels).clamp(-1, 1), RATE)) == []


def test_speech_is_found_between_silences() -> None:
    sound = recording(torch.zeros(RATE), syllables(2), torch.zeros(2 * RATE), syllables(1), torch.zeros(RATE))
    first, second = speech_segments(sound)
    for found, wanted in ((first, Segment(1.0, 3.0)), (second, Segment(5.0, 6.0))):
        assert abs(found.start - wanted.start) < 0.3
        assert abs(found.end - wanted.end) < 0.3
    assert len(first.of(sound)) == round(first.end * RATE) - round(first.start * RATE)


def test_a_long_recording_is_cut_at_its_silences() -> None:
    sound = recording(*[part for _ in range(8) for part in (syllables(2), torch.zeros(RATE))])
    parts = cut_at_silences(sound, 7.0)
    assert len(parts) > 3
    assert all(part.end - part.start <= 7.0 for part in parts)
    assert all(one.end <= other.start for one, other in pairwise(parts))
    # No cut inside two seconds of syllables.
    assert all(part.end % 3 > 1.9 for part in parts)


def test_without_silences_it_is_cut_all_the_same() -> None:
    parts = cut_at_silences(recording(torch.zeros(RATE // 2), syllables(20)), 6.0)
    assert all(0 < part.end - part.start <= 6.0 for part in parts)
    assert parts[-1].end == pytest.approx(20.5)
    assert cut_at_silences(Waveform(torch.zeros(0), RATE)) == []
