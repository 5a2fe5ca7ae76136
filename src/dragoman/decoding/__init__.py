"""Searches over next-token models, scoring, alignment, and translation of strings."""

from dragoman.decoding.alignment import align, cross_attention
from dragoman.decoding.beam import beam_search
from dragoman.decoding.completer import Completer
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.judge import Evaluation, evaluate
from dragoman.decoding.output import format_translation
from dragoman.decoding.sampling import draw_tokens, sample
from dragoman.decoding.scoring import pad_rows, score_parallel, score_serial
from dragoman.decoding.search import (
    Hypothesis,
    NextTokenModel,
    SearchRequest,
    State,
    length_penalty,
)
from dragoman.decoding.translator import Alternative, PairScore, Translation, Translator, search

__all__ = [
    "Alternative",
    "Completer",
    "Ensemble",
    "Evaluation",
    "Hypothesis",
    "NextTokenModel",
    "PairScore",
    "SearchRequest",
    "State",
    "Translation",
    "Translator",
    "align",
    "beam_search",
    "cross_attention",
    "draw_tokens",
    "evaluate",
    "format_translation",
    "greedy_search",
    "length_penalty",
    "pad_rows",
    "sample",
    "score_parallel",
    "score_serial",
    "search",
]
