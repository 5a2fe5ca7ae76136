"""Judging outputs: metrics with signatures, bootstrap intervals and paired tests, and where the faults are."""

from __future__ import annotations

from dragoman.evaluation.breakdown import Breakdown, GroupScore, break_down
from dragoman.evaluation.comparison import Comparison, compare
from dragoman.evaluation.contrast import Contrast, SentencePair, contrast
from dragoman.evaluation.edit_distance import edit_distance
from dragoman.evaluation.faults import ErrorKinds, Faults, find_faults
from dragoman.evaluation.fitting import doubt_size, fitting_metric
from dragoman.evaluation.metrics import METRICS, Metric
from dragoman.evaluation.references import group_references
from dragoman.evaluation.scores import Score, score
from dragoman.evaluation.word_classes import WordClass
from dragoman.evaluation.words import count_words, split_words
from dragoman.evaluation.worst import SentenceScore, WorstSentences, worst_sentences

__all__ = [
    "METRICS",
    "Breakdown",
    "Comparison",
    "Contrast",
    "ErrorKinds",
    "Faults",
    "GroupScore",
    "Metric",
    "Score",
    "SentencePair",
    "SentenceScore",
    "WordClass",
    "WorstSentences",
    "break_down",
    "compare",
    "contrast",
    "count_words",
    "doubt_size",
    "edit_distance",
    "find_faults",
    "fitting_metric",
    "group_references",
    "score",
    "split_words",
    "worst_sentences",
]
