"""Opening a model directory without PyTorch, whose import alone takes longer than a short translation.

Only where it is certain that `choose_device` and `choose_engine` would come to the same: the native engine on the CPU,
for a model of mainstream parts. Everything else is left to them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dragoman.config import ModelConfig, Placement
from dragoman.engines.forking import survive_forks
from dragoman.engines.native.library import load_library
from dragoman.engines.native.model import NativeModel, native_precision
from dragoman.engines.native.searching import NativeSearcher
from dragoman.models.blueprint import NotPlain
from dragoman.models.description import WEIGHTS
from dragoman.models.draft import blueprint_of
from dragoman.models.stored import read_arrays

# What the drivers of graphics cards put there, those of NVIDIA, of AMD, and of Windows below Linux.
DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg")


class Opened(NamedTuple):
    """A model that answers searches without PyTorch.

    Attributes:
        searcher: answers them.
        reason: why it runs so, in words.
        await_check: waits until the weights have been compared with their sum, and raises what is wrong.
    """

    searcher: NativeSearcher
    reason: str
    await_check: Callable[[], None]


def open_torch_free(directory: Path, config: ModelConfig, placement: Placement) -> Opened | None:
    """Return what answers searches with the model of a directory; None if others decide.

    Args:
        directory: a model directory.
        config: what it says of its model.
        placement: where and how it is to run.

    Raises:
        ModelError: the file of the weights is mostly holes, is not a regular file, or cannot be read.
    """
    survive_forks()
    certain = placement.device == "cpu" or (placement.device == "auto" and has_no_accelerator())
    whole = config.family == "transformer" and config.source_vocab and config.target_vocab
    if not (certain and whole and placement.engine in ("auto", "native")):
        return None
    if isinstance(load_library(), str):
        return None
    stored = read_arrays(directory / WEIGHTS)
    if stored is None:
        return None
    chosen, why = native_precision(placement.precision)
    try:
        blueprint = blueprint_of(config).with_weights(stored.arrays)
        model = NativeModel(blueprint, chosen)
    except NotPlain:
        return None
    other, asked = blueprint.from_the_right(), "asked for" if placement.engine != "auto" else "its library is compiled"
    make_other = None if other is blueprint else partial(NativeModel, other, chosen)
    return Opened(NativeSearcher(model, make_other), f"{asked}; {why}", stored.await_check)


def has_no_accelerator() -> bool:
    """Return whether there is certainly no device but the CPU: no driver of one, on Linux."""
    return sys.platform == "linux" and not any(os.path.exists(path) for path in DRIVERS)
