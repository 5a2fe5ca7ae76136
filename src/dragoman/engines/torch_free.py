"""Opening a model directory without PyTorch, whose import alone takes longer than a short translation.

Only where it is certain that `choose_device` and `choose_engine` would come to the same: the native engine on the CPU,
for a model of mainstream parts. Everything else is left to them.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from dragoman.config import ModelConfig
from dragoman.engines.native.library import load_library
from dragoman.engines.native.model import NativeModel, Readings, native_precision
from dragoman.models.blueprint import NotPlain
from dragoman.models.description import WEIGHTS
from dragoman.models.draft import blueprint_of
from dragoman.models.stored import read_arrays

PRECISIONS = ("auto", "float32", "int8", "bfloat16")
# What the drivers of graphics cards put there, those of NVIDIA, of AMD, and of Windows below Linux.
DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg")


def open_torch_free(
    directory: Path, config: ModelConfig, device: str, engine: str, precision: str
) -> tuple[Readings, str] | None:
    """Open the encoder-decoder of a directory: packed, and what packs it as it reads from right to left; and why it
    runs so, in words; None if others must decide.

    Args:
        directory: a model directory.
        config: what it says of its model.
        device: as for `choose_device`.
        engine: as for `choose_engine`.
        precision: likewise.
    """
    certain = device == "cpu" or (device == "auto" and has_no_accelerator())
    whole = config.family == "transformer" and config.source_vocab and config.target_vocab
    if not (certain and whole and engine in ("auto", "native") and precision in PRECISIONS):
        return None
    if isinstance(load_library(), str):
        return None
    arrays = read_arrays(directory / WEIGHTS)
    if arrays is None:
        return None
    chosen, why = native_precision(precision)
    try:
        blueprint = blueprint_of(config).with_weights(arrays)
        model = NativeModel(blueprint, chosen)
    except NotPlain:
        return None
    other, asked = blueprint.from_the_right(), "asked for" if engine != "auto" else "its library is compiled"
    return (model, cache(lambda: model if other is blueprint else NativeModel(other, chosen))), f"{asked}; {why}"


def has_no_accelerator() -> bool:
    """Return whether there is certainly no device but the CPU: no driver of one, on Linux."""
    return sys.platform == "linux" and not any(os.path.exists(path) for path in DRIVERS)
