"""Log-mel frames are Kaldi's, none depends on the sounds beside it, and what is hidden is a pure function."""

from __future__ import annotations

from pathlib import Path

import kaldi_native_fbank as kaldi
import numpy as np
import pytest
import torch

from dragoman.audio import FilterBank, FrontEnd, Waveform
from dragoman.audio.features import masked, normalised
from dragoman.config.audio import MASKS, AudioConfig
from dragoman.errors import ConfigError, DataError
from small_sounds import TONES, speak


def by_kaldi(sound: np.ndarray, rate: int, mels: int, low: float = 20.0, high: float = 0.0) -> np.ndarray:
    options = kaldi.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.samp_freq = rate
    options.mel_opts.num_bins = mels
    options.mel_opts.low_freq, options.mel_opts.high_freq = low, high
    computer = kaldi.OnlineFbank(options)
    computer.accept_waveform(rate, (sound * 32768).tolist())
    computer.input_finished()
    return np.array([computer.get_frame(place) for place in range(computer.num_frames_ready)])


def some_sounds(count: int, rate: int) -> list[np.ndarray]:
    """Noisy ones: beside a pure tone, what is left in the other bins is the rounding of the FFT, theirs and ours."""
    random = np.random.default_rng(rate)
    words = list(TONES)
    return [
        speak([words[draw] for draw in random.integers(0, 4, 3)], random, rate, noise=0.05).astype(np.float32)
        for _ in range(count)
    ]


@pytest.mark.parametrize(("rate", "mels"), [(8000, 40), (16000, 80), (8000, 23), (11025, 64)])
def test_frames_are_kaldis(rate: int, mels: int) -> None:
    filters = FilterBank(rate, mels)
    for sound in some_sounds(13, rate):
        expected, found = by_kaldi(sound, rate, mels), filters(torch.from_numpy(sound)).numpy()
        assert found.shape == expected.shape == (filters.count(len(sound)), mels)
        assert np.abs(found - expected).max() <= 1e-3


def test_edges_are_kaldis() -> None:
    [sound] = some_sounds(1, 8000)
    expected = by_kaldi(sound, 8000, 30, 100.0, 3000.0)
    assert np.abs(FilterBank(8000, 30, 100.0, 3000.0)(torch.from_numpy(sound)).numpy() - expected).max() <= 1e-3


@pytest.mark.parametrize("level", [0.0, 0.3, -1.0])
def test_silence_and_constants_are_finite(level: float) -> None:
    frames = FilterBank(8000, 40)(torch.full((4000,), level))
    assert torch.isfinite(frames).all()
    assert torch.equal(normalised(frames), torch.zeros_like(frames))


@pytest.mark.parametrize("samples", [0, 1, 199, 200, 279, 280])
def test_only_whole_frames_count(samples: int) -> None:
    filters = FilterBank(8000, 40)
    assert len(filters(torch.zeros(samples))) == filters.count(samples) == max(0, (samples - 200) // 80 + 1)


def test_sounds_together_are_sounds_alone() -> None:
    sounds = [
        torch.from_numpy(one).double()[:size]
        for one, size in zip(some_sounds(4, 8000), (9999, 700, 200, 10), strict=True)
    ]
    filters = FilterBank(8000, 40)
    for sound, frames in zip(sounds, filters.of(sounds), strict=True):
        assert torch.allclose(filters(sound), frames, rtol=0, atol=1e-12)


def test_the_precision_of_a_training_changes_no_frame() -> None:
    sound, bank = torch.from_numpy(some_sounds(1, 8000)[0]), FilterBank(8000, 40)
    plain = bank(sound)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(bank(sound), plain)


def test_each_bin_is_normalised_over_the_sound() -> None:
    frames = normalised(FilterBank(8000, 40)(torch.from_numpy(some_sounds(1, 8000)[0])).double())
    assert frames.mean(0).abs().max() < 1e-10
    assert (frames.square().mean(0) - 1).abs().max() < 1e-10


@pytest.mark.parametrize("policy", MASKS)
@pytest.mark.parametrize("length", [1, 2, 7, 400])
def test_never_is_everything_hidden(policy: str, length: int) -> None:
    frames = torch.ones(length, 40)
    for epoch in range(25):
        found = masked(frames, policy, seed=1, epoch=epoch, index=3)
        assert torch.equal(found, masked(frames, policy, seed=1, epoch=epoch, index=3))
        assert found.any()
        assert set(found.unique().tolist()) <= {0.0, 1.0}
        if policy in ("sm", "ss"):
            assert (found.sum(1) == 0).sum() <= 2 * int(0.2 * length)


def test_what_is_hidden_differs_by_epoch_and_sound() -> None:
    frames = torch.ones(200, 40)
    draws = [masked(frames, "ld", seed=s, epoch=e, index=i) for s, e, i in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))]
    assert all(not torch.equal(draws[0], other) for other in draws[1:])
    assert torch.equal(masked(frames, "none", seed=1, epoch=0, index=0), frames)


def test_front_end_is_chosen_saved_and_read(tmp_path: Path) -> None:
    front_end = FrontEnd.of(AudioConfig(), 44100)
    assert (front_end.sample_rate, front_end.n_mels, front_end.high_frequency) == (16000, 80, 8000.0)
    assert FrontEnd.of(AudioConfig(), 8000).n_mels == 40
    front_end.save(tmp_path)
    assert FrontEnd.load(tmp_path) == front_end
    path = tmp_path / "audio.json"
    path.write_text(path.read_text().replace("16000", "16001"))
    with pytest.raises(DataError, match="damaged"):
        FrontEnd.load(tmp_path)


def test_lengths_are_known_without_frames() -> None:
    front_end = FrontEnd.of(AudioConfig(), 8000)
    for samples in (1, 200, 1000, 4321):
        source = front_end.source(Waveform(torch.zeros(samples), 8000))
        assert front_end.positions_of_many(np.array([samples])).tolist() == [len(source)] == [source.width]
        assert len(source.cut(2)) == min(2, len(source))


def test_frequencies_beyond_half_the_rate_are_refused() -> None:
    with pytest.raises(ConfigError, match="half the sample rate"):
        AudioConfig(sample_rate=8000, high_frequency=5000.0)


def test_what_is_far_below_the_loudest_bin_counts_as_equally_soft(tmp_path: Path) -> None:
    [sound] = some_sounds(1, 8000)
    random, quiet = np.random.default_rng(1), 2000
    digital = torch.from_numpy(np.pad(sound, quiet))
    # The same with the softest noise of 16 bits where there was nothing.
    faint = digital + torch.from_numpy(random.normal(0, 1e-5, len(digital)).astype(np.float32)) * (digital == 0)
    hears = FrontEnd(8000, 40, 20.0, 4000.0, 80.0)
    hears.save(tmp_path)
    assert FrontEnd.load(tmp_path) == hears
    [frames] = hears.log_mels([Waveform(digital, 8000)])
    decibels = 10 / np.log(10) * frames
    assert float(decibels.max() - decibels.min()) == pytest.approx(80, abs=1e-3)
    both = hears.frames([Waveform(digital, 8000), Waveform(faint, 8000)])
    assert (both[0] - both[1]).abs().max() < 0.05
    without = FrontEnd(8000, 40, 20.0, 4000.0).frames([Waveform(digital, 8000), Waveform(faint, 8000)])
    assert (without[0] - without[1]).abs().max() > 0.5
