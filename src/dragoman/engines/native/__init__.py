"""The native engine: a C++ library that is compiled at installation, if a compiler is there.

The names are imported from their modules when they are first used: some of the modules need PyTorch, which takes a
second to import, and some do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.engines.native.engine import NativeEngine as NativeEngine
    from dragoman.engines.native.engine import NativeState as NativeState
    from dragoman.engines.native.library import Kernel as Kernel
    from dragoman.engines.native.library import Library as Library
    from dragoman.engines.native.library import load_library as load_library
    from dragoman.engines.native.model import NativeModel as NativeModel

_HOMES = {
    "Kernel": "library",
    "Library": "library",
    "NativeEngine": "engine",
    "NativeModel": "model",
    "NativeState": "engine",
    "load_library": "library",
}

__all__ = [
    "Kernel",
    "Library",
    "NativeEngine",
    "NativeModel",
    "NativeState",
    "load_library",
]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
