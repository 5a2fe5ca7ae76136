"""Searches over next-token models, scoring, alignment, and translation of strings."""

from dragoman.decoding.alignment import align, cross_attention
from dragoman.decoding.beam import beam_search
from dragoman.decoding.completer import Completer, format_outputs, load_completer
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.filling import Filler, Filling, escape_gaps
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.judge import Evaluation, evaluate
from dragoman.decoding.language_model import LanguageModel, load_language_model
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
from dragoman.decoding.text import TextScore, TextScorer, TextSummary, format_score, summarize
from dragoman.decoding.translator import Alternative, PairScore, Translation, Translator, search

__all__ = [
    "Alternative",
    "Completer",
    "Ensemble",
    "Evaluation",
    "Filler",
    "Filling",
    "Hypothesis",
    "LanguageModel",
    "NextTokenModel",
    "PairScore",
    "SearchRequest",
    "State",
    "TextScore",
    "TextScorer",
    "TextSummary",
    "Translation",
    "Translator",
    "align",
    "beam_search",
    "cross_attention",
    "draw_tokens",
    "escape_gaps",
    "evaluate",
    "format_outputs",
    "format_score",
    "format_translation",
    "greedy_search",
    "length_penalty",
    "load_completer",
    "load_language_model",
    "pad_rows",
    "sample",
    "score_parallel",
    "score_serial",
    "search",
    "summarize",
]
