"""From pairs to a trained model: the loop, its losses and schedules, checkpoints, and the run directory."""

from dragoman.training.averaging import average_run
from dragoman.training.events import Advanced, Event, Finished, Saved, Started, StopTraining, Validated
from dragoman.training.info import describe_model
from dragoman.training.remember import remember
from dragoman.training.run import Run
from dragoman.training.starting import train

__all__ = [
    "Advanced",
    "Event",
    "Finished",
    "Run",
    "Saved",
    "Started",
    "StopTraining",
    "Validated",
    "average_run",
    "describe_model",
    "remember",
    "train",
]
