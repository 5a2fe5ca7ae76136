"""Fuzzy matches the slow and obvious way: every stretch of every source, in sets of tuples."""

from __future__ import annotations

import math
from collections.abc import Sequence

BEGIN, END = -1, -2


def stretches(ids: Sequence[int], longest: int) -> set[tuple[int, ...]]:
    framed = (BEGIN, *ids, END)
    return {framed[place : place + size] for size in range(1, longest + 1) for place in range(len(framed) - size + 1)}


def scores(
    sources: Sequence[Sequence[int]],
    ids: Sequence[int],
    seen: set[tuple[int, ...]],
    *,
    longest: int,
    most: int,
    covered: float,
) -> list[float]:
    """What each source shares with these ids."""
    own = [stretches(source, longest) for source in sources]
    found = []
    for source, parts in zip(sources, own, strict=True):
        total = 0.0
        for part in parts & stretches(ids, longest):
            having = sum(part in other for other in own)
            if having <= most:
                total += math.log(len(sources) / having) * (covered if part in seen else 1)
        found.append(total / math.sqrt(len(source) + 2 + 4))
    return found
