"""From pairs to a trained model: the loop, its losses and schedules, checkpoints, and the run directory."""

from dragoman.training.averaging import average_run
from dragoman.training.info import describe_model
from dragoman.training.remember import remember
from dragoman.training.run import Run, train

__all__ = ["Run", "average_run", "describe_model", "remember", "train"]
