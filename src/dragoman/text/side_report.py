"""What the doctor says of any corpus; of one side of it, lengths and lines with something odd in them."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_ODDITIES = {
    "blanks at an end": re.compile(r"\A\s|\s\Z"),
    "several blanks in a row": re.compile(r"\S\s\s+\S"),
    "tabs": re.compile(r"\t"),
    "control characters": re.compile("[\x01-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"),
    "invisible characters": re.compile("[\u00ad\u200b\u2060\ufeff]"),
    "blanks other than the space": re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"),
    "replacement characters": re.compile("\ufffd"),
}
_NOT_NFC = "characters that are not composed (NFC)"


@dataclass(frozen=True)
class Report(ABC):
    """What the doctor found in a corpus, for people and for programs."""

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values for JSON, warnings included."""
        return {**asdict(self), "warnings": list(self.warnings)}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look before training, one sentence each."""
        return tuple(self._warnings())

    def lines(self) -> list[str]:
        """Return the report as readable lines."""
        return list(self._lines())

    @abstractmethod
    def _warnings(self) -> Iterator[str]: ...

    @abstractmethod
    def _lines(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class Lengths:
    """Lengths of the texts of one side."""

    mean: float = 0.0
    median: int = 0
    p95: int = 0
    max: int = 0


@dataclass(frozen=True)
class SideReport:
    """One side of a corpus: lengths in characters and in whitespace-separated tokens, and lines with oddities."""

    empty: int
    characters: Lengths
    tokens: Lengths
    oddities: dict[str, int]


@dataclass
class SideTally:
    """What a `SideReport` is made of, filled by `add`."""

    empty: int = 0
    characters: Counter[int] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one line."""
        self.characters[len(text)] += 1
        self.tokens[len(text.split())] += 1
        self.empty += not text.strip()
        for name, pattern in _ODDITIES.items():
            if pattern.search(text):
                self.oddities[name] += 1
        if not unicodedata.is_normalized("NFC", text):
            self.oddities[_NOT_NFC] += 1

    def report(self) -> SideReport:
        """Return a report on what was counted so far."""
        return SideReport(self.empty, _lengths(self.characters), _lengths(self.tokens), dict(self.oddities))


def side_lines(name: str, side: SideReport) -> Iterator[str]:
    """Yield the report on a side as readable lines."""
    units = [("characters", side.characters)]
    if side.tokens.p95 > 1:  # else it is written without blanks between words
        units.append(("words between blanks", side.tokens))
    for unit, lengths in units:
        yield (
            f"{name} {unit}: mean {lengths.mean:.1f}, median {lengths.median}, 95 % up to {lengths.p95}, "
            f"longest {lengths.max:,}"
        )
    yield f"{name} empty lines: {side.empty:,}"
    yield from (f"{name} lines with {oddity}: {count:,}" for oddity, count in sorted(side.oddities.items()))


def untrained(dev: T | None, test: T | None) -> Iterator[tuple[str, T]]:
    """Yield the parts that are not trained on, as far as there are any, with their names."""
    for name, part in (("held-out", dev), ("test", test)):
        if part is not None:
            yield name, part


def damage_warnings(*sides: SideReport, normalize: str = "none") -> Iterator[str]:
    """Yield a sentence for each sign that the text was damaged before it came here, or is written in several ways."""
    for name in ("control characters", "replacement characters"):
        if count := sum(side.oddities.get(name, 0) for side in sides):
            yield f"{count:,} lines have {name}: the text was probably damaged earlier"
    if normalize not in ("none", "chosen"):
        return
    sides = sides[-1:] if normalize == "chosen" else sides  # that of sources is
    for name in ("invisible characters", "blanks other than the space", "blanks at an end", _NOT_NFC):
        if count := sum(side.oddities.get(name, 0) for side in sides):
            rule = "nfc" if name == _NOT_NFC else "blanks"
            yield f"{count:,} lines have {name}: tokenizer.normalize = {rule} writes them alike"


def _lengths(counts: Counter[int]) -> Lengths:
    total = counts.total()
    if not total:
        return Lengths()
    lengths = np.array(sorted(counts))
    upto = np.cumsum([counts[int(length)] for length in lengths])
    median, p95 = (int(lengths[np.searchsorted(upto, share * total)]) for share in (0.5, 0.95))
    return Lengths(round(sum(n * c for n, c in counts.items()) / total, 2), median, p95, int(lengths[-1]))
