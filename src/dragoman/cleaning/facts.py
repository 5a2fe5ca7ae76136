"""What one reading of a corpus tells: what is usual in it, where its lines slipped, which pairs came before.

It is read in windows of some thousand pairs. What a window tells depends on its pairs alone (`look`), so windows may be
looked at by several processes; `merged` puts together what they found, in order. Memory does not grow with the corpus
but for one bit a pair and rule: hashes go to the disk, and texts that repeat are counted in a table of fixed size.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dragoman.cleaning.rules import Usual, is_empty, scripts_of
from dragoman.config.cleaning import CleaningConfig
from dragoman.data.repetitions import Repetitions
from dragoman.text import Pair
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.shifted import Lengths
from dragoman.text.sides import SideProfiles

# Lines of a file that are looked at together for a slip.
WINDOW = 10_000
# A slip that ends so close to the end of what was looked at may go on.
_GOES_ON = 200
# Of longer corpora so many lengths, evenly spread, tell what is usual.
_SAMPLE = 200_000
_SLOTS = 2**22  # of the table that counts texts that repeat
_MOST = 65_535  # that it counts
_PART_OF_SIDE = 0.25  # of the letters of a side: a script with fewer is not usual for it
_DIGITS = re.compile(r"\d+")
Arrays = dict[str, np.ndarray]


@dataclass
class Slip:
    """A stretch of a file in which sources and targets do not belong together: its first and its last line."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}, lines {self.first:,} to {self.last:,}"


class Repeats:
    """Counts how often texts come, in a table of fixed size: never too few, seldom too many; at most 65,535."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, _SLOTS), dtype=np.uint16)

    def add_all(self, keys: np.ndarray) -> None:
        """Count texts by their 64-bit hashes, uint64 [texts]."""
        for counts, slots in zip(self._counts, (keys % _SLOTS, (keys >> np.uint64(32)) % _SLOTS), strict=True):
            places, times = np.unique(slots.astype(np.int64), return_counts=True)
            counts[places] = np.minimum(counts[places] + times, _MOST).astype(np.uint16)

    def __getitem__(self, key: int) -> int:
        return min(int(self._counts[0][key % _SLOTS]), int(self._counts[1][(key >> 32) % _SLOTS]))


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


def near_key(source: str, target: str) -> int:
    """Return the hash of what remains of a pair without case, punctuation, blanks and digits."""
    return text_hash(*(skeleton(_DIGITS.sub("0", text)) for text in (source, target)))


def side_key(text: str) -> int:
    """Return the hash by which a text is counted: of it without case, punctuation and blanks."""
    return text_hash(skeleton(text))


@dataclass(frozen=True)
class Window:
    """Pairs of one file that follow each other.

    Attributes:
        texts: source and target of each.
        slip: the first of those that slipped, and the one after the last; the same where none did.
        where: the file, and the first and the last line of the slip.
    """

    texts: list[tuple[str, str]]
    slip: tuple[int, int]
    where: tuple[str, int, int]


def windows(pairs: Iterable[Pair], rules: frozenset[str]) -> Iterator[Window]:
    """Yield a corpus in windows. From the beginning of any window on, the rest of a corpus is cut alike.

    A slip that goes on at the end of a window is looked at again together with what follows, if anything does.

    Args:
        pairs: in the order of the files.
        rules: names of those that will be asked.
    """
    waiting: list[Pair] = []
    for pair in pairs:
        ends = bool(waiting) and pair.file != waiting[-1].file
        if ends or len(waiting) >= WINDOW:
            window = _window(waiting, rules, ends=ends)
            yield window
            waiting = waiting[len(window.texts) :]
        waiting.append(pair)
    if waiting:
        yield _window(waiting, rules, ends=True)


def _window(pairs: list[Pair], rules: frozenset[str], *, ends: bool) -> Window:
    begin, end = _slip(pairs) if "shifted" in rules else (0, 0)
    done = begin if not ends and begin and len(pairs) - end < _GOES_ON else len(pairs)
    end = max(begin, min(end, done))
    where = (pairs[begin].file, pairs[begin].line, pairs[end - 1].line) if begin < end else ("", 0, 0)
    return Window([pair[:2] for pair in pairs[:done]], (begin, end), where)


def _slip(pairs: list[Pair]) -> tuple[int, int]:
    """Where lines slipped: the first place and the one after the last; the same where they did not."""
    lengths = Lengths()
    lengths.add(pairs)
    found = lengths.stretches()
    if not found:
        return 0, 0
    numbers = [pair.line for pair in pairs]
    return numbers.index(found[0].first), numbers.index(found[0].last) + 1


def look(rules: frozenset[str], window: Window) -> Arrays:
    """Return what a window tells, as arrays.

    Args:
        rules: names of those that will be asked.
        window: some pairs.
    """
    texts, (begin, end) = window.texts, window.slip
    good = [pair for place, pair in enumerate(texts) if not begin <= place < end]
    found: Arrays = {"pairs": np.array([len(texts), begin, end]), "exact": _keys(text_hash(*pair) for pair in texts)}
    if "near duplicate" in rules:
        found["near"] = _keys(near_key(*pair) for pair in texts)
    if "boilerplate" in rules:
        found["sides"] = _keys(side_key(text) for pair in texts for text in pair).reshape(-1, 2)
    ratios, scripts = np.full(len(texts), np.nan, np.float32), (Counter[str](), Counter[str]())
    for place, pair in enumerate(texts):
        if not begin <= place < end and not is_empty(*pair, Usual(), CleaningConfig()):
            ratios[place] = math.log((len(pair[0]) + 1) / (len(pair[1]) + 1))
            for counts, text in zip(scripts, pair, strict=True):
                counts.update(scripts_of(text))
    found["ratios"] = ratios
    told = json.dumps({"where": window.where, "scripts": scripts}).encode()
    found["told"] = np.frombuffer(told, np.uint8)
    if "exchanged" in rules and good:
        profiles = SideProfiles()
        profiles.add(*([pair[side] for pair in good] for side in (0, 1)))
        for name in ("bigrams", "blocks"):
            counts = getattr(profiles, name)
            found[name] = np.stack([*np.nonzero(counts), counts[counts > 0]])
    return found


def _keys(keys: Iterable[int]) -> np.ndarray:
    return np.frombuffer(array("Q", keys), np.uint64)


def merged(found: Iterable[Arrays], folder: Path, rules: frozenset[str]) -> Facts:
    """Return the facts of a corpus.

    Args:
        found: what each window told, in order.
        folder: for hashes; must not exist.
        rules: names of those that will be asked.
    """
    merging = _Merging(folder, rules)
    for arrays in found:
        merging.add(arrays)
    return merging.facts()


class _Merging:
    def __init__(self, folder: Path, rules: frozenset[str]) -> None:
        self._rules, self._total = rules, 0
        self._exact, self._near = (Repetitions(folder / name) for name in ("exact", "near"))
        self._profiles, self._repeats = SideProfiles(), (Repeats(), Repeats())
        self._slips: list[Slip] = []
        self._shifted: list[tuple[int, int]] = []  # first place, and the one after the last
        self._ratios, self._stride, self._seen = array("f"), 1, 0
        self._scripts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._paired = np.zeros(_SLOTS, dtype=bool)  # pairs that were counted among `repeats`

    def add(self, found: Arrays) -> None:
        """Take what the next window told."""
        count, begin, end = found["pairs"].tolist()
        told = json.loads(found["told"].tobytes())
        # What will be dropped anyway must not be what a later pair is a repetition of.
        stays = np.ones(count, dtype=bool)
        stays[begin:end] = False
        self._exact.add_all(found["exact"], stays)
        if "near" in found:
            self._near.add_all(found["near"], stays)
        if begin < end:
            self._shifted.append((self._total + begin, self._total + end))
            self._note(*told["where"])
        full = ~np.isnan(found["ratios"])
        self._take_ratios(found["ratios"][full])
        for counts, more in zip(self._scripts, told["scripts"], strict=True):
            counts.update(more)
        if "sides" in found:
            self._count_sides(found["exact"][full], found["sides"][full])
        for name in ("bigrams", "blocks"):
            if name in found:
                sides, places, counts = found[name]
                getattr(self._profiles, name)[sides, places] += counts
        self._total += count

    def _take_ratios(self, ratios: np.ndarray) -> None:
        self._ratios.frombytes(ratios[-self._seen % self._stride :: self._stride].tobytes())
        self._seen += len(ratios)
        while len(self._ratios) >= 2 * _SAMPLE:
            self._ratios, self._stride = self._ratios[::2], 2 * self._stride

    def _count_sides(self, exact: np.ndarray, sides: np.ndarray) -> None:
        """Count both sides of each pair that comes for the first time."""
        slots, first = np.unique((exact % _SLOTS).astype(np.int64), return_index=True)
        new = ~self._paired[slots]
        self._paired[slots[new]] = True
        for repeats, keys in zip(self._repeats, sides[first[new]].T, strict=True):
            repeats.add_all(keys)

    def _note(self, file: str, first: int, last: int) -> None:
        """Remember a slip; one that follows another closely is the same."""
        before = self._slips[-1] if self._slips else None
        if before is not None and before.file == file and first - before.last <= _GOES_ON:
            before.last = last
        else:
            self._slips.append(Slip(file, first, last))

    def facts(self) -> Facts:
        """Return the facts of all that was taken."""
        shifted = np.zeros(self._total, dtype=bool)
        for begin, end in self._shifted:
            shifted[begin:end] = True
        none = np.zeros(-(-self._total // 8), np.uint8)
        return Facts(
            pairs=self._total,
            usual=Usual(float(np.median(self._ratios)) if self._ratios else 0.0, self._usual_scripts()),
            profiles=self._profiles,
            slips=self._slips,
            shifted=np.packbits(shifted),
            duplicate=self._exact.found(),
            near=self._near.found() if "near duplicate" in self._rules else none,
            repeats=self._repeats,
        )

    def _usual_scripts(self) -> tuple[frozenset[str], frozenset[str]]:
        source, target = (
            frozenset(name for name, count in side.items() if count >= _PART_OF_SIDE * side.total())
            for side in self._scripts
        )
        return source, target
