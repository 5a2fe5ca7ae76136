"""The search that a request asks for."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dragoman.search.beam import beam_search
from dragoman.search.greedy import greedy_search
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.protocol import NextTokenModel, SearchRequest
from dragoman.search.sampling import sample


@runtime_checkable
class WholeSearch(Protocol):
    """A next-token model that can answer whole requests by itself."""

    def search(self, request: SearchRequest) -> list[list[Hypothesis]] | None:
        """Return what greedy or beam search finds; None where the searches of this room must step through."""
        ...


def search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """Return the hypotheses of each row, best first, by sampling, greedy or beam search, as the options say.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    if request.options.sampling:
        return sample(model, request)
    whole = model.search(request) if isinstance(model, WholeSearch) else None
    if whole is not None:
        return whole
    return greedy_search(model, request) if request.options.beam_size == 1 else beam_search(model, request)
