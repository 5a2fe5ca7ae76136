"""Searches that the native engine runs as a whole: the same hypotheses as `greedy_search` and `beam_search` over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dragoman.engines.forking import OneAtATime
from dragoman.engines.native.continuous import NativeContinuousSearch
from dragoman.engines.native.model import NativeModel, default_threads
from dragoman.search.hypothesis import Hypothesis, check_numbers, check_possible, make_hypothesis
from dragoman.search.joint import ctc_share
from dragoman.search.request import SearchRequest, forced_request
from dragoman.sequences.source import Source
from dragoman.sequences.target import Direction


class NativeSearcher:
    """A packed model that answers whole requests: ids in, hypotheses out, without PyTorch.

    Args:
        model: packed weights.
        right_to_left: makes the right-to-left models, when they are first asked; None if no others do.
        head: whether what the model's own head reads off frames counts, as the options of a request say. Of outputs
            that are read right to left it never does.
    """

    def __init__(
        self, model: NativeModel, right_to_left: Callable[[], NativeModel] | None = None, *, head: bool = False
    ) -> None:
        self.model, self._make_right_to_left, self._head = model, right_to_left, head
        self._right_to_left: NativeModel | None = None
        self._lock = OneAtATime()

    @property
    def name(self) -> str:
        """The engine and its precision."""
        return f"native in {self.model.precision}"

    def search(self, requests: Sequence[SearchRequest], threads: int | None = None) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses of each request, best first, by greedy or beam search.

        Args:
            requests: a batch, in which options may differ; not for sampling.
            threads: at most so many work on it; all there are if None.

        Raises:
            ModelError: the model gives NaN, or zero probability to every output of a request; or a sequence is longer
                than its table of positions.
        """
        return _search(self.model, requests, threads, self._head)

    def force(
        self,
        sources: Sequence[Source],
        outputs: Sequence[Sequence[Sequence[int]]],
        direction: Direction,
        threads: int | None = None,
        ctc_weight: float | None = None,
    ) -> list[list[list[float]]]:
        """Return the log-probability of each token of given outputs, in the order of `direction`, and of their ends.

        Args:
            sources: what is read.
            outputs: some of each source, unframed, from left to right.
            direction: how they are read.
            threads: at most so many work on it; all there are if None.
            ctc_weight: of what the head reads off frames, where that counts; as in the options of a request.

        Raises:
            ModelError: the model gives NaN.
        """
        asked = [
            forced_request(source, output, direction, ctc_weight)
            for source, some in zip(sources, outputs, strict=True)
            for output in some
        ]
        found = iter(_search(self._reader(direction), asked, threads, self._heeds(direction)))
        return [[list(next(found)[0].token_log_probabilities) for _ in some] for some in outputs]

    def continuous(self, direction: Direction, threads: int | None = None) -> NativeContinuousSearch:
        """Open a search that requests join and leave, not for sampling.

        Args:
            direction: in which outputs are written.
            threads: at most so many work on a step; all there are if None.
        """
        return NativeContinuousSearch(self._reader(direction), threads, head=self._heeds(direction))

    def _heeds(self, direction: Direction) -> bool:
        return self._head and direction is Direction.LEFT_TO_RIGHT

    def _reader(self, direction: Direction) -> NativeModel:
        """The packed weights that read targets in a direction; made once, whoever asks first."""
        if direction is Direction.LEFT_TO_RIGHT or self._make_right_to_left is None:
            return self.model
        with self._lock:
            if self._right_to_left is None:
                made = self._right_to_left = self._make_right_to_left()
                self._make_right_to_left = lambda: made  # which lets go of the weights that it was packed from
        return self._right_to_left


def _search(
    model: NativeModel, requests: Sequence[SearchRequest], threads: int | None, head: bool
) -> list[list[Hypothesis]]:
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for rows in _framed_alike(requests):
        some = [requests[row] for row in rows]
        alike = _search_alike(model, some, threads or default_threads(), head)
        for row, hypotheses in zip(rows, alike, strict=True):
            found[row] = hypotheses
    return found


def _framed_alike(requests: Sequence[SearchRequest]) -> list[list[int]]:
    """The rows of requests with the same frame and forbidden tokens; their options may differ."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, request in enumerate(requests):
        groups.setdefault((request.frame, request.never), []).append(row)
    return list(groups.values())


def _search_alike(
    model: NativeModel, requests: Sequence[SearchRequest], threads: int, head: bool
) -> list[list[Hypothesis]]:
    first = requests[0]
    options, prefixes = [request.options for request in requests], [request.prefix for request in requests]
    try:
        found = model.search(
            [request.source.content for request in requests], options, [request.max_length for request in requests],
            prefixes if any(prefixes) else (), begin=first.frame.begin, end=first.frame.end, never=first.never,
            threads=threads, shares=[ctc_share(one, has_head=True) for one in options] if head else (),
        )  # fmt: skip
    except FloatingPointError:
        check_numbers([math.nan])
        raise
    check_possible(found)
    return [
        [make_hypothesis(tokens[:-1], values, request.options, request.max_length) for tokens, values in outputs]
        for request, outputs in zip(requests, found, strict=True)
    ]
