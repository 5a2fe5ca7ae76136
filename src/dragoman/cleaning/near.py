"""Pairs that are alike but for a word or two: MinHash finds which may be, and their words tell whether they are.

A pair counts as the set of its words and of its pairs of neighbouring words, on both sides. How alike two pairs are is
the part of both sets together that they share (Jaccard). Bands of a MinHash of the set (Broder 1997; Indyk and Motwani
1998) are equal for pairs that are alike, and seldom for others; what they find is compared exactly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

# Smallest hashes that a pair has, and the part of the pairs just as alike as asked for that bands are to find.
_HASHES, _FOUND = 64, 0.95
_PART = 2**22  # band keys that are held in memory at a time
_COMPARED = 2**14  # pairs of pairs that are compared at a time
# Scripts that put no blanks between words: each of their characters is a word.
_NO_BLANKS = {"CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE"}
_BETWEEN, _IN_WORD, _DIGIT, _ALONE, _UNKNOWN = range(5)
_LINE = 10
_WORD, _TWO, _EDGE = 0x9E3779B97F4A7C15, 0x3C6EF372FE94F82A, 0xDAA66D2C7DDF743F


@dataclass(frozen=True)
class Sets:
    """The sets of some pairs, and their bands.

    Attributes:
        members: hashes of the words of each pair, sorted, pair after pair, uint32.
        sizes: how many each pair has, uint32 [pairs].
        bands: keys, the first of which is that of the whole set, uint32 [1 + bands, pairs].
    """

    members: np.ndarray
    sizes: np.ndarray
    bands: np.ndarray


def shape_of_bands(similarity: float) -> tuple[int, int]:
    """Return how many bands there are, and of how many hashes: as many as still find what is just so similar."""
    rows = _HASHES
    while rows > 1 and 1 - (1 - similarity**rows) ** (_HASHES // rows) < _FOUND:
        rows -= 1
    return _HASHES // rows, rows


def sets_of(pairs: Sequence[tuple[str, str]], similarity: float) -> Sets:
    """Return the words of pairs and the bands that find those as similar as this.

    Case, punctuation, blanks, digits and width do not count.

    Args:
        pairs: source and target of each.
        similarity: 0 to 1.
    """
    words, text_of = _words([text for pair in pairs for text in pair])
    hashes, pair_of = _shingles(words, text_of)
    tagged = np.unique(pair_of << np.uint64(32) | hashes >> np.uint64(32))
    sizes = np.bincount((tagged >> np.uint64(32)).astype(np.int64), minlength=len(pairs)).astype(np.uint32)
    members = tagged.astype(np.uint32)  # the lower half
    return Sets(members, sizes, _bands(members, sizes, *shape_of_bands(similarity)))


def _mixed(values: np.ndarray) -> np.ndarray:
    """Each number as another one of 64 bits, in which every bit depends on all (SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@cache
def _kinds() -> np.ndarray:
    """What each code point is to a word, filled as characters come."""
    return np.full(0x110000, _UNKNOWN, dtype=np.uint8)


def _kinds_of(points: np.ndarray) -> np.ndarray:
    table = _kinds()
    found = table[points]
    if (new := np.unique(points[found == _UNKNOWN])).size:
        table[new] = [_kind_of(chr(point)) for point in new.tolist()]
        found = table[points]
    return found


def _kind_of(character: str) -> int:
    category = unicodedata.category(character)
    if category == "Nd":
        return _DIGIT
    if category[0] not in "LNMS":
        return _BETWEEN
    return _ALONE if unicodedata.name(character, "").partition(" ")[0] in _NO_BLANKS else _IN_WORD


def _words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each word, and the text in which it stands."""
    joined = "".join(
        f"{text.lower() if text.isascii() else unicodedata.normalize('NFKC', text).casefold()}".replace("\n", " ")
        + "\n"
        for text in texts
    )
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds_of(points)
    text_of = np.cumsum(points == _LINE) - (points == _LINE)
    digits = kinds == _DIGIT
    # One zero for each number, as for those that are equal but for digits.
    counts = (kinds != _BETWEEN) & ~(digits & np.append(False, digits[:-1]))
    follows = np.append(False, (kinds != _BETWEEN)[:-1])
    starts = ~follows | (kinds == _ALONE) | np.append(False, (kinds == _ALONE)[:-1])
    points = np.where(digits, ord("0"), points)[counts].astype(np.uint64)
    begins = np.flatnonzero(starts[counts])
    if not begins.size:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    place = np.arange(len(points)) - np.repeat(begins, np.diff(np.append(begins, len(points))))
    letters = _mixed(points << np.uint64(32) | place.astype(np.uint64))
    return np.add.reduceat(letters, begins), text_of[counts][begins]


def _shingles(words: np.ndarray, text_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each word and of each two that follow each other, the ends of a text included; and its pair."""
    if not words.size:
        return words, words
    first = np.append(True, text_of[1:] != text_of[:-1])
    last = np.append(first[1:], True)
    before = np.where(first, np.uint64(_EDGE), np.append(np.uint64(_EDGE), words[:-1]))
    found = [words + _WORD, _mixed(before + _TWO) + words, (_mixed(words + _TWO) + _EDGE)[last]]
    texts = np.concatenate([text_of, text_of, text_of[last]]).astype(np.uint64)
    return _mixed(np.concatenate(found) ^ ((texts & np.uint64(1)) << np.uint64(63))), texts >> np.uint64(1)


def _bands(members: np.ndarray, sizes: np.ndarray, bands: int, rows: int) -> np.ndarray:
    keys = np.zeros((1 + bands, len(sizes)), dtype=np.uint32)
    some = sizes > 0
    if not some.any():
        return keys
    starts = (np.cumsum(sizes) - sizes)[some].astype(np.int64)
    values = members.astype(np.uint64)
    keys[0, some] = np.add.reduceat(_mixed(values), starts) >> np.uint64(32)
    factors = _mixed(np.arange(1, 2 * bands * rows + 1, dtype=np.uint64)).reshape(bands, rows, 2)
    for band in range(bands):
        key = np.zeros(len(starts), dtype=np.uint64)
        for factor, offset in factors[band]:
            hashes = (values * (factor | np.uint64(1)) + offset) >> np.uint64(32)
            key = _mixed(key + np.minimum.reduceat(hashes, starts) + _WORD)
        keys[1 + band, some] = key >> np.uint64(32)
    return keys


class Likeness:
    """Finds pairs that are like an earlier one among those added; what it holds in memory does not grow with texts.

    A pair takes about 4 bytes on the disk for each word, and 4 for each band; a byte of memory, and 16 if it is found.

    Args:
        folder: for the files; must not exist.
        similarity: how alike two pairs are at least, 0 to 1.
    """

    def __init__(self, folder: Path, similarity: float) -> None:
        folder.mkdir(parents=True)
        self._folder, self._similarity, self._count = folder, similarity, 0
        self._keys = 1 + shape_of_bands(similarity)[0]
        self._members = self._sizes = np.zeros(0, np.uint32)
        self._starts = np.zeros(0, np.int64)

    def add(self, sets: Sets) -> None:
        """Take the sets of the next pairs."""
        for name, values in (("members", sets.members), ("sizes", sets.sizes), *enumerate(sets.bands)):
            with (self._folder / str(name)).open("ab") as file:
                file.write(np.ascontiguousarray(values).tobytes())
        self._count += len(sets.sizes)

    def found(self) -> np.ndarray:
        """Return which pairs are like an earlier one that is not found itself, bool [pairs]."""
        marked = np.zeros(self._count, dtype=bool)
        if not self._count:
            return marked
        self._members, self._sizes = self._mapped("members"), self._mapped("sizes")
        self._starts = np.lib.format.open_memmap(
            self._folder / "starts", mode="w+", dtype=np.int64, shape=(self._count + 1,)
        )
        self._starts[0] = total = 0
        for begin in range(0, self._count, _PART):
            ends = total + np.cumsum(self._sizes[begin : begin + _PART], dtype=np.int64)
            self._starts[begin + 1 : begin + 1 + len(ends)] = ends
            total = int(ends[-1])
        likes = [np.zeros((0, 2), np.int64)]
        for number in range(self._keys):  # equal sets first: what becomes of one of them becomes of all
            keys = self._mapped(str(number))
            for part in range(self._parts):
                likes += self._alike(*self._groups(keys, part, marked), marked)
        self._break_chains(marked, np.concatenate(likes))
        return marked

    def _mapped(self, name: str) -> np.ndarray:
        path = self._folder / name
        return np.memmap(path, np.uint32, mode="r") if path.stat().st_size else np.zeros(0, np.uint32)

    @property
    def _parts(self) -> int:
        return 1 + self._count // _PART

    def _groups(self, keys: np.ndarray, part: int, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places of a part of the keys, those of equal keys side by side, and where in it each group begins."""
        found = []
        for begin in range(0, self._count, _PART):
            here = slice(begin, begin + _PART)
            wanted = (keys[here] % self._parts == part) & (self._sizes[here] > 0) & ~marked[here]
            found.append(np.flatnonzero(wanted) + begin)
        places = np.concatenate(found)
        some = keys[places]
        order = np.argsort(some, kind="stable")
        new = np.append(True, np.diff(some[order]) != 0)[: len(some)]
        return places[order], np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))

    def _alike(self, places: np.ndarray, first: np.ndarray, marked: np.ndarray) -> Iterator[np.ndarray]:
        """Mark what is like the first of its group, or like the one before it; yield each with what it is like."""
        later = np.flatnonzero(first < np.arange(len(first)))
        for before in (first, np.arange(-1, len(first) - 1)):
            found = self._are_alike(places[before[later]], places[later])
            alike, later = later[found], later[~found]
            marked[places[alike]] = True
            yield np.stack([places[alike], places[before[alike]]], axis=1)
            later = later[first[later] < later - 1]

    def _are_alike(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether pairs at some places are as alike as they are to be, each to that of the other places."""
        sizes = [self._sizes[places].astype(np.int64) for places in (some, others)]
        alike = np.minimum(*sizes) >= self._similarity * np.maximum(*sizes) - 1e-9  # else they cannot be
        maybe = np.flatnonzero(alike)
        for begin in range(0, len(maybe), _COMPARED):
            here = maybe[begin : begin + _COMPARED]
            tagged = [self._tagged(places[here]) for places in (some, others)]
            both = np.sort(np.concatenate(tagged))
            twice = (both[1:][both[1:] == both[:-1]] >> np.uint64(32)).astype(np.int64)
            shared = np.bincount(twice, minlength=len(here))
            alike[here] = shared >= self._similarity * (sizes[0][here] + sizes[1][here] - shared) - 1e-9
        return alike

    def _tagged(self, places: np.ndarray) -> np.ndarray:
        """The members of the sets at some places, each with the number of its set in its upper half."""
        begins, sizes = self._starts[places], self._sizes[places].astype(np.int64)
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        numbers = np.repeat(np.arange(len(places), dtype=np.uint64), sizes) << np.uint64(32)
        return numbers | self._members[np.repeat(begins, sizes) + inside].astype(np.uint64)

    def _break_chains(self, marked: np.ndarray, likes: np.ndarray) -> None:
        """Take the mark from what is like a marked pair only, and not like the one that is kept for that pair."""
        places, kept_for = likes[np.argsort(likes[:, 0])].T
        undecided = np.flatnonzero(marked[kept_for])
        while len(undecided):
            earlier = np.searchsorted(places, kept_for[undecided])
            ready = ~np.isin(earlier, undecided, assume_unique=False)
            here = undecided[ready]
            of = earlier[ready]
            alike = self._are_alike(kept_for[of], places[here])
            chained = marked[places[of]]
            marked[places[here]] = alike | ~chained
            kept_for[here] = np.where(chained & alike, kept_for[of], kept_for[here])
            undecided = undecided[~ready]
