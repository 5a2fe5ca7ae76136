"""What one reading of a corpus tells: what is usual in it, where its lines slipped, which pairs came before.

Memory does not grow with the corpus but for one bit a pair and rule: hashes go to the disk, texts that repeat are
counted in a table of fixed size, and lines are looked at some thousands at a time.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dragoman.cleaning.rules import Usual, is_empty, scripts_of
from dragoman.config.cleaning import CleaningConfig
from dragoman.data.repetitions import Repetitions, is_marked
from dragoman.pace import Pace
from dragoman.text import Pair
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.shifted import Lengths
from dragoman.text.sides import SideProfiles

# Lines of a file that are looked at together for a slip.
WINDOW = 10_000
# A slip that ends so close to the end of what was looked at may go on.
_GOES_ON = 200
# Of longer corpora so many lengths and texts, evenly spread, tell what is usual.
_SAMPLE = 200_000
_SLOTS = 2**22  # of the table that counts texts that repeat
_PART_OF_SIDE = 0.25  # of the letters of a side: a script with fewer is not usual for it
_DIGITS = re.compile(r"\d+")


@dataclass
class Slip:
    """A stretch of a file in which sources and targets do not belong together: its first and its last line."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}, lines {self.first:,} to {self.last:,}"


class Repeats:
    """Counts how often texts come, in a table of fixed size: never too few, seldom too many."""

    def __init__(self) -> None:
        self._counts = [array("H", bytes(2 * _SLOTS)) for _ in range(2)]

    def add(self, key: int) -> None:
        """Count a text by its 64-bit hash; beyond 65,535 no more."""
        for counts, slot in zip(self._counts, (key % _SLOTS, (key >> 32) % _SLOTS), strict=True):
            counts[slot] = min(counts[slot] + 1, 65_535)

    def __getitem__(self, key: int) -> int:
        return min(self._counts[0][key % _SLOTS], self._counts[1][(key >> 32) % _SLOTS])


@dataclass
class Facts:
    """What the first reading of a corpus found.

    Attributes:
        pairs: how many there are.
        usual: what the rules of one pair go by.
        profiles: the characters of both sides.
        slips: stretches of files that do not belong together.
        shifted: a bit for each pair: whether it is in one.
        duplicate: a bit for each pair: whether it came before.
        near: a bit for each pair: whether it came before but for case, punctuation, blanks and digits.
        repeats: of source and target: in how many pairs a text stands.
    """

    pairs: int
    usual: Usual
    profiles: SideProfiles
    slips: list[Slip]
    shifted: np.ndarray
    duplicate: np.ndarray
    near: np.ndarray
    repeats: tuple[Repeats, Repeats] = field(repr=False)

    def is_shifted(self, place: int) -> bool:
        """Return whether the pair at a place is in a stretch that slipped."""
        return is_marked(self.shifted, place)


def near_key(source: str, target: str) -> int:
    """Return the hash of what remains of a pair without case, punctuation, blanks and digits."""
    return text_hash(*(skeleton(_DIGITS.sub("0", text)) for text in (source, target)))


def side_key(text: str) -> int:
    """Return the hash by which a text is counted: of it without case, punctuation and blanks."""
    return text_hash(skeleton(text))


def find_facts(
    pairs: Iterable[Pair], folder: Path, rules: frozenset[str], settings: CleaningConfig, report: Callable[[str], None]
) -> Facts:
    """Read a corpus once and return what it tells.

    Args:
        pairs: in the order of the files.
        folder: for hashes; must not exist.
        rules: names of those that will be asked.
        settings: the thresholds.
        report: takes a line of plain text now and then.

    Raises:
        DataError: a file cannot be read.
    """
    reader, pace = _Reader(folder, rules, settings), Pace(report, "first reading: pairs", None)
    window: list[Pair] = []
    for pair in pairs:
        ends = bool(window) and pair.file != window[-1].file
        if ends or len(window) >= WINDOW:
            window = window[reader.read(window, ends=ends) :]
            pace.at(reader.total)
        window.append(pair)
    reader.read(window, ends=True)
    return reader.facts()


class _Reader:
    """The first reading: takes windows, and makes facts of them."""

    def __init__(self, folder: Path, rules: frozenset[str], settings: CleaningConfig) -> None:
        self._rules, self._settings, self.total = rules, settings, 0
        self._exact, self._near = (Repetitions(folder / name) for name in ("exact", "near"))
        self._profiles, self._repeats = SideProfiles(), (Repeats(), Repeats())
        self._slips: list[Slip] = []
        self._shifted: list[tuple[int, int]] = []  # first place, and the one after the last
        self._ratios, self._stride, self._seen = array("f"), 1, 0
        self._scripts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._paired = np.zeros(_SLOTS, dtype=bool)  # pairs that were counted among `repeats`

    def read(self, window: list[Pair], *, ends: bool) -> int:
        """Take pairs of one file that follow each other; return how many of them are done with.

        A slip that goes on at the end of the window is looked at again together with what follows, if anything does.
        """
        begin, end = self._slip(window) if "shifted" in self._rules and window else (0, 0)
        done = begin if not ends and begin and len(window) - end < _GOES_ON else len(window)
        if begin < min(end, done):
            self._note(window, begin, end)
        good = [pair for place, pair in enumerate(window[:done]) if not begin <= place < end]
        if "exchanged" in self._rules and good:
            self._profiles.add([pair.source for pair in good], [pair.target for pair in good])
        for place, pair in enumerate(window[:done]):
            self._look(pair, slipped=begin <= place < end)
        self.total += done
        return done

    def _look(self, pair: Pair, *, slipped: bool) -> None:
        key, near = text_hash(*pair[:2]), near_key(*pair[:2]) if "near duplicate" in self._rules else 0
        # What will be dropped anyway must not be what a later pair is a repetition of.
        for found, one in ((self._exact, key), (self._near, near)):
            found.skip() if slipped else found.add(one)
        if slipped or is_empty(pair.source, pair.target, Usual(), self._settings):
            return
        if self._seen % self._stride == 0:
            self._ratios.append(math.log((len(pair.source) + 1) / (len(pair.target) + 1)))
            for side, text in enumerate(pair[:2]):
                self._scripts[side].update(scripts_of(text))
            if len(self._ratios) >= 2 * _SAMPLE:
                self._ratios, self._stride = self._ratios[::2], 2 * self._stride
        self._seen += 1
        if "boilerplate" in self._rules and not self._paired[key % _SLOTS]:
            self._paired[key % _SLOTS] = True
            for side, text in enumerate(pair[:2]):
                self._repeats[side].add(side_key(text))

    def _slip(self, window: list[Pair]) -> tuple[int, int]:
        """Where in a window lines slipped: the first place and the one after the last; the same where they did not."""
        lengths = Lengths()
        lengths.add(window)
        found = lengths.stretches()
        if not found:
            return 0, 0
        numbers = [pair.line for pair in window]
        return numbers.index(found[0].first), numbers.index(found[0].last) + 1

    def _note(self, window: list[Pair], begin: int, end: int) -> None:
        """Remember a slip; one that follows another closely is the same."""
        self._shifted.append((self.total + begin, self.total + end))
        file, first, last = window[begin].file, window[begin].line, window[end - 1].line
        before = self._slips[-1] if self._slips else None
        if before is not None and before.file == file and first - before.last <= _GOES_ON:
            before.last = last
        else:
            self._slips.append(Slip(file, first, last))

    def facts(self) -> Facts:
        """Return what was found."""
        shifted = np.zeros(self.total, dtype=bool)
        for begin, end in self._shifted:
            shifted[begin:end] = True
        return Facts(
            pairs=self.total,
            usual=Usual(float(np.median(self._ratios)) if self._ratios else 0.0, self._usual_scripts()),
            profiles=self._profiles,
            slips=self._slips,
            shifted=np.packbits(shifted),
            duplicate=self._exact.found(),
            near=self._near.found(),
            repeats=self._repeats,
        )

    def _usual_scripts(self) -> tuple[frozenset[str], frozenset[str]]:
        source, target = (
            frozenset(name for name, count in side.items() if count >= _PART_OF_SIDE * side.total())
            for side in self._scripts
        )
        return source, target
