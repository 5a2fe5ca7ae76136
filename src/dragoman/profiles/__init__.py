"""One file per founding system: what it does differently, how it is composed, how its weights map.

`dragoman.profiles.annotated.load(state, h=8)` gives a model that computes what that system computes.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_SYSTEMS = ("annotated", "d2l", "jadore", "lsdefine", "marian", "paddle", "torch_nn")


def __getattr__(name: str) -> ModuleType:
    """A system's module, imported when it is first named."""
    if name in _SYSTEMS:
        return import_module(f"dragoman.profiles.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(_SYSTEMS)
