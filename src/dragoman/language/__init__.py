"""Completing, filling and scoring the texts of one language.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.language.completer import Completer as Completer
    from dragoman.language.completer import format_outputs as format_outputs
    from dragoman.language.completer import load_completer as load_completer
    from dragoman.language.filling import Filler as Filler
    from dragoman.language.filling import Filling as Filling
    from dragoman.language.filling import escape_gaps as escape_gaps
    from dragoman.language.loading import LanguageModel as LanguageModel
    from dragoman.language.loading import load_language_model as load_language_model
    from dragoman.language.scorer import TextScore as TextScore
    from dragoman.language.scorer import TextScorer as TextScorer
    from dragoman.language.scorer import TextSummary as TextSummary
    from dragoman.language.scorer import format_score as format_score
    from dragoman.language.scorer import summarize as summarize

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "completer": (
            "Completer",
            "format_outputs",
            "load_completer",
        ),
        "filling": (
            "Filler",
            "Filling",
            "escape_gaps",
        ),
        "loading": (
            "LanguageModel",
            "load_language_model",
        ),
        "scorer": (
            "TextScore",
            "TextScorer",
            "TextSummary",
            "format_score",
            "summarize",
        ),
    },
)
