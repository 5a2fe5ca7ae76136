"""`dragoman transcribe --stream`: sound as it comes, in any form, and words that stay."""

from __future__ import annotations

import io
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.audio import Waveform, read_stream
from dragoman.cli import main
from dragoman.errors import ConfigError, DataError
from dragoman.studies.transcribing import transcribe_stream
from dragoman.translation import Translator
from small_sounds import RATE, saved_listener, speak


class Drips(io.RawIOBase):
    """A pipe into which little is written at a time."""

    def __init__(self, data: bytes, size: int = 333) -> None:
        self.data, self.size = data, size

    def readable(self) -> bool:
        return True

    def readinto(self, place: bytearray) -> int:  # type: ignore[override]
        part, self.data = self.data[: min(self.size, len(place))], self.data[min(self.size, len(place)) :]
        place[: len(part)] = part
        return len(part)


def wav(data: bytes, kind: int, bits: int, channels: int = 1, length: int | None = None, extra: bytes = b"") -> bytes:
    form = struct.pack("<HHIIHH", kind, channels, RATE, RATE * channels * bits // 8, channels * bits // 8, bits) + extra
    size = len(data) if length is None else length
    head = b"RIFF" + struct.pack("<I", 0xFFFFFFFF) + b"WAVE" + b"LIST\x03\0\0\0abc\0"
    return head + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data


def heard(data: bytes, rate: int | None = None) -> Waveform:
    blocks = list(read_stream(io.BufferedReader(Drips(data)), rate=rate))
    assert all(len(one) >= one.sample_rate // 10 for one in blocks[:-1])
    return Waveform(torch.cat([one.samples for one in blocks]), blocks[0].sample_rate)


SOUND = np.clip(speak(["mid", "top"], np.random.default_rng(0)), -1, 1)
EXTENDED = struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + b"\0" * 14


@pytest.mark.parametrize(
    ("data", "off"),
    [
        (wav((SOUND * 32767).astype("<i2").tobytes(), 1, 16), 1e-4),
        (wav((SOUND * 32767).astype("<i2").tobytes(), 1, 16, length=0x7FFFFFFF), 1e-4),
        (wav((SOUND * 32767).astype("<i2").tobytes(), 1, 16, length=0), 1e-4),
        (wav((SOUND * 32767).astype("<i2").tobytes(), 0xFFFE, 16, extra=EXTENDED), 1e-4),
        (wav((SOUND * (2**31 - 1)).astype("<i4").tobytes(), 1, 32), 1e-6),
        (wav((SOUND * 127 + 128).astype(np.uint8).tobytes(), 1, 8), 2e-2),
        (wav(SOUND.astype("<f4").tobytes(), 3, 32), 1e-6),
        (wav((SOUND * (2**31 - 1)).astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(), 1, 24), 1e-6),
        (wav(np.stack([SOUND, -SOUND * 0.5], 1).astype("<f4").tobytes(), 3, 32, channels=2), None),
    ],
)
def test_a_stream_is_the_sound_that_was_written(data: bytes, off: float | None) -> None:
    found = heard(data)
    assert found.sample_rate == RATE
    expected = SOUND if off is not None else SOUND * 0.25
    assert np.abs(found.samples.numpy() - expected).max() < (off or 1e-6)


def test_samples_without_a_header_and_what_is_no_sound() -> None:
    raw = (SOUND * 32767).astype("<i2").tobytes()
    assert np.abs(heard(raw, RATE).samples.numpy() - SOUND).max() < 1e-4
    assert heard(raw[:-1], RATE).sample_rate == RATE  # half a sample at the end
    assert list(read_stream(io.BytesIO(b""), rate=RATE)) == []
    for data in (
        raw, b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEdata\0\0\0\0", b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\x7f" + b"x" * 99,
        wav(b"", 7, 8), wav(b"", 1, 16, channels=0), wav(np.array([np.nan] * 900, "<f4").tobytes(), 3, 32),
    ):  # fmt: skip
        with pytest.raises(DataError):
            list(read_stream(io.BytesIO(data)))
    with pytest.raises(ConfigError, match="rate"):
        list(read_stream(io.BytesIO(raw), rate=5))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_listener(tmp_path_factory.mktemp("model"))


def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], data: bytes, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Drips(data))))
    monkeypatch.setattr(sys, "argv", ["dragoman", "transcribe", *words])
    status = 0
    try:
        main()
    except SystemExit as end:
        status = int(end.code or 0)
    return (status, *capfd.readouterr())


def talk() -> np.ndarray:
    random, pause = np.random.default_rng(1), np.zeros(RATE)
    parts = [pause, speak(["mid", "top", "low"] * 3, random), pause, speak(["high", "top"] * 2, random), pause]
    sound = np.concatenate(parts)
    return sound + random.normal(size=len(sound)) * 0.001


def test_words_and_partials_are_those_of_the_stream(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = (talk().clip(-1, 1) * 32767).astype("<i2").tobytes()
    lengths = ("--set", "min_length=3", "--set", "max_length=5")
    status, out, _ = run(monkeypatch, capfd, data, str(model), "--stream", "-", "--json", *lengths)
    assert status == 0
    told = [json.loads(line) for line in out.splitlines()]
    translator = Translator.from_pretrained(model)
    blocks = read_stream(io.BufferedReader(Drips(data)), rate=RATE)
    options = translator.options({"min_length": 3, "max_length": 5})
    expected = list(transcribe_stream(translator, blocks, options=options))
    assert [one["stable"] for one in told] == [one.stable for one in expected]
    final = [one for one in told if one["final"]]
    assert len(final) >= 2
    assert all(one["tentative"] == "" and one["start"] < one["end"] for one in final)
    status, out, _ = run(monkeypatch, capfd, data, str(model), "--stream", "-", "--rate", str(RATE), *lengths)
    assert (status, out.splitlines()) == (0, [one["stable"] for one in final])


@pytest.mark.parametrize("words", ["--stream a.wav", "--stream - --times", "- --rate 8000", "--stream - --nbest 2"])
def test_what_does_not_go_with_a_stream(
    words: str, model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run(monkeypatch, capfd, b"", str(model), *words.split())
    assert status == 2
    assert "stream" in error


def test_what_is_no_sound_is_one_message(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = wav(np.array([np.nan] * 900, "<f4").tobytes(), 3, 32)
    status, _, error = run(monkeypatch, capfd, data, str(model), "--stream", "-")
    assert (status, "no number" in error, "Traceback" in error) == (2, True, False)
