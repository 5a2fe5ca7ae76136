"""Files of sound to waveforms."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import torch

from dragoman.audio.resampling import resample
from dragoman.audio.waveform import Waveform
from dragoman.errors import DataError


def read_audio(
    source: str | Path | bytes,
    *,
    sample_rate: int | None = None,
    start: float = 0.0,
    end: float | None = None,
    limit_seconds: float = 3600.0,
) -> Waveform:
    """Return a sound, or the part of it between two times in seconds, as one channel, resampled if a rate is given.

    Raises:
        DataError: there is no such file, it is no sound that is known here, too long, or the part lies outside it.
    """
    file = "bytes" if isinstance(source, bytes) else str(source)
    try:
        with wave.open(io.BytesIO(source) if isinstance(source, bytes) else str(source), "rb") as sound:
            rate, channels, width = sound.getframerate(), sound.getnchannels(), sound.getsampwidth()
            if width != 2:
                raise DataError("not a sound that can be read", file=file, expected="16 bits", found=f"{8 * width}")
            first, total = round(start * rate), sound.getnframes()
            last = total if end is None else min(round(end * rate), total)
            if first >= max(total, 1):
                raise DataError("the part lies beyond the sound", file=file, expected=f"less than {total / rate:g} s",
                                found=f"{start:g} s")  # fmt: skip
            if last - first > limit_seconds * rate:
                raise DataError("the sound is too long", file=file, expected=f"{limit_seconds:g} s at most",
                                found=f"{(last - first) / rate:g} s")  # fmt: skip
            sound.setpos(first)
            data = np.frombuffer(sound.readframes(last - first), dtype="<i2").reshape(-1, channels)
    except (OSError, EOFError, wave.Error) as error:
        raise DataError("not a sound that can be read", file=file, found=error) from error
    samples = torch.from_numpy((data.astype(np.float32) / 32768).mean(1))
    if sample_rate is not None and sample_rate != rate:
        return Waveform(resample(samples, rate, sample_rate), sample_rate)
    return Waveform(samples, rate)
