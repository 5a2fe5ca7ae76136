"""Long recordings and streams, heard by somebody who counts the syllables."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragoman.audio import Waveform
from dragoman.studies.transcribing import transcribe, transcribe_stream

RATE = 8000


class Counter:
    """Writes a word for each half second, the last of which it is not sure of."""

    def __init__(self) -> None:
        self.calls = 0

    def translate(self, sounds: list[Waveform], prefixes: list[str] | None = None) -> list[Any]:
        self.calls += len(sounds)
        found = []
        for number, sound in enumerate(sounds):
            words = [f"w{at}" for at in range(int(sound.seconds / 0.5))]
            if self.calls % 2 and words:
                words[-1] = "hm"
            start = (prefixes[number] if prefixes else "").split()
            found.append(SimpleNamespace(text=" ".join(start + words[len(start) :])))
        return found


def noise(seconds: float, decibels: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(round(seconds * RATE), generator=generator) * 10 ** (decibels / 20)


def speech(seconds: float) -> torch.Tensor:
    time = torch.arange(round(seconds * RATE)) / RATE
    return 0.4 * torch.sin(2 * torch.pi * 300 * time) * torch.sin(torch.pi * 4 * time).abs()


def recording(*parts: torch.Tensor) -> Waveform:
    sound = torch.cat(parts)
    return Waveform((sound + noise(len(sound) / RATE + 1, -55)[: len(sound)]).clamp(-1, 1), RATE)


def blocks(sound: Waveform, seconds: float) -> Iterator[Waveform]:
    for part in sound.samples.split(round(seconds * RATE)):
        yield Waveform(part, RATE)


LONG = recording(torch.zeros(RATE), speech(3), torch.zeros(2 * RATE), speech(2), torch.zeros(RATE))


@pytest.mark.parametrize("decibels", [-200, -70, -50, -30, -10])
def test_nothing_is_written_where_nobody_speaks(decibels: float) -> None:
    counter, sound = Counter(), Waveform(noise(12, decibels).clamp(-1, 1), RATE)
    assert transcribe(counter, sound) == []  # type: ignore[arg-type]
    assert list(transcribe_stream(counter, blocks(sound, 0.3))) == []  # type: ignore[arg-type]
    assert counter.calls == 0


def test_each_utterance_has_its_times() -> None:
    found = transcribe(Counter(), LONG, longest=4.0)  # type: ignore[arg-type]
    assert [(round(one.start), round(one.end)) for one in found] == [(1, 4), (6, 8)]
    assert all(one.text for one in found)


@pytest.mark.parametrize("seconds", [0.1, 0.25, 1.0, 3.0, 20.0])
def test_stable_words_stay(seconds: float) -> None:
    heard = list(transcribe_stream(Counter(), blocks(LONG, seconds)))  # type: ignore[arg-type]
    final = [one for one in heard if one.final]
    assert [(round(one.start), round(one.end)) for one in final] == [(1, 4), (6, 8)]
    before = ""
    for one in heard:
        assert one.stable.startswith(before)
        before = "" if one.final else one.stable
    if seconds < 0.5:
        assert any(one.stable for one in heard if not one.final)


def test_speech_without_a_pause_is_cut() -> None:
    sound = recording(torch.zeros(RATE // 2), speech(20))
    final = [one for one in transcribe_stream(Counter(), blocks(sound, 0.5), longest=5.0) if one.final]  # type: ignore[arg-type]
    assert len(final) >= 3
    assert all(one.end - one.start <= 5.6 for one in final)
