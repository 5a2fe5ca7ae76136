"""Ways to run a trained model as a next-token model.

The names are imported from their modules when they are first used: some of the modules need PyTorch, which takes a
second to import, and some do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.engines.choose import choose_device as choose_device
    from dragoman.engines.choose import choose_engine as choose_engine
    from dragoman.engines.light import open_light as open_light
    from dragoman.engines.module import ModuleEngine as ModuleEngine
    from dragoman.engines.native import NativeEngine as NativeEngine
    from dragoman.engines.native import NativeModel as NativeModel
    from dragoman.engines.packed import PackedEngine as PackedEngine
    from dragoman.engines.recipe import NotPlain as NotPlain

_HOMES = {
    "ModuleEngine": "module",
    "NativeEngine": "native",
    "NativeModel": "native",
    "NotPlain": "recipe",
    "PackedEngine": "packed",
    "choose_device": "choose",
    "choose_engine": "choose",
    "open_light": "light",
}

__all__ = [
    "ModuleEngine",
    "NativeEngine",
    "NativeModel",
    "NotPlain",
    "PackedEngine",
    "choose_device",
    "choose_engine",
    "open_light",
]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
