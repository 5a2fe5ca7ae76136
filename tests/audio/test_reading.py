"""Files of sound, those of friends and those of foes."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dragoman.audio.reading import read_audio
from dragoman.errors import DataError

TONE = (0.5 * np.sin(np.arange(8000) / 5)).astype(np.float32)


def sound_file(kind: str, samples: np.ndarray = TONE, rate: int = 8000, subtype: str | None = None) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind, subtype=subtype)
    return out.getvalue()


def header(channels: int = 1, rate: int = 8000, bits: int = 16, size: int = 4, data: bytes = b"\0" * 4) -> bytes:
    block = max(1, channels * bits // 8)
    form = struct.pack("<HHIIHH", 1, channels, rate, (rate * block) & 0xFFFFFFFF, block & 0xFFFF, bits)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt \x10\0\0\0"
        + form
        + b"data"
        + struct.pack("<I", size)
        + data
    )


@pytest.mark.parametrize(("kind", "subtype", "error"), [
    ("WAV", "PCM_16", 1e-4), ("WAV", "PCM_U8", 0.01), ("WAV", "PCM_24", 1e-6), ("WAV", "PCM_32", 1e-6),
    ("WAV", "FLOAT", 0), ("WAV", "DOUBLE", 1e-7), ("FLAC", "PCM_16", 1e-4), ("OGG", "VORBIS", 0.1),
])  # fmt: skip
def test_every_kind_and_depth(kind: str, subtype: str, error: float, tmp_path: Path) -> None:
    data = sound_file(kind, subtype=subtype)
    (tmp_path / "tone.raw").write_bytes(data)
    for source in (data, tmp_path / "tone.raw"):
        sound = read_audio(source)
        assert sound.sample_rate == 8000
        assert np.abs(sound.samples.numpy() - TONE).max() <= error


def test_channels_parts_and_rates() -> None:
    stereo = sound_file("WAV", np.stack([TONE, np.zeros_like(TONE)], 1), subtype="FLOAT")
    assert np.allclose(read_audio(stereo).samples, TONE / 2)
    part = read_audio(stereo, start=0.25, end=0.5)
    assert np.array_equal(part.samples, read_audio(stereo).samples[2000:4000])
    assert len(read_audio(stereo, sample_rate=16000)) == 16000
    assert len(read_audio(stereo, start=0.5, end=1.2)) == 4000
    loud = read_audio(sound_file("WAV", TONE * 4, subtype="FLOAT"))
    assert loud.samples.abs().max() == 1


def flac_of_hours() -> bytes:
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 8000, 1, format="FLAC") as file:
        for _ in range(100):
            file.write(np.zeros(8000 * 60, dtype=np.float32))
    return out.getvalue()


NUMBERS = np.where(np.arange(8000) == 4000, np.nan, TONE)
FOES = {
    "empty": b"",
    "text": b"this is no sound\n" * 100,
    "zeros": bytes(5000),
    "zip": b"PK\3\4" + bytes(100),
    "only the beginning": sound_file("WAV")[:20],
    "no samples": sound_file("WAV", TONE[:0]),
    "half of a wav": sound_file("WAV")[:8000],
    "half of a flac": sound_file("FLAC")[:4000],
    "not a number": sound_file("WAV", NUMBERS, subtype="FLOAT"),
    "infinite": sound_file("WAV", np.where(np.isnan(NUMBERS), np.inf, TONE), subtype="DOUBLE"),
    "no channels": header(channels=0),
    "60,000 channels": header(channels=60_000),
    "rate 0": header(rate=0),
    "rate 4 GHz": header(rate=4_000_000_000),
    "says it is huge": header(size=0x7000_0000),
    "0 bits": header(bits=0),
    "hours of silence": flac_of_hours(),
}


@pytest.mark.parametrize("foe", FOES)
def test_foes_get_one_plain_message(foe: str, tmp_path: Path) -> None:
    path = tmp_path / "foe.wav"
    path.write_bytes(FOES[foe])
    tracemalloc.start()
    for source in (FOES[foe], path):
        with pytest.raises(DataError) as caught:
            read_audio(source, limit_seconds=3600.0)
        assert "Traceback" not in str(caught.value)
        assert len(caught.value.message.splitlines()) == 1
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path, tmp_path / "none.wav", tmp_path / "pipe.wav", "/dev/zero", "a\0b"):
        with pytest.raises(DataError):
            read_audio(path)


def test_parts_outside_are_refused() -> None:
    data = sound_file("WAV")
    assert len(read_audio(data, start=0.5, end=9.0)) == 4000
    for start, end in ((2.0, None), (0.5, 0.4), (-1.0, None), (float("nan"), None)):
        with pytest.raises(DataError):
            read_audio(data, start=start, end=end)
    with pytest.raises(DataError, match="too long"):
        read_audio(data, limit_seconds=0.5)


def test_a_length_that_was_not_known_is_no_fault() -> None:
    data = header(size=0xFFFF_FFFF, data=(TONE * 32767).astype("<i2").tobytes())
    assert len(read_audio(data)) == 8000
