"""Ways to run a trained model as a next-token model."""

from dragoman.engines.choose import choose_device, choose_engine
from dragoman.engines.module import ModuleEngine

__all__ = ["ModuleEngine", "choose_device", "choose_engine"]
