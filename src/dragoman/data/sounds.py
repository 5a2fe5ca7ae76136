"""Pairs whose sources are sounds: waveforms of 16 bits on disk, frames when a batch is made.

Waveforms are kept, and not frames, because what training does to a sound (its speed, noise) is done before there are
frames, and because 16 bits a sample are a fifth of what its frames take at 8 kHz.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.audio.features import masked
from dragoman.audio.front_end import FrontEnd
from dragoman.audio.listing import Recording
from dragoman.audio.perturbing import perturbed
from dragoman.audio.waveform import Waveform
from dragoman.config import AudioConfig, DataConfig
from dragoman.data.filtering import Counts, Encoded
from dragoman.data.store import TokenStore
from dragoman.errors import DataError
from dragoman.text import Pair, Tokenizer

SCALE = 32768


class SoundStore(TokenStore):
    """A store whose sources are samples, heard through a front end, plainly or as an epoch of training hears them.

    Attributes:
        source_lengths: vectors that enter the encoder for each source, int64 [pairs].
        front_end: how they are heard.
    """

    def __init__(
        self,
        store: TokenStore,
        front_end: FrontEnd,
        settings: AudioConfig | None = None,
        seed: int = 0,
        epoch: int | None = None,
    ) -> None:
        super().__init__(store.directory, store._tokens, store._offsets)
        self.front_end, self._settings, self._seed, self._epoch = front_end, settings, seed, epoch
        self.source_lengths = front_end.positions_of_many(np.diff(store._offsets["source"]))

    def in_epoch(self, settings: AudioConfig, seed: int, epoch: int) -> SoundStore:
        """Return the same pairs as training hears them in an epoch, counted from 0: a pure function of all three."""
        return SoundStore(self, self.front_end, settings, seed, epoch)

    def _like(self, tokens: dict[str, np.ndarray], offsets: dict[str, np.ndarray]) -> SoundStore:
        plain = TokenStore(self.directory, tokens, offsets)
        return SoundStore(plain, self.front_end, self._settings, self._seed, self._epoch)

    @property
    def seconds(self) -> float:
        """How long it takes to hear all of them."""
        return len(self.tokens("source")) / self.front_end.sample_rate

    def waveform(self, index: int) -> Waveform:
        """Return the sound of one pair, as it was recorded."""
        samples = torch.from_numpy(self.source(index).astype(np.float32) / SCALE)
        return Waveform(samples, self.front_end.sample_rate)

    def frames(self, indices: Sequence[int] | np.ndarray) -> list[Float[Tensor, "_ mels"]]:
        """Return the frames of some pairs' sounds."""
        sounds = [self._heard(int(index)) for index in indices]
        frames = self.front_end.frames(sounds)
        if self._epoch is None or self._settings is None:
            return frames
        policy, seed, epoch = self._settings.spec_augment, self._seed, self._epoch
        return [
            masked(one, policy, seed=seed, epoch=epoch, index=int(index))
            for one, index in zip(frames, indices, strict=True)
        ]

    def _heard(self, index: int) -> Waveform:
        sound = self.waveform(index)
        if self._epoch is None or self._settings is None:
            return sound
        return perturbed(sound, self._settings, seed=self._seed, epoch=self._epoch, index=index)


def as_heard(store: TokenStore, front_end: FrontEnd | None) -> TokenStore:
    """Return a store, as one of sounds if there is something to hear them with."""
    return store if front_end is None else SoundStore(store, front_end)


def first_rate(pairs: Iterable[Pair]) -> int:
    """Return the sample rate of the first recording."""
    for pair in pairs:
        return read_recording(pair, None).sample_rate
    return 16000


def read_recording(pair: Pair, sample_rate: int | None) -> Waveform:
    """Return the sound that a pair's source names, resampled to a rate if one is given.

    Raises:
        DataError: it cannot be read; says which line of the list names it.
    """
    try:
        return Recording.of_line(pair.source).read(sample_rate)
    except DataError as error:
        raise DataError(
            f"a recording cannot be used: {error.message}" + (f" ({error.file})" if error.file else ""),
            file=pair.file, line=pair.line, expected=error.expected or "a sound", found=error.found,
            hint=error.hint or "look at the file that the line names, or take the line and its target out",
        ) from error  # fmt: skip


def encode_sounds(
    pairs: Iterable[Pair],
    front_end: FrontEnd,
    tokenizer: Tokenizer,
    data: DataConfig,
    audio: AudioConfig,
    counts: Counts,
) -> Iterator[Encoded]:
    """Yield each pair with the samples of its source and the ids of its target, without those that are too long.

    Args:
        pairs: what to encode; sources are lines of lists of recordings.
        front_end: at whose rate samples are given.
        tokenizer: of the targets.
        data: `max_target_tokens`.
        audio: `max_seconds`.
        counts: filled in under "too long" and "empty", and what is kept.

    Raises:
        DataError: a recording cannot be read; says which line of the list names it.
    """
    for pair in pairs:
        target = tokenizer.encode(pair.target)
        sound = read_recording(pair, front_end.sample_rate)
        if not target or not len(sound):
            counts.dropped["empty"] += 1
        elif sound.seconds > audio.max_seconds or len(target) > data.max_target_tokens:
            counts.dropped["too long"] += 1
        else:
            counts.kept += 1
            yield pair, as_samples(sound), target


def as_samples(sound: Waveform) -> np.ndarray:
    """Return the samples of a sound as whole numbers of 16 bits, int16 [time]."""
    return (sound.samples * SCALE).round().clamp(-SCALE, SCALE - 1).numpy().astype(np.int16)
