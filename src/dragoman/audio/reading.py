"""Files of sound to waveforms, by libsndfile: WAV, FLAC, OGG, MP3, AIFF and what else it reads.

A file may be hostile: nothing is believed that its header says of its length, samples are read in blocks, and what
cannot be used is a `DataError` of one line.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dragoman.audio.resampling import resample
from dragoman.audio.waveform import Waveform
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float32

KINDS = "WAV, FLAC, OGG, MP3 or another kind that libsndfile reads"
RATES = (1_000, 768_000)
# Values of all channels that are read at once, and samples of a sound at most: half a gigabyte.
BLOCK, MOST_SAMPLES = 1 << 20, 1 << 27
# A program that writes into a pipe does not know the length and writes one that means this.
UNKNOWN = 0x7FFF_0000


class TooLongError(DataError):
    """A sound is longer than was allowed."""


def read_audio(
    source: str | Path | bytes,
    *,
    sample_rate: int | None = None,
    start: float = 0.0,
    end: float | None = None,
    limit_seconds: float = 3600.0,
    limit_samples: int = MOST_SAMPLES,
) -> Waveform:
    """Return a sound, or the part of it between two times, as one channel: the mean of its channels.

    Args:
        source: the file, or what is in it.
        sample_rate: resample to this rate in Hz.
        start: where the part begins, in seconds.
        end: where it ends; None, or later than the sound: with the sound.
        limit_seconds: a longer part is refused.
        limit_samples: likewise, before it is resampled: bounds the memory.

    Raises:
        DataError: there is no such file, it is no sound, is damaged or empty, a sample is no number, or the part lies
            outside it.
        TooLongError: it is too long.
        ConfigError: the package soundfile is not installed.
    """
    file = "sound" if isinstance(source, bytes) else str(source)
    if not (math.isfinite(start) and start >= 0 and (end is None or start < end < math.inf)):
        raise DataError("no part of a sound", file=file, expected="0 <= start < end", found=f"{start} to {end}")
    with _opened(source, file) as data:
        _check_whole(data, file)
        samples, rate = _read(data, file, start, end, (limit_seconds, limit_samples))
    sound = torch.from_numpy(samples)
    if sample_rate is not None and sample_rate != rate:
        # A filter may pass the ends of the scale a little.
        return Waveform(resample(sound, rate, sample_rate).clamp_(-1, 1), sample_rate)
    return Waveform(sound, rate)


def length_of(path: str | Path) -> float:
    """Return how many seconds of sound a file has, as its header tells.

    Raises:
        DataError: there is no such file, it is no sound, or its header does not know.
        ConfigError: the package soundfile is not installed.
    """
    file = str(path)
    with _opened(path, file) as data:
        _check_whole(data, file)
        with _sound(data, file) as sound:
            if not 0 <= sound.frames < 1 << 40 or not RATES[0] <= sound.samplerate <= RATES[1]:
                raise DataError("the length of the sound is not known", file=file, expected=KINDS)
            return sound.frames / sound.samplerate


def _opened(source: str | Path | bytes, file: str) -> io.BufferedIOBase:
    if isinstance(source, bytes):
        if not source:
            raise DataError("the file is empty", file=file, expected=KINDS)
        return io.BytesIO(source)
    try:
        status = os.stat(source)
        # Opening a pipe or a device could wait for ever.
        if not stat.S_ISREG(status.st_mode):
            found = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise DataError("this is not an audio file", file=file, expected=KINDS, found=found)
        if not status.st_size:
            raise DataError("the file is empty", file=file, expected=KINDS)
        return open(source, "rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"the sound cannot be read: {reason}", file=file) from error


def _check_whole(data: io.BufferedIOBase, file: str) -> None:
    """Refuse a WAV file that has lost its end: libsndfile would take what is left for the whole."""
    head = data.read(12)
    if head[:4] == b"RIFF" and head[8:] == b"WAVE":
        size = data.seek(0, io.SEEK_END)
        at = 12
        for _ in range(1000):
            data.seek(at)
            chunk = data.read(8)
            length = int.from_bytes(chunk[4:], "little")
            if len(chunk) < 8 or chunk[:4] == b"data":
                if len(chunk) == 8 and size - at - 8 < length < UNKNOWN:
                    found = f"{size - at - 8:,} bytes of sound"
                    raise DataError("the file is truncated", file=file, expected=f"{length:,} bytes", found=found)
                break
            at += 8 + length + length % 2
    data.seek(0)


def _read(
    data: io.BufferedIOBase, file: str, start: float, end: float | None, limits: tuple[float, int]
) -> tuple[Float32[np.ndarray, " time"], int]:
    """The samples of a part, and their rate."""
    soundfile = check_installed()
    with _sound(data, file) as sound:
        rate = sound.samplerate
        if not RATES[0] <= rate <= RATES[1] or sound.channels < 1:
            found = f"{rate} Hz, {sound.channels} channels"
            raise DataError("the sound is of an impossible kind", file=file, expected="1 to 768 kHz", found=found)
        most = math.floor(min(limits[0] * rate, limits[1]))
        first, last, known = _bounds(sound, file, start, end, most)
        try:
            if first:
                sound.seek(first)
            blocks, count = [], 0
            for block in _blocks(sound, last - first):
                blocks.append(_checked(block, file, (first + count) / rate))
                count += len(block)
                if count > most:
                    raise _too_long(file, most / rate, None)
        except (soundfile.LibsndfileError, RuntimeError, MemoryError) as error:
            raise DataError("the sound is damaged", file=file, found=error) from error
    if known and count < last - first:
        raise DataError("the file is truncated", file=file, expected=f"{last - first:,} samples", found=f"{count:,}")
    if not count:
        raise DataError("the sound is empty", file=file, expected="at least one sample")
    return np.concatenate(blocks), rate


def check_installed() -> Any:
    """Return the package that reads sounds.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:
        hint = "pip install 'dragoman[audio]'"
        raise ConfigError(
            "reading this sound needs the package soundfile, which is not installed", hint=hint
        ) from error
    return soundfile


def _sound(data: io.BufferedIOBase, file: str) -> Any:
    """An open file of sound."""
    soundfile = check_installed()
    try:
        # Without its name: libsndfile would take a .raw file for samples without a header.
        return soundfile.SoundFile(_Nameless(data))  # pyrefly: ignore[bad-argument-type]
    except (soundfile.LibsndfileError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise DataError("this is no sound that can be read", file=file, expected=KINDS) from error


def _bounds(sound: Any, file: str, start: float, end: float | None, most: int) -> tuple[int, int, bool]:
    """First sample, the one after the last, and whether the header knows how many there are."""
    rate, total = sound.samplerate, sound.frames
    known = 0 <= total < 1 << 40
    first = round(start * rate)
    if known and total and first >= total:
        expected = f"within {total / rate:g} s"
        raise DataError("the part lies outside the sound", file=file, expected=expected, found=f"{start:g} s")
    asked = 1 << 40 if end is None else round(end * rate)
    last = min(total, asked) if known else asked
    if known and last - first > most:
        raise _too_long(file, most / rate, (last - first) / rate)
    return first, last, known


def _too_long(file: str, limit: float, found: float | None) -> TooLongError:
    length = "more" if found is None else f"{found:,.0f} s"
    return TooLongError("the sound is too long", file=file, expected=f"{limit:,.0f} s at most", found=length)


def _blocks(sound: Any, wanted: int) -> Iterator[Float32[np.ndarray, "time channels"]]:
    """What is there of so many samples, a block at a time."""
    size = max(1, BLOCK // sound.channels)
    while wanted > 0:
        block = sound.read(min(size, wanted), dtype="float32", always_2d=True)
        if not len(block):
            return
        wanted -= len(block)
        yield block


def _checked(block: Float32[np.ndarray, "time channels"], file: str, start: float) -> Float32[np.ndarray, " time"]:
    """The mean of the channels, clipped to the scale."""
    if not np.isfinite(block).all():
        raise DataError("a sample of the sound is no number (NaN or infinite)", file=file, found=f"after {start:.2f} s")
    mono = block[:, 0] if block.shape[1] == 1 else block.mean(1, dtype=np.float32)
    return np.clip(mono, -1, 1)


class _Nameless(io.RawIOBase):
    """A file without its name."""

    def __init__(self, data: io.BufferedIOBase) -> None:
        self.data = data

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self.data.seek(offset, whence)

    def tell(self) -> int:
        return self.data.tell()

    def readinto(self, buffer: Any, /) -> int:
        return self.data.readinto(buffer)

    def read(self, size: int = -1, /) -> bytes:
        return self.data.read(size)
