"""Models from configurations, and to and from directories.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.models.build import build_model as build_model
    from dragoman.models.build import count_parameters as count_parameters
    from dragoman.models.description import Languages as Languages
    from dragoman.models.pretrained import Pretrained as Pretrained
    from dragoman.models.pretrained import load_pretrained as load_pretrained
    from dragoman.models.pretrained import save_pretrained as save_pretrained

_HOMES = {
    "Languages": "description",
    "Pretrained": "pretrained",
    "build_model": "build",
    "count_parameters": "build",
    "load_pretrained": "pretrained",
    "save_pretrained": "pretrained",
}

__all__ = [
    "Languages",
    "Pretrained",
    "build_model",
    "count_parameters",
    "load_pretrained",
    "save_pretrained",
]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
