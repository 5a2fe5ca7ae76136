"""Searches over next-token models, scoring and ranking. No search knows an engine: engines stand above.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.search.beam import beam_search as beam_search
    from dragoman.search.dispatch import search as search
    from dragoman.search.ensemble import Ensemble as Ensemble
    from dragoman.search.greedy import greedy_search as greedy_search
    from dragoman.search.hypothesis import Hypothesis as Hypothesis
    from dragoman.search.hypothesis import hypothesis_score as hypothesis_score
    from dragoman.search.hypothesis import length_penalty as length_penalty
    from dragoman.search.outputs import Alternative as Alternative
    from dragoman.search.outputs import PairScore as PairScore
    from dragoman.search.outputs import one_line as one_line
    from dragoman.search.protocol import NextTokenModel as NextTokenModel
    from dragoman.search.protocol import State as State
    from dragoman.search.request import SearchRequest as SearchRequest
    from dragoman.search.sampling import draw_tokens as draw_tokens
    from dragoman.search.sampling import sample as sample
    from dragoman.search.scoring import score_parallel as score_parallel
    from dragoman.search.scoring import score_serial as score_serial

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "beam": ("beam_search",),
        "dispatch": ("search",),
        "ensemble": ("Ensemble",),
        "greedy": ("greedy_search",),
        "hypothesis": (
            "Hypothesis",
            "hypothesis_score",
            "length_penalty",
        ),
        "outputs": ("Alternative", "PairScore", "one_line"),
        "protocol": (
            "NextTokenModel",
            "State",
        ),
        "request": ("SearchRequest",),
        "sampling": (
            "draw_tokens",
            "sample",
        ),
        "scoring": (
            "score_parallel",
            "score_serial",
        ),
    },
)
