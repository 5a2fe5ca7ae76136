"""The synthesiser: what it says can be heard, is not clipped, and is the same each time."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from dragoman.audio.segments import speech_segments
from dragoman.audio.speaking import Speaker, Voice, say, say_all
from dragoman.errors import ConfigError, DataError


def test_what_is_said_does_not_depend_on_what_was_said_before() -> None:
    voice = Voice("en-gb-scotland", "f2", 150, 60)
    with Speaker() as speaker:
        first = speaker.say("Show me my files please", voice)
        speaker.say("打开灯", Voice("cmn", "m3"))
        assert torch.equal(speaker.say("Show me my files please", voice).samples, first.samples)
    time.sleep(1.1)  # it must not go by the clock
    assert torch.equal(say("Show me my files please", voice).samples, first.samples)
    assert 1 < first.seconds < 4
    assert 0.05 < first.samples.abs().max() < 1
    assert len(speech_segments(first)) == 1


def test_voices_differ_and_many_come_in_order() -> None:
    texts = [("one", Voice()), ("one", Voice(variant="f1")), ("one", Voice(speed=300)), ("one two three", Voice())]
    once = list(say_all(texts, sample_rate=8000, workers=2))
    assert all(sound.sample_rate == 8000 for sound in once)
    assert not torch.equal(once[0].samples, once[1].samples)
    assert len(once[2]) < len(once[0]) < len(once[3])
    with Speaker() as speaker:
        for (text, voice), sound in zip(texts, once, strict=True):
            assert torch.equal(speaker.say(text, voice, sample_rate=8000).samples, sound.samples)


def test_what_cannot_be_said() -> None:
    with Speaker() as speaker:
        for text, voice in (("", Voice()), ("x" * 5001, Voice()), ("yes", Voice("no such language"))):
            with pytest.raises(DataError):
                speaker.say(text, voice)
        assert len(speaker.say("yes"))
    with pytest.raises(DataError):
        Voice(speed=10)


def test_without_the_package_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(ConfigError, match="pip install"):
        Speaker()
