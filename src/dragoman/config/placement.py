"""Where and how a trained model is run: four options that travel together."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dragoman.errors import ConfigError

ENGINES = ("auto", "native", "packed", "module")
PRECISIONS = ("auto", "float32", "int8", "bfloat16")
MOST_THREADS = 1024  # more than there are processors fill the machine's process table


@dataclass(frozen=True)
class Placement:
    """Where and how a trained model is run.

    Attributes:
        device: `auto`, the best there is; or `cpu`, `cuda`, `mps`, perhaps with a number as in `cuda:1`.
        engine: `auto`, `native`, `packed` or `module`.
        precision: of the linear maps: `auto`, the fastest that is exact enough, `float32`, `int8` or `bfloat16`.
        threads: of the CPU; as many as PyTorch, or the native library, takes by itself if None.

    Raises:
        ConfigError: there is nothing of such a name, or too many threads. Whether it is to be had on this machine is
            found out where it is opened.
    """

    device: str = "auto"
    engine: str = "auto"
    precision: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|(cpu|cuda|mps)(:[0-9]+)?", self.device):
            expected, gpu = "auto, cpu, cuda or mps", self.device.lower() in ("gpu", "nvidia", "rocm", "hip")
            hint = (
                "auto takes a GPU if there is one; of NVIDIA and AMD it is called cuda, of Apple mps" if gpu else None
            )
            raise ConfigError("this device is not available", expected=expected, found=self.device, hint=hint)
        if self.engine not in ENGINES:
            raise ConfigError("there is no such engine", expected=" or ".join(ENGINES), found=self.engine)
        if self.precision not in PRECISIONS:
            raise ConfigError("there is no such precision", expected=" or ".join(PRECISIONS), found=self.precision)
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            expected = f"a whole number from 1 to {MOST_THREADS:,}"
            raise ConfigError("so many threads cannot be had", expected=expected, found=self.threads)
