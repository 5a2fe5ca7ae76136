"""Ways to run a trained model as a next-token model."""

from dragoman.engines.choose import choose_device, choose_engine
from dragoman.engines.module import ModuleEngine
from dragoman.engines.native import NativeEngine
from dragoman.engines.packed import PackedEngine
from dragoman.engines.recipe import NotPlain

__all__ = ["ModuleEngine", "NativeEngine", "NotPlain", "PackedEngine", "choose_device", "choose_engine"]
