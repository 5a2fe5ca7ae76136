"""A search that requests join and leave between steps, as whoever schedules requests sees it. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol, runtime_checkable

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest


class Answer(NamedTuple):
    """What became of a request.

    Attributes:
        number: the request's.
        found: its hypotheses, best first.
        error: why there are none, if there are none.
    """

    number: int
    found: list[Hypothesis]
    error: Exception | None = None


@runtime_checkable
class ContinuousSearch(Protocol):
    """A search of one model that goes on while requests join and leave; one thread at a time may use it."""

    @property
    def live(self) -> int:
        """How many requests are being searched."""
        ...

    def admit(self, requests: Sequence[SearchRequest]) -> list[int]:
        """Let requests take part from the next step on, each by its own options; return their numbers."""
        ...

    def step(self, steps: int = 1) -> list[Answer]:
        """Make up to so many steps, and none after one that finishes a request; return the requests that are over."""
        ...

    def peek(self, number: int) -> list[tuple[int, ...]]:
        """Return the tokens of all hypotheses that the output of a request can still come from, the likeliest first.

        Those of finished hypotheses end with the token that ends outputs.
        """
        ...

    def cancel(self, number: int) -> None:
        """Drop a request; nothing happens if it is over."""
        ...


def common_prefix(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the tokens that all rows begin with; none of no rows."""
    if not rows:
        return ()
    low, high = min(rows), max(rows)  # in lexicographic order nothing between them differs earlier
    same = takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    return tuple(token for token, _ in same)
