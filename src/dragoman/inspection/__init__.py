"""Seeing through a model: the trace of one text, shape arithmetic without weights, and pictures of both."""

from dragoman.canvas import Picture
from dragoman.inspection.architecture import draw_architecture
from dragoman.inspection.explain import explain
from dragoman.inspection.facts import Candidate, Check, Neighbour, Position, RankedHypothesis, Retrieval, Step, Text
from dragoman.inspection.pictures import attention_grid, attention_map
from dragoman.inspection.shapes import Plan, explain_config, read_model_config
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_pictures import draw_trace
from dragoman.inspection.translation import draw_translation
from dragoman.inspection.walk import closing_lines
from dragoman.inspection.working import Working
from dragoman.stages.stage import Stage

__all__ = [
    "Candidate",
    "Check",
    "Neighbour",
    "Picture",
    "Plan",
    "Position",
    "RankedHypothesis",
    "Retrieval",
    "Stage",
    "Step",
    "Text",
    "Trace",
    "Working",
    "attention_grid",
    "attention_map",
    "closing_lines",
    "draw_architecture",
    "draw_trace",
    "draw_translation",
    "explain",
    "explain_config",
    "read_model_config",
]
