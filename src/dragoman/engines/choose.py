"""The one place where device, engine and precision are chosen."""

from __future__ import annotations

import torch

from dragoman.config import Placement
from dragoman.engines.forking import survive_forks
from dragoman.engines.module import ModuleEngine
from dragoman.engines.native import NativeEngine
from dragoman.engines.packed import PackedEngine
from dragoman.errors import ConfigError
from dragoman.models.blueprint import NotPlain
from dragoman.models.reading import read_blueprint
from dragoman.nn import CausalLM, Transformer


def choose_device(wanted: str = "auto") -> torch.device:
    """Return the device asked for, or the best there is: CUDA, Apple's MPS, CPU.

    Raises:
        ConfigError: the device asked for is not there.
    """
    survive_forks()
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


def choose_engine(model: Transformer | CausalLM, placement: Placement | None = None) -> tuple[ModuleEngine, str]:
    """Return the engine to run a model with, and the reason in words.

    On a CPU the native engine if its library is compiled, else the same in PyTorch; elsewhere, and for models with
    parts of their own kind, the modules themselves. Each engine says by itself whether it runs a blueprint.

    Args:
        model: the trained model, where it is to run.
        placement: the engine and the precision asked for; `auto` is int8 where it is the fastest, that is where the
            processor multiplies bytes in its vector units, else float32. Everything `auto` if None.

    Raises:
        ConfigError: the engine cannot do what is asked, or is not there.
    """
    survive_forks()
    wanted, precision = (placement.engine, placement.precision) if placement else ("auto", "auto")
    if wanted == "module":
        return _modules(model, wanted, precision, "asked for")
    device = next(model.parameters()).device
    if device.type != "cpu":
        reason = f"the fast engines are for the CPU, the model is on {device}"
        return _modules(model, wanted, precision, reason)
    try:
        blueprint = read_blueprint(model)
    except NotPlain as reason:
        return _modules(model, wanted, precision, str(reason))
    reasons: list[str] = []
    # In float32 the modules are as fast as what is packed.
    engines = [NativeEngine] if wanted == "auto" and precision not in ("auto", "int8") else [NativeEngine, PackedEngine]
    for engine in engines:
        if wanted in ("auto", engine.name):
            why_not = engine.supports(blueprint)
            if why_not is None:
                chosen, why = engine.choose_precision(precision)
                asked = "asked for" if wanted != "auto" else reasons[0] if reasons else "its library is compiled"
                return engine(model, chosen), f"{asked}; {why}"
            reasons.append(why_not)
    return _modules(model, wanted, precision, reasons[0])


def _modules(model: Transformer | CausalLM, wanted: str, precision: str, reason: str) -> tuple[ModuleEngine, str]:
    if wanted not in ("auto", "module"):
        raise ConfigError(f"the {wanted} engine cannot run this model: {reason}", hint="try --engine module")
    if precision not in ("auto", "float32"):
        raise ConfigError(f"the modules themselves do not run in {precision}: {reason}", hint="try --precision auto")
    return ModuleEngine(model), reason
