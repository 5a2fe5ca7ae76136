"""A pass of a model as named stages: what its modules took in and gave out, in order, told in English or Chinese."""

from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides, Stage, make_stage
from dragoman.stages.words import say, speaking

__all__ = ["Sides", "Stage", "captured", "find_stages", "make_stage", "say", "speaking"]
