"""A waveform knows its length, and refuses a rate that no sound has."""

from __future__ import annotations

import pytest
import torch

from dragoman.audio import Waveform
from dragoman.errors import DataError


def test_length_in_seconds() -> None:
    sound = Waveform(torch.zeros(4000), 8000)
    assert len(sound) == 4000
    assert sound.seconds == 0.5


@pytest.mark.parametrize("rate", [0, -8000])
def test_impossible_rate(rate: int) -> None:
    with pytest.raises(DataError, match="sample rate"):
        Waveform(torch.zeros(1), rate)
