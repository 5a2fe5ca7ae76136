"""The native engine: a C++ library that is compiled at installation, if a compiler is there.

The names are imported from their modules when they are first used: some of the modules need PyTorch, which takes a
second to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.engines.native.engine import NativeEngine as NativeEngine
    from dragoman.engines.native.engine import NativeState as NativeState
    from dragoman.engines.native.library import Kernel as Kernel
    from dragoman.engines.native.library import Library as Library
    from dragoman.engines.native.library import load_library as load_library
    from dragoman.engines.native.model import NativeModel as NativeModel
    from dragoman.engines.native.running import NativeSearch as NativeSearch

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "engine": ("NativeEngine", "NativeState"),
        "library": ("Kernel", "Library", "load_library"),
        "model": ("NativeModel",),
        "running": ("NativeSearch",),
    },
)
