"""`ContinuousSearch` by the native engine alone: greedy and beam search, without PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dragoman.engines.native.model import NativeModel
from dragoman.engines.native.running import NativeSearch
from dragoman.engines.native.sentences import Finished
from dragoman.errors import DragomanError
from dragoman.search.continuous import Answer
from dragoman.search.hypothesis import check_numbers, check_possible, make_hypothesis
from dragoman.search.joint import ctc_share
from dragoman.search.request import SearchRequest


class NativeContinuousSearch:
    """Requests of greedy and beam search, stepped together by the compiled library.

    Args:
        model: packed weights whose positions the library knows.
        threads: at most so many work on a step; all there are if None.
        head: whether what the model's own head reads off frames counts, as the options of a request say.
    """

    def __init__(self, model: NativeModel, threads: int | None = None, *, head: bool = False) -> None:
        self._search, self._head = NativeSearch(model, threads), head
        self._asked: dict[int, SearchRequest] = {}

    @property
    def live(self) -> int:
        """How many requests are being searched."""
        return len(self._asked)

    def admit(self, requests: Sequence[SearchRequest]) -> list[int]:
        """Let requests take part from the next step on; return their numbers."""
        numbers: list[int] = []
        for request in requests:
            frame, prefixes = request.frame, [request.prefix] if request.prefix else ()
            admitted = self._search.admit(
                [request.source.content], request.options, [request.max_length], prefixes,
                begin=frame.begin, end=frame.end, never=request.never,
                shares=[ctc_share(request.options, has_head=True)] if self._head else (),
            )  # fmt: skip
            self._asked[admitted[0]] = request
            numbers.append(admitted[0])
        return numbers

    def step(self, steps: int = 1) -> list[Answer]:
        """Make up to so many steps, and none after one that finishes a request; return the requests that are over."""
        self._search.step(steps, until_finished=True)
        return [_answer(one, self._asked.pop(one.number)) for one in self._search.take()]

    def peek(self, number: int) -> list[tuple[int, ...]]:
        """Return the tokens of all hypotheses that the output can still come from, the likeliest first."""
        return [tuple(tokens) for tokens, _ in self._search.peek(number) or ()]

    def cancel(self, number: int) -> None:
        """Drop a request; nothing happens if it is over."""
        if self._asked.pop(number, None) is not None:
            self._search.cancel(number)


def _answer(finished: Finished, request: SearchRequest) -> Answer:
    try:
        if isinstance(finished.error, FloatingPointError):
            check_numbers([math.nan])
        if finished.error is not None:
            return Answer(finished.number, [], finished.error)
        check_possible([finished.outputs])
    except DragomanError as error:
        return Answer(finished.number, [], error)
    limit = request.max_length
    found = [make_hypothesis(tokens[:-1], values, request.options, limit) for tokens, values in finished.outputs]
    return Answer(finished.number, found)
