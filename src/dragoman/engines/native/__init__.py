"""A whole decoder step in one call of a small C++ library, compiled when the package is installed."""

from dragoman.engines.native.engine import NativeEngine, NativeState
from dragoman.engines.native.library import Kernel, Library, load_library

__all__ = ["Kernel", "Library", "NativeEngine", "NativeState", "load_library"]
