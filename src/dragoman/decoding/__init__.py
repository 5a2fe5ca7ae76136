"""Searches over next-token models, scoring, alignment, and translation of strings.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.decoding.alignment import align as align
    from dragoman.decoding.alignment import cross_attention as cross_attention
    from dragoman.decoding.beam import beam_search as beam_search
    from dragoman.decoding.completer import Completer as Completer
    from dragoman.decoding.completer import format_outputs as format_outputs
    from dragoman.decoding.completer import load_completer as load_completer
    from dragoman.decoding.datastore import Datastore as Datastore
    from dragoman.decoding.datastore import make_datastore as make_datastore
    from dragoman.decoding.ensemble import Ensemble as Ensemble
    from dragoman.decoding.filling import Filler as Filler
    from dragoman.decoding.filling import Filling as Filling
    from dragoman.decoding.filling import escape_gaps as escape_gaps
    from dragoman.decoding.greedy import greedy_search as greedy_search
    from dragoman.decoding.hypothesis import Hypothesis as Hypothesis
    from dragoman.decoding.hypothesis import hypothesis_score as hypothesis_score
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
    from dragoman.decoding.remembering import Remembering as Remembering
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

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "alignment": ("align", "cross_attention"),
        "beam": ("beam_search",),
        "completer": ("Completer", "format_outputs", "load_completer"),
        "datastore": ("Datastore", "make_datastore"),
        "ensemble": ("Ensemble",),
        "filling": ("Filler", "Filling", "escape_gaps"),
        "greedy": ("greedy_search",),
        "hypothesis": ("Hypothesis", "hypothesis_score", "length_penalty"),
        "judge": ("Evaluation", "evaluate", "evaluate_outputs", "training_words"),
        "language_model": ("LanguageModel", "load_language_model"),
        "output": ("format_translation",),
        "protocol": ("NextTokenModel", "SearchRequest", "State"),
        "remembering": ("Remembering",),
        "runner": ("search",),
        "sampling": ("draw_tokens", "sample"),
        "scoring": ("pad_rows", "score_parallel", "score_serial"),
        "text": ("TextScore", "TextScorer", "TextSummary", "format_score", "summarize"),
        "translation": ("Alternative", "PairScore", "Translation"),
        "translator": ("Translator",),
        "tuning": ("Trial", "Tuning", "save_decoding", "tune"),
    },
)
