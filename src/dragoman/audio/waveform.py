"""A recording in memory: numbers for the pressure of the air, so many a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float32
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Waveform:
    """A sound of one channel.

    Attributes:
        samples: in [-1, 1].
        sample_rate: how many of them are a second.
        name: what it is called; by its length if that is empty.

    Raises:
        DataError: the rate is not positive.
    """

    samples: Float32[Tensor, " time"]
    sample_rate: int
    name: str = ""

    def __post_init__(self) -> None:
        if self.sample_rate < 1:
            expected = "a positive number of samples a second"
            raise DataError("a sound has an impossible sample rate", expected=expected, found=self.sample_rate)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.samples)

    def __str__(self) -> str:
        return self.name or f"a sound of {self.seconds:.2f} s"

    @property
    def seconds(self) -> float:
        """How long it takes to hear."""
        return len(self) / self.sample_rate
