"""The corpus doctor for one text: what is in it, said before hours are spent on it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.text.corpus import Pair
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.side_report import Report, SideReport, SideTally, damage_warnings, side_lines, untrained


@dataclass(frozen=True)
class HeldOutText:
    """The held-out lines, and how many of them training has seen (case, punctuation and blanks aside)."""

    lines: int
    empty: int
    in_train: int


@dataclass(frozen=True)
class TextReport(Report):
    """What `text_report` found.

    Attributes:
        line_count: lines read.
        text: their lengths and oddities.
        duplicate_lines: exact repetitions of an earlier line, empty ones aside.
        dev: the held-out lines, if there are any.
        test: the test lines, if they were named (only to be compared with training).
        drop_duplicates, drop_overlap, normalize: the settings, for nothing is said of what they see to.
    """

    line_count: int
    text: SideReport
    duplicate_lines: int
    dev: HeldOutText | None = None
    test: HeldOutText | None = None
    drop_duplicates: bool = False
    drop_overlap: bool = False
    normalize: str = "none"

    def _lines(self) -> Iterator[str]:
        yield f"{self.line_count:,} lines"
        yield from side_lines("text", self.text)
        yield f"exact repetitions of a line: {self.duplicate_lines:,}"
        for name, part in untrained(self.dev, self.test):
            yield f"{part.lines:,} {name} lines, empty: {part.empty:,}, in training too: {part.in_train:,}"

    def _warnings(self) -> Iterator[str]:
        lines = max(self.line_count, 1)
        if self.text.empty > 0.05 * lines:
            yield f"{self.text.empty:,} lines are empty: they are left out of training"
        if self.duplicate_lines > 0.05 * lines and not self.drop_duplicates:
            yield f"{self.duplicate_lines:,} lines are exact repetitions: consider drop_duplicates"
        yield from damage_warnings(self.text, normalize=self.normalize)
        for name, part in untrained(self.dev, self.test):
            if part.in_train > 0.01 * part.lines and not (name == "held-out" and self.drop_overlap):
                advice = "consider drop_overlap" if name == "held-out" else "take them out of training"
                yield f"{part.in_train:,} {name} lines are in training too: numbers will flatter; {advice}"


def text_report(
    train: Iterable[Pair],
    dev: Iterable[Pair] | None = None,
    test: Iterable[Pair] | None = None,
    *,
    drop_duplicates: bool = False,
    drop_overlap: bool = False,
    normalize: str = "none",
) -> TextReport:
    """Read a text once and say what is in it.

    Lines are kept as 8-byte hashes only: 16 bytes of memory a line, whatever its length.

    Args:
        train: the lines (`TextCorpus`).
        dev: held-out lines, compared with the training lines.
        test: test lines, compared likewise.
        drop_duplicates, drop_overlap, normalize: the settings, for nothing is said of what they see to.

    Raises:
        DataError: a file cannot be read as text.
    """
    tally = _Tally()
    for line in train:
        tally.add(line.target)
    seen, counts = np.unique(tally.exact, return_counts=True)
    return TextReport(
        line_count=tally.lines,
        text=tally.side.report(),
        duplicate_lines=int(counts.sum()) - len(seen),
        dev=None if dev is None else _held_out_report(dev, tally),
        test=None if test is None else _held_out_report(test, tally),
        drop_duplicates=drop_duplicates,
        drop_overlap=drop_overlap,
        normalize=normalize,
    )


class _Tally:
    def __init__(self) -> None:
        self.lines = 0
        self.side = SideTally()
        self.exact, self.alike = array("Q"), array("Q")

    def add(self, text: str) -> None:
        self.lines += 1
        self.side.add(text)
        if text.strip():
            self.exact.append(text_hash(text))
            self.alike.append(text_hash(skeleton(text)))


def _held_out_report(held_out: Iterable[Pair], train: _Tally) -> HeldOutText:
    tally = _Tally()
    for line in held_out:
        tally.add(line.target)
    return HeldOutText(tally.lines, tally.side.empty, int(np.isin(tally.alike, train.alike).sum()))
