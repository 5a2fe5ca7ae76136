"""Known targets as the hypotheses that they would be, had a search found them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.search.batches import length_batches
from dragoman.search.hypothesis import Hypothesis
from dragoman.sequences.source import Source
from dragoman.translation.plan import SearchPlan


def known_hypotheses(plan: SearchPlan, sources: Sequence[Source], targets: Sequence[Sequence[int]]) -> list[Hypothesis]:
    """Return targets as the hypotheses that they would be, had the search found them.

    Args:
        plan: the search.
        sources: any number.
        targets: one of each, unframed.
    """
    found: list[Hypothesis | None] = [None] * len(targets)
    lengths = [max(source.width, len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for rows in length_batches(lengths):
        known = plan.known([sources[row] for row in rows], [targets[row] for row in rows])
        for row, one in zip(rows, known, strict=True):
            found[row] = one
    return [one for one in found if one is not None]
