"""Recordings as training hears them: a little different in each epoch."""

from __future__ import annotations

from dragoman.audio.waveform import Waveform
from dragoman.config.audio import AudioConfig


def perturbed(sound: Waveform, settings: AudioConfig, *, seed: int, epoch: int, index: int) -> Waveform:
    """Return a sound as an epoch hears it: a pure function of the settings, seed, epoch and the sound's index."""
    return sound
