"""Recordings as training hears them: a pure function of seed, epoch and number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.audio import Waveform
from dragoman.audio.perturbing import add_noise, add_room, as_recorded, change_speed, perturbed
from dragoman.config.audio import AudioConfig

SOUND = Waveform(0.5 * torch.sin(torch.arange(8000) / 7), 8000)


@pytest.mark.parametrize("perturb", ["speed", "everything"])
def test_only_seed_epoch_and_number_count(perturb: str) -> None:
    settings = AudioConfig.from_dict({"perturb": perturb})
    heard = [perturbed(SOUND, settings, seed=1, epoch=epoch, index=3).samples for epoch in range(12)]
    again = [perturbed(SOUND, settings, seed=1, epoch=epoch, index=3).samples for epoch in reversed(range(12))][::-1]
    assert all(torch.equal(one, other) for one, other in zip(heard, again, strict=True))
    if perturb == "speed":
        assert {len(one) for one in heard} == {7620, 8000, 8422}
    else:
        # Silence of at most half a second on either side.
        assert all(7620 <= len(one) <= 8422 + 8000 for one in heard)
    assert all(one.abs().max() <= 1 and one.isfinite().all() for one in heard)


def test_nothing_is_done_where_nothing_is_asked() -> None:
    assert perturbed(SOUND, AudioConfig(), seed=1, epoch=0, index=0) is SOUND
    silence = Waveform(torch.zeros(100), 8000)
    everything = AudioConfig.from_dict({"perturb": "everything"})
    for epoch in range(20):
        assert perturbed(silence, everything, seed=1, epoch=epoch, index=0).samples.abs().max() == 0
        assert len(perturbed(Waveform(torch.zeros(1), 8000), everything, seed=1, epoch=epoch, index=0)) >= 1


@pytest.mark.parametrize("decibels", [0.0, 10.0, 30.0])
@pytest.mark.parametrize("colour", [0.0, 1.0])
def test_noise_is_as_loud_as_asked_for(decibels: float, colour: float) -> None:
    noise = add_noise(SOUND.samples, decibels, colour, np.random.default_rng(1)) - SOUND.samples
    ratio = SOUND.samples.square().mean() / noise.square().mean()
    assert 10 * float(ratio.log10()) == pytest.approx(decibels, abs=0.05)


def test_a_room_echoes_after_the_sound() -> None:
    click = torch.zeros(4000)
    click[1000] = 1
    wet = add_room(click, 8000, 0.3, np.random.default_rng(1))
    assert wet[:1000].abs().max() < 1e-5
    assert float(wet[1000]) == pytest.approx(1, abs=1e-4)
    assert 0.2 < float(wet[1001:].square().sum()) < 0.6
    assert wet[1000 + 2400 :].abs().max() < 1e-3


def test_speed_changes_length() -> None:
    assert len(change_speed(SOUND.samples, 105)) == -(-8000 * 100 // 105)


def test_half_of_the_recordings_have_silence_around_them() -> None:
    lengths = [len(as_recorded(SOUND.samples, 8000, np.random.default_rng(number))) for number in range(200)]
    longer = [one - 8000 for one in lengths if one > 8000]
    assert 70 <= len(longer) <= 130
    assert min(lengths) == 8000
    assert max(longer) <= 8000
