"""From minutes to updates: a few updates are timed, and the plan is mended as it is carried out."""

from __future__ import annotations

import math
import time

# Of the time: validations between the first and the last update may take so much of what has passed.
VALIDATIONS = 0.2
# Of the time: kept for the last validation before any was timed, and for what is slower than it was.
FIRST_RESERVE, MARGIN = 0.04, 0.01
# Searches that are tried at the end take so many times as long as a validation, and may take so much of the time.
SEARCHES, SEARCHES_AT_MOST = 4.0, 0.05
# Between two looks at the speed: seconds at least, and so much of the time.
LEAST_LOOK, LOOK = 1.0, 0.03
# A plan that is so much off is mended: sooner to a smaller one, which keeps to the time, than to a larger one.
SHRINKS, GROWS = 0.98, 1.15


class TimePlan:
    """How many updates fit into the time that is left.

    Args:
        seconds: of training, in all starts of the run, the last validation included.
        most: updates that are worth doing; there are never more.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.per_update = self.validation = 0.0
        self._aside = self._aside_before = 0.0
        self._looked: tuple[float, int] | None = None

    @property
    def reserve(self) -> float:
        """Seconds to keep for what comes after the last update: a validation, and what is written."""
        known = 1.5 * self.validation if self.validation else FIRST_RESERVE * self.seconds
        if self.tries_searches:
            known += SEARCHES * self.validation
        return known + MARGIN * self.seconds + min(0.5, 0.02 * self.seconds)

    @property
    def tries_searches(self) -> bool:
        """Whether there is time to try searches at the end."""
        return SEARCHES * self.validation <= SEARCHES_AT_MOST * self.seconds

    def is_up(self, seconds: float) -> bool:
        """Return whether no more updates fit in, after so many seconds."""
        return seconds + self.per_update >= self.seconds - self.reserve

    def updates(self, step: int, seconds: float, per_update: float) -> int:
        """Return how many updates the whole run has, at least one.

        Args:
            step: updates done.
            seconds: that have passed.
            per_update: seconds that each further one takes.
        """
        left = max(0.0, self.seconds - self.reserve - seconds)
        return max(1, step, min(self.most, step + math.floor(left / max(per_update, 1e-9))))

    def validated(self, took: float) -> None:
        """Take in how long a validation took, in seconds: it is no part of an update."""
        self.validation = took
        self._aside += took

    def affords_validation(self, seconds: float) -> bool:
        """Return whether one between two updates leaves most of the time, of which so much has passed, to updates."""
        return self._aside + self.validation <= VALIDATIONS * max(seconds, 0.2 * self.seconds)

    def mended(self, step: int, seconds: float, last: int) -> int:
        """Return the last update of the plan as it is best now: `last`, unless the speed has changed.

        Args:
            step: updates done.
            seconds: of training so far, validations included.
            last: the last update as planned before.
        """
        now = time.perf_counter()
        if self._looked is None:
            self._looked, self._aside_before = (now, step), self._aside
        began, done = self._looked
        if step <= done or now - began < max(LEAST_LOOK, LOOK * self.seconds):
            return last
        each = max(0.0, now - began - (self._aside - self._aside_before)) / (step - done)
        self.per_update = 0.7 * self.per_update + 0.3 * each if self.per_update else each
        self._looked, self._aside_before = (now, step), self._aside
        fits = self.updates(step, seconds, self.per_update)
        grows = fits > GROWS * last and step < last / 2
        return fits if fits < SHRINKS * last or grows else last
