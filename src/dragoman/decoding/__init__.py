"""Searches over next-token models, scoring, alignment, and translation of strings.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.decoding.alignment import align as align
    from dragoman.decoding.alignment import cross_attention as cross_attention
    from dragoman.decoding.beam import beam_search as beam_search
    from dragoman.decoding.completer import Completer as Completer
    from dragoman.decoding.completer import format_outputs as format_outputs
    from dragoman.decoding.completer import load_completer as load_completer
    from dragoman.decoding.ensemble import Ensemble as Ensemble
    from dragoman.decoding.filling import Filler as Filler
    from dragoman.decoding.filling import Filling as Filling
    from dragoman.decoding.filling import escape_gaps as escape_gaps
    from dragoman.decoding.greedy import greedy_search as greedy_search
    from dragoman.decoding.hypothesis import Hypothesis as Hypothesis
    from dragoman.decoding.hypothesis import length_penalty as length_penalty
    from dragoman.decoding.judge import Evaluation as Evaluation
    from dragoman.decoding.judge import evaluate as evaluate
    from dragoman.decoding.judge import evaluate_outputs as evaluate_outputs
    from dragoman.decoding.judge import training_words as training_words
    from dragoman.decoding.language_model import LanguageModel as LanguageModel
    from dragoman.decoding.language_model import load_language_model as load_language_model
    from dragoman.decoding.output import format_translation as format_translation
    from dragoman.decoding.protocol import NextTokenModel as NextTokenModel
    from dragoman.decoding.protocol import SearchRequest as SearchRequest
    from dragoman.decoding.protocol import State as State
    from dragoman.decoding.runner import search as search
    from dragoman.decoding.sampling import draw_tokens as draw_tokens
    from dragoman.decoding.sampling import sample as sample
    from dragoman.decoding.scoring import pad_rows as pad_rows
    from dragoman.decoding.scoring import score_parallel as score_parallel
    from dragoman.decoding.scoring import score_serial as score_serial
    from dragoman.decoding.text import TextScore as TextScore
    from dragoman.decoding.text import TextScorer as TextScorer
    from dragoman.decoding.text import TextSummary as TextSummary
    from dragoman.decoding.text import format_score as format_score
    from dragoman.decoding.text import summarize as summarize
    from dragoman.decoding.translation import Alternative as Alternative
    from dragoman.decoding.translation import PairScore as PairScore
    from dragoman.decoding.translation import Translation as Translation
    from dragoman.decoding.translator import Translator as Translator
    from dragoman.decoding.tuning import Trial as Trial
    from dragoman.decoding.tuning import Tuning as Tuning
    from dragoman.decoding.tuning import save_decoding as save_decoding
    from dragoman.decoding.tuning import tune as tune

_HOMES = {
    "Alternative": "translation",
    "Completer": "completer",
    "Ensemble": "ensemble",
    "Evaluation": "judge",
    "Filler": "filling",
    "Filling": "filling",
    "Hypothesis": "hypothesis",
    "LanguageModel": "language_model",
    "NextTokenModel": "protocol",
    "PairScore": "translation",
    "SearchRequest": "protocol",
    "State": "protocol",
    "TextScore": "text",
    "TextScorer": "text",
    "TextSummary": "text",
    "Translation": "translation",
    "Translator": "translator",
    "Trial": "tuning",
    "Tuning": "tuning",
    "align": "alignment",
    "beam_search": "beam",
    "cross_attention": "alignment",
    "draw_tokens": "sampling",
    "escape_gaps": "filling",
    "evaluate": "judge",
    "evaluate_outputs": "judge",
    "format_outputs": "completer",
    "format_score": "text",
    "format_translation": "output",
    "greedy_search": "greedy",
    "length_penalty": "hypothesis",
    "load_completer": "completer",
    "load_language_model": "language_model",
    "pad_rows": "scoring",
    "sample": "sampling",
    "save_decoding": "tuning",
    "score_parallel": "scoring",
    "score_serial": "scoring",
    "search": "runner",
    "summarize": "text",
    "training_words": "judge",
    "tune": "tuning",
}

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
    "Trial",
    "Tuning",
    "align",
    "beam_search",
    "cross_attention",
    "draw_tokens",
    "escape_gaps",
    "evaluate",
    "evaluate_outputs",
    "format_outputs",
    "format_score",
    "format_translation",
    "greedy_search",
    "length_penalty",
    "load_completer",
    "load_language_model",
    "pad_rows",
    "sample",
    "save_decoding",
    "score_parallel",
    "score_serial",
    "search",
    "summarize",
    "training_words",
    "tune",
]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
