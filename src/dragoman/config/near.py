"""Names that are spelled nearly like a known one: slips of the keyboard, not names that merely look alike."""

from __future__ import annotations

from collections.abc import Iterable

MOST_SHOWN = 3
_SHORT, _LONG = 5, 8  # letters of a word from which one letter, or two, may be wrong


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a name is a slip of, nearest first; none where that is not plain.

    Words between underscores are held against each other one by one, each beginning with the same letter: `min_steps`
    is no slip of `max_steps`. A forgotten underscore, or another case, is one.
    """
    wanted = _words(name)
    found = sorted((distance, one) for one in known if (distance := _slips(wanted, _words(one))) is not None)
    return [one for _, one in found][:MOST_SHOWN]


def _words(name: str) -> list[str]:
    return [word for word in name.lower().replace("-", "_").split("_") if word]


def _slips(given: list[str], ours: list[str]) -> int | None:
    """How many letters are wrong in all; None if too many."""
    here, there = "".join(given), "".join(ours)
    if here == there:
        return 0
    if len(given) != len(ours):
        return _slips_of_word(here, there) if min(len(given), len(ours)) == 1 and len(there) > _SHORT else None
    loose = len(there) >= _LONG
    found = [_slips_of_word(one, other, loose=loose) for one, other in zip(given, ours, strict=True)]
    return None if None in found else sum(one or 0 for one in found)


def _slips_of_word(given: str, ours: str, *, loose: bool = False) -> int | None:
    if given == ours:
        return 0
    if not given or given[0] != ours[0] or len(ours) < _SHORT - 1 or abs(len(given) - len(ours)) > 2:
        return None
    distance = _distance(given, ours)
    if len(ours) < _SHORT and not loose:  # alone, `test` is no slip of `text`
        return 1 if distance == 1 and (len(given) != len(ours) or sorted(given) == sorted(ours)) else None
    return distance if distance <= (2 if len(ours) >= _LONG else 1) else None


def _distance(given: str, ours: str) -> int:
    """Letters left out, added, exchanged with their neighbour or taken for another (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(ours) + 1))
    for i, letter in enumerate(given, 1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(ours, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == ours[j - 2] and given[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
