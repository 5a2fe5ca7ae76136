"""The search that a request asks for, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from dragoman.config import DecodingConfig
from dragoman.search.beam import beam_search
from dragoman.search.greedy import greedy_search
from dragoman.search.grouping import alike
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.sampling import sample

Search = Callable[[NextTokenModel, Sequence[SearchRequest]], list[list[Hypothesis]]]
SEARCHES: dict[str, Search] = {"greedy": greedy_search, "beam": beam_search, "sampling": sample}


def search_name(options: DecodingConfig) -> str:
    """Return the name of the search that options ask for: `sampling`, `greedy` or `beam`."""
    return "sampling" if options.sampling else "greedy" if options.beam_size == 1 else "beam"


@runtime_checkable
class WholeSearch(Protocol):
    """A next-token model that can answer whole requests by itself."""

    def search(self, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]] | None:
        """Return what greedy or beam search finds; None where the searches of this room must step through."""
        ...


def search(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return the hypotheses of each request, best first.

    Args:
        model: any next-token model; one that answers whole requests by itself is asked to.
        requests: a batch, in which options may differ.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a request.
    """
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for rows in alike(requests):
        for row, hypotheses in zip(rows, _search_alike(model, [requests[row] for row in rows]), strict=True):
            found[row] = hypotheses
    return found


def _search_alike(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    name = search_name(requests[0].options)
    whole = model.search(requests) if name != "sampling" and isinstance(model, WholeSearch) else None
    return SEARCHES[name](model, requests) if whole is None else whole
