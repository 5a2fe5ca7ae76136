"""How far long work is, told now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 10.0


class Pace:
    """Tells how much of something is done, at most every ten seconds.

    Args:
        report: takes a line of plain text.
        what: is counted, as `datastore: tokens`.
        total: how many there are.
    """

    def __init__(self, report: Callable[[str], None], what: str, total: int) -> None:
        self._report, self._what, self._total = report, what, total
        self._began = self._told = time.monotonic()

    def at(self, done: int) -> None:
        """So many are done now."""
        now = time.monotonic()
        if now - self._told < SECONDS or not done:
            return
        self._told = now
        left = (now - self._began) * max(0, self._total - done) / done
        self._report(f"{self._what} {done:,} of {self._total:,}, about {left:.0f} s left")
