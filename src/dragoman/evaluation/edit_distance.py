"""Edit distance between two sequences of anything hashable."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


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
