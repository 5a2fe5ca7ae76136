"""Outputs that are wrong at a glance: empty, copied, in circles, cut short, far too short or too long."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from dragoman.evaluation.references import References, reference_lists
from dragoman.evaluation.words import split_words

# A loop has so many repeats at least, and so many words beyond the first.
_REPEATS, _MORE_WORDS = 3, 3
# Models go in circles of some words; looking for larger ones takes time that grows with the square of a line.
_MOST_WORDS = 100
# Lengths are far apart if one is more than this many times the other, and this many characters more.
_RATIO, _MORE_CHARACTERS = 2, 10


class Repeat(NamedTuple):
    """An n-gram that stands several times in a row: its size, and how often."""

    size: int
    times: int


@dataclass(frozen=True)
class Faults:
    """Numbers of the lines, from 1, whose output has a fault; one output can have several.

    Attributes:
        empty: nothing but white space, though no reference is empty.
        invented: text, though every reference is blank.
        copied: the source, but for case and white space, though no reference is the same; None if not known.
        looping: an n-gram stands 3 times or more in a row (a single word 4 times), more often than in any reference.
        cut: the model did not end it: it reached the length limit; None if not known.
        short: not empty, but less than half as long as every reference, by more than 10 characters.
        long: more than twice as long as every reference, by more than 10 characters.
    """

    empty: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
    copied: tuple[int, ...] | None = None
    looping: tuple[int, ...] = ()
    cut: tuple[int, ...] | None = None
    short: tuple[int, ...] = ()
    long: tuple[int, ...] = ()

    @property
    def lines(self) -> tuple[int, ...]:
        """Every line with a fault, once."""
        return tuple(sorted({line for one in fields(self) for line in getattr(self, one.name) or ()}))


@dataclass(frozen=True)
class ErrorKinds:
    """Numbers of the lines, from 1, by what kept a reference from being written (Stahlberg and Byrne 2019).

    Attributes:
        written: nothing: it is the output.
        model: the model finds its output likelier; no wider search would help.
        search: the model finds a reference likelier than the output, and the search missed it.
        unknown: its vocabulary lacks something of every reference.
    """

    written: tuple[int, ...] = ()
    model: tuple[int, ...] = ()
    search: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()


def find_faults(
    hypotheses: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    *,
    cut: Collection[int] | None = None,
) -> Faults:
    """Look through outputs for faults.

    Args:
        hypotheses: one line for each item.
        references: for each item one line, or a sequence of alternatives.
        sources: what was translated, if known.
        cut: numbers of the lines, from 1, that the model did not end, if known.

    Raises:
        DataError: the counts differ, there is nothing to look through, or references are missing or all blank.
    """
    lists = reference_lists(hypotheses, references)
    given = [None] * len(hypotheses) if sources is None else sources
    found: dict[str, list[int]] = {one.name: [] for one in fields(Faults)}
    for number, (line, alternatives, source) in enumerate(zip(hypotheses, lists, given, strict=True), start=1):
        for name in _faults(line, alternatives, source):
            found[name].append(number)
    return Faults(
        empty=tuple(found["empty"]),
        invented=tuple(found["invented"]),
        copied=None if sources is None else tuple(found["copied"]),
        looping=tuple(found["looping"]),
        cut=None if cut is None else tuple(sorted(cut)),
        short=tuple(found["short"]),
        long=tuple(found["long"]),
    )


def longest_repeat(words: Sequence[Hashable]) -> Repeat:
    """Return the n-gram (n <= 100) that stands most often in a row, and how often; (0, 1) if none repeats."""
    best = Repeat(0, 1)
    for size in range(1, min(_MOST_WORDS, len(words) // 2) + 1):
        if size * (best.times + 1) > len(words):
            break
        run = longest = 0
        for left, right in zip(words, words[size:], strict=False):
            run = run + 1 if left == right else 0
            longest = max(longest, run)
        if longest // size + 1 > best.times:
            best = Repeat(size, longest // size + 1)
    return best


def _faults(line: str, references: Sequence[str], source: str | None) -> list[str]:
    """The faults of one output that is not known to be cut."""
    if not line.strip():
        return [] if any(not text.strip() for text in references) else ["empty"]
    found = [] if any(text.strip() for text in references) else ["invented"]
    if source is not None and _bare(line) == _bare(source) and _bare(line) not in map(_bare, references):
        found.append("copied")
    repeat = longest_repeat(split_words(line))
    looping = repeat.times >= _REPEATS and (repeat.times - 1) * repeat.size >= _MORE_WORDS
    if looping and repeat.times > max(longest_repeat(split_words(text)).times for text in references):
        found.append("looping")
    lengths = [len(text.strip()) for text in references]
    if _far_longer(min(lengths), len(line.strip())):
        found.append("short")
    elif _far_longer(len(line.strip()), max(lengths)):
        found.append("long")
    return found


def _bare(text: str) -> str:
    return " ".join(text.casefold().split())


def _far_longer(one: int, other: int) -> bool:
    return one > _RATIO * other and one - other > _MORE_CHARACTERS
