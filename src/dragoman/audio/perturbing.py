"""Recordings as training hears them: a little different in each epoch.

Speed by 5 % (Ko et al. 2015: 0.9 to 1.1), silence around it, loudness, a room that echoes, and noise. All of it is
counter-based: a pure function of the seed, the epoch and the recording's number.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from dragoman.audio.resampling import resample
from dragoman.audio.waveform import Waveform
from dragoman.config.audio import AudioConfig

SPEEDS = (95, 100, 105)
# Of `everything`: how often, and between which bounds.
SILENCE_SHARE, LONGEST_SILENCE = 0.5, 0.5  # seconds on either side
GAIN = (-9.0, 3.0)  # dB
ROOM_SHARE, DECAY = 0.3, (0.1, 0.4)  # seconds until an echo is 60 dB down
NOISE_SHARE, RATIO = 0.5, (8.0, 40.0)  # dB of the sound over the noise
COLOURS = (0.0, 1.0)  # exponent of 1/f: white to pink


def perturbed(sound: Waveform, settings: AudioConfig, *, seed: int, epoch: int, index: int) -> Waveform:
    """Return a sound as an epoch hears it.

    Args:
        sound: as it was recorded.
        settings: `perturb` says what is done: nothing, speed, or everything.
        seed: of the run.
        epoch: of the data.
        index: number of the recording in the corpus.
    """
    if settings.perturb == "none" or not len(sound):
        return sound
    draw = np.random.default_rng([seed, epoch, index, 0x50D])
    samples = change_speed(sound.samples, SPEEDS[draw.integers(len(SPEEDS))])
    if settings.perturb == "everything":
        samples = as_recorded(samples, sound.sample_rate, draw)
    return Waveform(samples.clamp(-1, 1), sound.sample_rate)


def as_recorded(
    samples: Float[Tensor, " time"], sample_rate: int, draw: np.random.Generator
) -> Float[Tensor, " longer"]:
    """Return samples as somebody may have recorded them: silence around them, an echo, noise, and how loud.

    Args:
        samples: of a sound.
        sample_rate: their rate in Hz.
        draw: where all of it comes from.
    """
    if draw.random() < SILENCE_SHARE:
        before, after = (round(draw.uniform(0, LONGEST_SILENCE) * sample_rate) for _ in range(2))
        samples = torch.nn.functional.pad(samples, (before, after))
    if draw.random() < ROOM_SHARE:
        samples = add_room(samples, sample_rate, draw.uniform(*DECAY), draw)
    if draw.random() < NOISE_SHARE:
        samples = add_noise(samples, draw.uniform(*RATIO), draw.uniform(*COLOURS), draw)
    return samples * 10 ** (draw.uniform(*GAIN) / 20)


def change_speed(samples: Float[Tensor, " time"], percent: int) -> Float[Tensor, " changed"]:
    """Return samples played so many percent as fast, pitch and all."""
    return resample(samples, percent, 100)


def add_noise(
    samples: Float[Tensor, " time"], decibels: float, colour: float, draw: np.random.Generator
) -> Float[Tensor, " time"]:
    """Return samples with noise so many decibels below them.

    Args:
        samples: of a sound; silence stays silence.
        decibels: of the sound's mean power over that of the noise.
        colour: the noise's power falls with frequency to this exponent: 0 is white, 1 pink.
        draw: where the noise comes from.
    """
    noise = coloured_noise(len(samples), colour, draw).to(samples)
    power = samples.square().mean().sqrt() * 10 ** (-decibels / 20)
    return samples + noise * power


def coloured_noise(count: int, colour: float, draw: np.random.Generator) -> Float32[Tensor, " time"]:
    """Return noise of mean power 1 that falls with frequency to an exponent."""
    noise = draw.standard_normal(count, dtype=np.float32)
    if colour and count > 2:
        size = _fast_size(count)
        spectrum = np.fft.rfft(noise, size)
        spectrum[1:] *= np.arange(1, len(spectrum), dtype=np.float32) ** (-colour / 2)
        spectrum[0] = 0
        noise = np.fft.irfft(spectrum, size)[:count].astype(np.float32)
    noise = torch.from_numpy(noise)
    return noise / noise.square().mean().sqrt().clamp(min=1e-12)


def add_room(
    samples: Float[Tensor, " time"], sample_rate: int, decay: float, draw: np.random.Generator
) -> Float[Tensor, " time"]:
    """Return samples as a room echoes them: noise that decays exponentially after the sound itself.

    Args:
        samples: of a sound.
        sample_rate: their rate in Hz.
        decay: seconds until an echo is 60 dB down.
        draw: where the room comes from.
    """
    count = max(1, round(decay * sample_rate))
    times = torch.arange(count) / sample_rate
    echoes = torch.from_numpy(draw.standard_normal(count, dtype=np.float32)) * 10 ** (-3 * times / decay)
    # The first milliseconds are the way to the nearest wall; all echoes together have half of the sound's power.
    echoes[: round(0.003 * sample_rate)] = 0
    echoes *= (0.5 / echoes.square().sum().clamp(min=1e-12)).sqrt()
    echoes[0] = 1
    size = _fast_size(len(samples) + count - 1)
    wet = np.fft.irfft(np.fft.rfft(samples.numpy(), size) * np.fft.rfft(echoes.numpy(), size), size)
    return torch.from_numpy(wet[: len(samples)]).to(samples)


def _fast_size(least: int) -> int:
    """The next length whose transform is fast: a power of two, or three quarters of one."""
    power = 1 << (least - 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= least else power
