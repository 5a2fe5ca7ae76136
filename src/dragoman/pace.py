"""How far long work is, told now and then, and time spans in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

SECONDS = 10.0

T = TypeVar("T")


class Pace:
    """Tells how much of something is done, at most every ten seconds.

    Args:
        report: takes a line of plain text.
        what: is counted, as `datastore: tokens`.
        total: how many there are, if that is known.
        before: how many were done before the work was begun again, and take no time.
    """

    def __init__(self, report: Callable[[str], None], what: str, total: int | None, before: int = 0) -> None:
        self._report, self._what, self._total, self._before = report, what, total, before
        self._began = self._told = time.monotonic()

    def at(self, done: int) -> None:
        """Report progress, if it is time to: so many are done now."""
        now = time.monotonic()
        if now - self._told < SECONDS or done <= self._before:
            return
        self._told = now
        each = (now - self._began) / (done - self._before)
        if self._total is None:
            self._report(f"{self._what} {done:,}, {1 / each:,.1f} a second")
        else:
            left = duration(each * max(0, self._total - done))
            self._report(f"{self._what} {done:,} of {self._total:,}, about {left} left")


def paced(items: Iterable[T], report: Callable[[str], None], what: str, total: int | None = None) -> Iterator[T]:
    """Yield the same items, for whoever asks for the next ones when done with those before.

    Args:
        items: of any kind.
        report: as for `Pace`.
        what: as for `Pace`.
        total: as for `Pace`.
    """
    pace = Pace(report, what, total)
    for done, item in enumerate(items):
        pace.at(done)
        yield item


def duration(seconds: float) -> str:
    """Return a time span as people say it."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return "a second" if seconds < 1.5 else f"{seconds:.0f} seconds"


def silent(_: str) -> None:
    """Tell nothing."""
