"""Edit distance between two sequences of anything hashable, and the kinds of edits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np


class Edits(NamedTuple):
    """The edits that turn what was expected into what came.

    Attributes:
        insertions: of what was not expected.
        deletions: of what was expected.
        substitutions: of one for another.
    """

    insertions: int
    deletions: int
    substitutions: int


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn `left` into `right` (Levenshtein).

    A column of the classical table is held as two sets of bits, where the distance goes up by one and where it goes
    down by one, and each symbol of `right` moves a whole column at once (Myers 1999, in the form of Hyyrö 2003).
    Python's integers have as many bits as `left` is long.
    """
    if not left:
        return len(right)
    places: dict[Hashable, int] = {}
    for index, symbol in enumerate(left):
        places[symbol] = places.get(symbol, 0) | 1 << index
    every = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    up, down, distance = every, 0, len(left)
    for symbol in right:
        equal = places.get(symbol, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down  # cells equal to their upper left neighbour
        right_up = down | (every & ~(diagonal | up))
        right_down = diagonal & up
        distance += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = right_up << 1 | 1, right_down << 1
        up = (right_down | ~(diagonal | right_up)) & every
        down = right_up & diagonal & every
    return distance


def edit_kinds(found: Sequence[Hashable], expected: Sequence[Hashable]) -> Edits:
    """Return the edits that turn `expected` into `found`: the fewest, and as many of them substitutions as can be."""
    start = next((at for at, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), None)
    if start is None:
        return Edits(max(0, len(found) - len(expected)), max(0, len(expected) - len(found)), 0)
    numbers: dict[Hashable, int] = {}
    new, old = (np.array([numbers.setdefault(one, len(numbers)) for one in side[start:]]) for side in (found, expected))
    # An edit costs so much that one less outweighs any number of insertions and deletions, which cost one more each.
    edit = len(new) + len(old) + 1
    across = np.arange(len(new) + 1) * (edit + 1)
    row = across
    for symbol in old:
        left = row[0] + edit + 1
        best = np.minimum(row[1:] + edit + 1, row[:-1] + edit * (new != symbol))
        row = np.minimum.accumulate(np.concatenate([[left], best]) - across) + across
    count, gaps = divmod(int(row[-1]), edit)
    more = len(new) - len(old)
    return Edits((gaps + more) // 2, (gaps - more) // 2, count - gaps)
