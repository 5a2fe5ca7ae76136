"""Train, run, judge and see through the encoder-decoder Transformer of "Attention Is All You Need".

The public names live in their rooms and are imported when they are first used, so `import dragoman` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.config import TrainConfig as TrainConfig
    from dragoman.errors import DragomanError as DragomanError

    __version__: str

__all__ = ["DragomanError", "TrainConfig", "__version__"]

_HOMES = {
    "DragomanError": "dragoman.errors",
    "TrainConfig": "dragoman.config",
}


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name == "__version__":
        return import_module("importlib.metadata").version("dragoman")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
