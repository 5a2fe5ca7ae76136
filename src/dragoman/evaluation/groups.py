"""Lines of a test set put into groups: by length, by what the model does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.evaluation.words import split_words

GROUPS = 5


@dataclass(frozen=True)
class LineGroup:
    """Some lines of a test set.

    Attributes:
        label: what they have in common.
        rows: their indices, from 0, ascending.
    """

    label: str
    rows: tuple[int, ...]


def group_by_seconds(seconds: Sequence[float]) -> tuple[str, list[LineGroup]]:
    """Return the unit of length and groups as `group_by_length` does, of sounds: tenths of seconds are told apart."""
    return "seconds", _groups([round(10 * one) for one in seconds], lambda count: f"{count / 10:.1f}")


def group_by_length(texts: Sequence[str]) -> tuple[str, list[LineGroup]]:
    """Return the unit of length ("words", "characters") and at most `GROUPS` groups of about as many lines each.

    Characters (white space aside) are counted where most lines are single words. Lines of one length stay together.
    """
    counts = [len(split_words(text)) for text in texts]
    unit = "words"
    if 2 * sum(count <= 1 for count in counts) > len(counts):
        counts, unit = [len("".join(text.split())) for text in texts], "characters"
    return unit, _groups(counts, str)


def _groups(counts: Sequence[int], told: Callable[[int], str]) -> list[LineGroup]:
    ranked = sorted(counts)
    edges = sorted({ranked[min(len(ranked) * part // GROUPS, len(ranked) - 1)] for part in range(1, GROUPS)})
    groups = []
    for low, high in zip([ranked[0], *(edge + 1 for edge in edges)], [*edges, ranked[-1]], strict=True):
        rows = tuple(row for row, count in enumerate(counts) if low <= count <= high)
        if rows:
            groups.append(LineGroup(told(low) if low == high else f"{told(low)}-{told(high)}", rows))
    return groups


def group_by_unknown(unknown: Sequence[int]) -> list[LineGroup]:
    """Return groups of lines by how many pieces of their source the vocabulary lacks: none, one, more."""
    labels = ("none", "1", "2 or more")
    rows: list[list[int]] = [[] for _ in labels]
    for row, count in enumerate(unknown):
        rows[min(count, 2)].append(row)
    return [LineGroup(label, tuple(found)) for label, found in zip(labels, rows, strict=True) if found]
