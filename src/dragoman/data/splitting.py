"""Held-out pairs, or lines of a text, taken from the training ones when a user brings none."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np

from dragoman.errors import DataError
from dragoman.text.corpus import Pair
from dragoman.text.keys import skeleton, text_hash

MAX_HELD_OUT = 1000
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
    hashes = np.asarray(array("Q", (_place(pair) for pair in pairs if pair.is_complete)), dtype=np.uint64)
    size = held_out_size(len(hashes))
    sources, counts = np.unique(hashes, return_counts=True)
    if len(sources) < 2:
        expected, options = _WANTED[unit]
        raise DataError(
            f"there are too few {unit} to hold some out for validation",
            expected=expected,
            found=f"{len(sources)}",
            hint=f"give more {unit}, or held-out ones of your own ({options})",
        )
    small = counts <= max(size, counts.min())
    upto = np.cumsum(counts[small])
    enough = int(np.searchsorted(upto, size)) + 1
    chosen = frozenset(sources[small][: min(enough, len(sources) // 2)].tolist())
    return lambda pair: pair.is_complete and _place(pair) in chosen


def _place(pair: Pair) -> int:
    return text_hash("held out", skeleton(pair.sides[0]))
