"""Adam, Muon, and learning rates as functions of the update."""

from dragoman.optimizers.muon import Muon
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.optimizers.schedule import learning_rate

__all__ = ["Muon", "learning_rate", "make_optimizer"]
