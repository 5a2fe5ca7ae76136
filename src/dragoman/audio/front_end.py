"""From a recording to what an encoder reads: settings and their files without PyTorch, frames with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config.audio import FRAMES_A_SECOND, AudioConfig
from dragoman.config.values import Mistake, convert
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, read_json, sealed, unsealed, write_json
from dragoman.sequences.source import FRAMES_EACH, SoundSource

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float
    from torch import Tensor

    from dragoman.audio.features import FilterBank
    from dragoman.audio.waveform import Waveform

FILE = "audio.json"
FORMAT = 1


@dataclass(frozen=True)
class FrontEnd:
    """How a model hears: stands beside its tokenizers.

    Attributes:
        sample_rate: of what it hears, in Hz.
        n_mels: mel bins of a frame.
        low_frequency: where the lowest bin begins, in Hz.
        high_frequency: where the highest ends, in Hz.
        dynamic_range: how far below the loudest number of a sound its frames go at most, in dB; None is without limit.
    """

    sample_rate: int
    n_mels: int
    low_frequency: float
    high_frequency: float
    dynamic_range: float | None = None

    @classmethod
    def of(cls, settings: AudioConfig, first_rate: int) -> FrontEnd:
        """Return the front end that settings ask for; what they leave open goes by the rate of a first recording."""
        rate = settings.sample_rate or min(first_rate, 16000)
        high = settings.high_frequency or rate / 2
        mels = settings.n_mels or (80 if rate >= 16000 else 40)
        return cls(rate, mels, settings.low_frequency, min(high, rate / 2), settings.dynamic_range)

    def __str__(self) -> str:
        edges = f"{self.low_frequency:g} to {self.high_frequency:g} Hz"
        return f"frames of {self.n_mels} mel bins from {edges}, of sounds at {self.sample_rate:,} Hz"

    @property
    def seconds_each(self) -> float:
        """How far apart in a sound the vectors are that enter the encoder."""
        return FRAMES_EACH / FRAMES_A_SECOND

    def times(self, count: int) -> list[str]:
        """Return what the first vectors that enter the encoder are called: by when they are heard, `0.32–0.36 s`."""
        each = self.seconds_each
        return [f"{place * each:.2f}–{(place + 1) * each:.2f} s" for place in range(count)]

    @property
    def filters(self) -> FilterBank:
        """What computes the frames."""
        from dragoman.audio.features import FilterBank

        return FilterBank(self.sample_rate, self.n_mels, self.low_frequency, self.high_frequency)

    def frames(self, sounds: Sequence[Waveform]) -> list[Float[Tensor, "_ mels"]]:
        """Return the normalised frames of sounds at the front end's own rate; at least one frame each."""
        from dragoman.audio.features import normalised

        return [normalised(one) for one in self.log_mels(sounds)]

    def log_mels(self, sounds: Sequence[Waveform]) -> list[Float[Tensor, "_ mels"]]:
        """Return the same frames before they are normalised."""
        found = self.filters.of([self._long_enough(sound.samples) for sound in sounds])
        if self.dynamic_range is None:
            return found
        # Frames are logarithms of power to the base e.
        below = self.dynamic_range * math.log(10) / 10
        return [one.clamp(min=float(one.max()) - below) for one in found]

    def at_own_rate(self, sound: Waveform) -> Waveform:
        """Return a sound as it is heard, whatever its rate."""
        if sound.sample_rate == self.sample_rate:
            return sound
        from dragoman.audio.resampling import resample
        from dragoman.audio.waveform import Waveform

        return Waveform(resample(sound.samples, sound.sample_rate, self.sample_rate), self.sample_rate, sound.name)

    def source(self, sound: Waveform) -> SoundSource:
        """Return what an encoder reads of a sound, whatever its rate."""
        return SoundSource.of(self.frames([self.at_own_rate(sound)])[0])

    def positions_of_many(self, samples: np.ndarray) -> np.ndarray:
        """Return how many vectors enter the encoder for so many samples of each of many sounds, int64 [sounds]."""
        import numpy as np

        filters = self.filters
        frames = np.maximum(1, 1 + (samples.astype(np.int64) - filters.window) // filters.shift)
        return -(-frames // FRAMES_EACH)

    def _long_enough(self, samples: Tensor) -> Tensor:
        """Samples that give a frame at least: silence after a sound that is over before."""
        from torch.nn.functional import pad

        return pad(samples, (0, max(0, self.filters.window - len(samples))))

    def save(self, directory: Path) -> None:
        """Write `audio.json`."""
        write_json(directory / FILE, sealed({"format": FORMAT, **asdict(self)}))

    @classmethod
    def load(cls, directory: Path) -> FrontEnd:
        """Read what `save` wrote.

        Raises:
            DataError: it is damaged, or of another format.
        """
        path = directory / FILE
        try:
            tree = unsealed(read_json(path, limit=MAX_SETTINGS_BYTES), path)
        except ModelError as error:
            raise DataError(error.message, file=path, expected=error.expected, found=error.found) from error
        mistakes: list[Mistake] = []
        if tree.pop("format", None) != FORMAT:
            raise DataError("unknown format of the audio front end", file=path, expected=f"format {FORMAT}")
        found = convert(tree, cls, "", mistakes)
        if mistakes:
            raise DataError("not the description of an audio front end", file=path, found=mistakes[0])
        try:
            AudioConfig.from_dict(asdict(found))
        except ConfigError as error:
            raise DataError("not the description of an audio front end", file=path, found=error) from error
        return found
