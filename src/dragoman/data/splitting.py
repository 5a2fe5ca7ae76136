"""Held-out pairs, or lines of a text, taken from the training ones when a user brings none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np

from dragoman.errors import DataError
from dragoman.text.corpus import Pair
from dragoman.text.keys import skeleton, text_hash

MAX_HELD_OUT = 1000
_KEPT = 20_000  # distinct sources; those chosen are among the first thousand and a few
_WANTED = {
    "pairs": ("pairs with two different sources", "--dev-source, --dev-target"),
    "lines": ("two different lines", "--dev-text"),
}


def held_out_size(pairs: int) -> int:
    """Return how many of so many pairs are held out: one in twenty, at least 1 and at most 1,000."""
    return min(max(pairs // 20, 1), MAX_HELD_OUT)


def choose_held_out(pairs: Iterable[Pair], unit: Literal["pairs", "lines"] = "pairs") -> Callable[[Pair], bool]:
    """Return a test for membership in the held-out part.

    Pairs are chosen by a hash of their source (case, punctuation and blanks aside). So the choice needs no seed, is the
    same in any order of the pairs, and no source is on both sides of it. At most half of the distinct sources are
    chosen, never a pair with an empty side, nor a source that by itself would fill the whole part. A line of a text
    counts as its own source.

    Args:
        pairs: pairs, or lines of a text.
        unit: what errors call them.

    Raises:
        DataError: there are not two distinct sources to divide.
    """
    found = Candidates()
    for pair in pairs:
        found.add(pair, place_of(pair))
    chosen = found.chosen(unit)
    return lambda pair: is_held_out(pair, chosen)


class Candidates:
    """The pairs that come into question for being held out: those of the smallest hashes, however many there are."""

    def __init__(self) -> None:
        self._pairs, self._most = 0, 2**64
        self._counts: Counter[int] = Counter()
        self._held: dict[int, list[tuple[int, Pair]]] = {}

    def add(self, pair: Pair, place: int | None) -> None:
        """Take the next pair of the corpus, with what `place_of` gives for it."""
        if place is None:
            return
        self._pairs += 1
        if place > self._most:
            return
        self._counts[place] += 1
        held = self._held.setdefault(place, [])
        if len(held) <= MAX_HELD_OUT:
            held.append((self._pairs, pair))
        if len(self._counts) > 2 * _KEPT:
            for other in sorted(self._counts)[_KEPT:]:
                del self._counts[other], self._held[other]
            self._most = max(self._counts)

    def chosen(self, unit: Literal["pairs", "lines"]) -> frozenset[int]:
        """Return the hashes of the sources that are held out.

        Args:
            unit: what errors call a pair.

        Raises:
            DataError: there are not two distinct sources to divide.
        """
        size = held_out_size(self._pairs)
        sources = sorted(self._counts)
        if len(sources) < 2:
            expected, options = _WANTED[unit]
            raise DataError(
                f"there are too few {unit} to hold some out for validation",
                expected=expected,
                found=f"{len(sources)}",
                hint=f"give more {unit}, or held-out ones of your own ({options})",
            )
        counts = np.array([self._counts[one] for one in sources])
        small = counts <= max(size, counts.min())
        enough = int(np.searchsorted(np.cumsum(counts[small]), size)) + 1
        return frozenset(np.array(sources, np.uint64)[small][: min(enough, len(sources) // 2)].tolist())

    def pairs(self, chosen: frozenset[int]) -> list[Pair]:
        """Return the pairs of chosen sources, in the order of the corpus."""
        return [pair for _, pair in sorted(one for place in chosen for one in self._held[place])]


def is_held_out(pair: Pair, chosen: frozenset[int]) -> bool:
    """Return whether a pair is of a source that was chosen."""
    return place_of(pair) in chosen


def place_of(pair: Pair) -> int | None:
    """Return the hash of a source by which pairs are held out, the smallest ones; None if a side is empty."""
    return text_hash("held out", skeleton(pair.sides[0])) if pair.is_complete else None
