"""Judging outputs: metrics with signatures, bootstrap intervals and paired tests."""

from __future__ import annotations

from dragoman.evaluation.comparison import Comparison, compare
from dragoman.evaluation.edit_distance import edit_distance
from dragoman.evaluation.metrics import METRICS
from dragoman.evaluation.references import group_references
from dragoman.evaluation.scores import Score, score

__all__ = ["METRICS", "Comparison", "Score", "compare", "edit_distance", "group_references", "score"]
