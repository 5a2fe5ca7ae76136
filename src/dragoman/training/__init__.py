"""From pairs to a trained model: the loop, its losses and schedules, checkpoints, and the run directory."""

from dragoman.lazy import renamed_names
from dragoman.training.averaging import average
from dragoman.training.info import info
from dragoman.training.merging import merge
from dragoman.training.remember import remember
from dragoman.training.run import Run
from dragoman.training.starting import train

__all__ = [
    "Run",
    "average",
    "info",
    "merge",
    "remember",
    "train",
]

__getattr__ = renamed_names(__name__, {"average_run": "average", "describe_model": "info"}, until="0.3")
