"""Sound that is still coming in, block by block: WAV from a pipe, or samples without a header.

Nothing is believed that a header says of its length: recorders write it before they know it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from typing import IO

import numpy as np
import torch
from jaxtyping import Float32

from dragoman.audio.reading import RATES
from dragoman.audio.waveform import Waveform
from dragoman.errors import ConfigError, DataError

BLOCK = 0.1  # seconds at least, but for the last one
MOST_CHANNELS, MOST_HEADER = 64, 1 << 20
READ = 1 << 16
NAME = "standard input"
EXPECTED = "WAV with samples of 8, 16, 24 or 32 bits, or samples of 16 bits without a header (--rate)"
# Of a WAV file: whole numbers, floats, and what says so in an extension.
_WHOLE, _FLOAT, _EXTENDED = 1, 3, 0xFFFE

Bytes = IO[bytes] | BufferedIOBase


@dataclass(frozen=True)
class _Form:
    """How samples stand in a stream."""

    rate: int
    channels: int
    bits: int
    floats: bool = False

    @property
    def size(self) -> int:
        """Bytes of one moment, all channels."""
        return self.channels * self.bits // 8

    def samples(self, data: bytes) -> Float32[np.ndarray, " time"]:
        """The mean of the channels, in [-1, 1]."""
        if self.floats:
            values = np.frombuffer(data, "<f4").astype(np.float32)
        elif self.bits == 24:
            three = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32)
            values = ((three[:, 0] << 8 | three[:, 1] << 16 | three[:, 2] << 24) / 2**31).astype(np.float32)
        elif self.bits == 8:
            values = (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
        else:
            values = (np.frombuffer(data, f"<i{self.bits // 8}") / 2 ** (self.bits - 1)).astype(np.float32)
        if not np.isfinite(values).all():
            raise DataError("a sample of the sound is no number (NaN or infinite)", file=NAME)
        return np.clip(values.reshape(-1, self.channels).mean(1, dtype=np.float32), -1, 1)


def read_stream(stream: Bytes, *, rate: int | None = None) -> Iterator[Waveform]:
    """Yield a sound as it comes in, in blocks of a tenth of a second or more, as one channel.

    Args:
        stream: WAV; or, with a rate, samples of 16 bits (little-endian, one channel), if no WAV header begins it.
        rate: of samples without a header, in Hz.

    Raises:
        DataError: it is neither, its header is damaged, or a sample is no number.
        ConfigError: the rate is impossible.
    """
    _check_rate(rate)
    begin = _exactly(stream, 12)
    if begin[:4] == b"RIFF" and begin[8:] == b"WAVE":
        form, left = _header(stream)
        yield from _blocks(stream, form, b"", left)
    elif rate is not None:
        yield from _blocks(stream, _Form(rate, 1, 16), begin, None)
    elif begin:
        raise DataError("this is not an audio stream", file=NAME, expected=EXPECTED)


class Pieces:
    """A sound that is handed over piece by piece, cut anywhere: WAV, or samples of 16 bits without a header.

    Args:
        rate: of samples without a header, in Hz.

    Raises:
        ConfigError: the rate is impossible.
    """

    def __init__(self, rate: int) -> None:
        _check_rate(rate)
        self._rate, self._rest = rate, b""
        self._form: _Form | None = None

    def take(self, data: bytes) -> Waveform | None:
        """Return the whole samples that have come since; None if there is none yet.

        Raises:
            DataError: its header is damaged, or a sample is no number.
        """
        self._rest += data
        if self._form is None and not self._begins():
            return None
        assert self._form is not None
        whole = len(self._rest) // self._form.size * self._form.size
        samples, self._rest = self._rest[:whole], self._rest[whole:]
        return Waveform(torch.from_numpy(self._form.samples(samples)), self._form.rate) if whole else None

    def _begins(self) -> bool:
        """Whether the form of the samples is known by now."""
        if self._rest[:4] != b"RIFF"[: len(self._rest)]:
            self._form = _Form(self._rate, 1, 16)
            return True
        stream = BytesIO(self._rest[12:])
        try:
            self._form, _ = _header(stream)
        except DataError:
            if len(self._rest) < 64:  # the rest of it may come
                return False
            raise
        self._rest = stream.read()
        return True


def _check_rate(rate: int | None) -> None:
    if rate is not None and not RATES[0] <= rate <= RATES[1]:
        raise ConfigError("an impossible sample rate", expected=f"{RATES[0]:,} to {RATES[1]:,} Hz", found=rate)


def _blocks(stream: Bytes, form: _Form, rest: bytes, left: int | None) -> Iterator[Waveform]:
    """Samples as they come, up to the end of the stream or of what its header tells."""
    least, ended = max(1, round(BLOCK * form.rate)) * form.size, False
    take: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    while not ended:
        more = take(READ if left is None else min(READ, left))
        left = None if left is None else left - len(more)
        rest, ended = rest + more, not more or left == 0
        if len(rest) >= least or ended:
            whole = len(rest) // form.size * form.size
            if whole:
                yield Waveform(torch.from_numpy(form.samples(rest[:whole])), form.rate)
            rest = rest[whole:]


def _header(stream: Bytes) -> tuple[_Form, int | None]:
    """The form of the samples, and how many bytes follow; None where the header does not know."""
    form, read = None, 0
    while True:
        head = _exactly(stream, 8)
        if len(head) < 8:
            raise DataError("the header of the sound is truncated", file=NAME)
        kind, size = head[:4], int.from_bytes(head[4:], "little")
        if kind == b"data":
            if form is None:
                raise DataError("the sound has no header", file=NAME, expected="its form before its samples")
            # A recorder that does not know the length writes 0, or as much as fits.
            return form, None if size == 0 or size >= 0x7FFF_0000 else size
        size += size % 2
        read += size
        if read > MOST_HEADER:
            raise DataError("the header of the sound is too long", file=NAME, expected=f"{MOST_HEADER:,} bytes at most")
        data = _exactly(stream, size)
        if kind == b"fmt ":
            form = _form(data)


def _form(data: bytes) -> _Form:
    wrong = DataError("the sound is of a kind that is not read as it comes", file=NAME, expected=EXPECTED)
    if len(data) < 16:
        raise wrong
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", data[:16])
    if kind == _EXTENDED and len(data) >= 26:
        kind = int.from_bytes(data[24:26], "little")
    known = (kind == _WHOLE and bits in (8, 16, 24, 32)) or (kind == _FLOAT and bits == 32)
    if not known or not 1 <= channels <= MOST_CHANNELS or not RATES[0] <= rate <= RATES[1]:
        wrong.found = f"kind {kind}, {bits} bits, {channels} channels, {rate} Hz"
        raise wrong
    return _Form(rate, channels, bits, kind == _FLOAT)


def _exactly(stream: Bytes, size: int) -> bytes:
    """So many bytes, or all that are left."""
    parts = b""
    while len(parts) < size and (more := stream.read(size - len(parts))):
        parts += more
    return parts
