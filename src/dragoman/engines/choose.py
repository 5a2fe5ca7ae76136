"""The one place where device and engine are chosen."""

from __future__ import annotations

import torch

from dragoman.engines.module import ModuleEngine
from dragoman.errors import ConfigError
from dragoman.nn import CausalLM, Transformer

ENGINES = ("auto", "module")


def choose_device(wanted: str = "auto") -> torch.device:
    """The device asked for, or the best there is: CUDA, Apple's MPS, CPU.

    Raises:
        ConfigError: the device asked for is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, present in there.items() if present))
    kind = wanted.partition(":")[0]
    if not there.get(kind, False):
        have = ", ".join(name for name, present in there.items() if present)
        raise ConfigError("this device is not available", expected=f"auto, or one of: {have}", found=wanted)
    if wanted not in (kind, *(f"{kind}:{index}" for index in range(_count(kind)))):
        raise ConfigError("there is no such device", expected=f"{kind}:0 to {kind}:{_count(kind) - 1}", found=wanted)
    return torch.device(wanted)


def _count(kind: str) -> int:
    return torch.cuda.device_count() if kind == "cuda" else 1


def choose_engine(model: Transformer | CausalLM, wanted: str = "auto") -> tuple[ModuleEngine, str]:
    """The engine to run a model with, and the reason in words.

    Raises:
        ConfigError: there is no engine of that name.
    """
    if wanted not in ENGINES:
        raise ConfigError("there is no such engine", expected=" or ".join(ENGINES), found=wanted)
    reason = "asked for" if wanted != "auto" else "the only one so far: the modules themselves, with caches"
    return ModuleEngine(model), reason
