"""The search that a request asks for, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from dragoman.config import DecodingConfig
from dragoman.search.beam import Beam, advance_beams, beam_search
from dragoman.search.greedy import Line, advance_greedily, greedy_search
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.running import Advance, RunningSearch
from dragoman.search.sampling import Draw, advance_draws, sample
from dragoman.search.sentence import Sentence

Search = Callable[[NextTokenModel, Sequence[SearchRequest]], list[list[Hypothesis]]]
SEARCHES: dict[str, Search] = {"greedy": greedy_search, "beam": beam_search, "sampling": sample}
KINDS: dict[str, Advance] = {"greedy": advance_greedily, "beam": advance_beams, "sampling": advance_draws}


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
    names = [search_name(request.options) for request in requests]
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for name in dict.fromkeys(names):
        rows = [row for row, its in enumerate(names) if its == name]
        some = [requests[row] for row in rows]
        whole = model.search(some) if name != "sampling" and isinstance(model, WholeSearch) else None
        for row, hypotheses in zip(rows, SEARCHES[name](model, some) if whole is None else whole, strict=True):
            found[row] = hypotheses
    return found


def open_search(model: NextTokenModel) -> RunningSearch:
    """Return a search without sentences yet, which those of every kind may join."""
    return RunningSearch(model, KINDS)


def sentences_of(request: SearchRequest) -> list[Sentence]:
    """Return the sentences that a request is searched as: one, or for sampling one for each draw."""
    name = search_name(request.options)
    if name == "sampling":
        return [Draw(request, number) for number in range(request.options.n_best)]
    return [Beam(request) if name == "beam" else Line(request)]
