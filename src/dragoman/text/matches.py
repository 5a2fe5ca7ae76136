"""The training pairs most like a source, found again by the stretches of tokens they share with it.

A translation memory's fuzzy matches, to be read beside a source (Bulté and Tezcan 2019, "Neural fuzzy repair"). Words
are spoken by analogy with words like them in the same way (Dedina and Nusbaum 1991).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from dragoman.text.tokenizer import BOS, EOS

LONGEST = 6  # tokens of a stretch
# Stretches of more sources than these tell little, and are most of the work.
MOST_SOURCES = 2000
# What a stretch still counts for a second match when the first one has it already.
COVERED = 0.2
_FRAME = 2
_SMOOTHING = 4.0
_MULTIPLIER = 0x9E3779B97F4A7C15


class Rows(NamedTuple):
    """Sequences of ids of different lengths, end to end.

    Attributes:
        tokens: all ids, uint16 or uint32 [tokens].
        offsets: where each row begins, and the end, int64 [rows + 1].
    """

    tokens: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Rows:
        """Make rows of lists of ids."""
        lists = list(rows)
        tokens = np.fromiter(chain.from_iterable(lists), dtype=np.uint32)
        return cls(_narrow(tokens), np.cumsum([0, *map(len, lists)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def are_of(self, size: int) -> bool:
        """Return whether the offsets fit the ids, and all are of a vocabulary of this size."""
        ends = self.offsets[:1].tolist(), self.offsets[-1:].tolist()
        fit = ends == ([0], [len(self.tokens)]) and bool((np.diff(self.offsets) >= 0).all())
        return fit and int(self.tokens.max(initial=0)) < size

    def row(self, index: int) -> list[int]:
        """Return the ids of one row."""
        return self.tokens[self.offsets[index] : self.offsets[index + 1]].tolist()


class _Stretches(NamedTuple):
    """Which sources have which stretch: those of `keys[i]` are `sources[starts[i] : starts[i + 1]]`, ascending."""

    keys: np.ndarray
    starts: np.ndarray
    sources: np.ndarray


class _Shared(NamedTuple):
    """Stretches by their weights, the sources that have any, and which source has which stretch, by their places."""

    weights: np.ndarray
    sources: np.ndarray
    places: np.ndarray
    owners: np.ndarray


class PairIndex:
    """Pairs of ids, found by what their sources share with another one.

    Args:
        sources: the source ids of each pair, unframed.
        targets: the target ids of each pair, unframed.
    """

    def __init__(self, sources: Rows, targets: Rows) -> None:
        self.sources, self.targets = sources, targets

    def nearest(self, ids: Sequence[int], count: int, *, but_equal: bool = False) -> list[int]:
        """Return the pairs whose sources share most with these ids, best first; no source twice, none unlike.

        Each stretch of one to six tokens (the ends of the sequence count as tokens) that both have adds the logarithm
        of how rare it is; the sum is divided by the square root of the found source's length. What those before have
        already counts for a fifth.

        Args:
            ids: a source, unframed.
            count: at most so many.
            but_equal: leave out pairs whose source is these very ids.

        Returns:
            Numbers of pairs.
        """
        shared = self._shared(ids)
        seen = np.zeros(len(shared.weights), bool)
        allowed = self._shortness[shared.sources]
        if but_equal:
            allowed[np.isin(shared.sources, self._equal(ids))] = 0
        found: list[int] = []
        while len(shared.sources) and len(found) < count:
            weights = shared.weights * np.where(seen, COVERED, 1)
            scores = np.bincount(shared.places, weights[shared.owners], len(shared.sources)) * allowed
            best = int(scores.argmax())
            if not scores[best] > 0:
                break
            found.append(int(shared.sources[best]))
            allowed[np.isin(shared.sources, self._equal(self.sources.row(found[-1])))] = 0
            seen[shared.owners[shared.places == best]] = True
        return found

    def _shared(self, ids: Sequence[int]) -> _Shared:
        """The stretches of these ids that sources have, and which ones."""
        keys = np.unique(_keys(*_framed(Rows.of([ids])))[0])
        known, starts, sources = self._stretches
        places = np.searchsorted(known, keys)
        places = places[known[np.minimum(places, len(known) - 1)] == keys] if len(known) else places[:0]
        sizes = starts[places + 1] - starts[places]
        runs = [sources[starts[place] : starts[place + 1]] for place in places]
        weights = np.log(len(self.sources) / sizes)
        candidates, which = np.unique(np.concatenate([sources[:0], *runs]), return_inverse=True)
        return _Shared(weights, candidates, which, np.repeat(np.arange(len(places)), sizes))

    def _equal(self, ids: Sequence[int]) -> np.ndarray:
        """The pairs whose source is these ids."""
        order, whole = self._whole
        key = _whole_keys(Rows.of([ids]))[0]
        begin, end = np.searchsorted(whole, key), np.searchsorted(whole, key, side="right")
        return order[begin:end]

    @cached_property
    def _whole(self) -> tuple[np.ndarray, np.ndarray]:
        keys = _whole_keys(self.sources)
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    @cached_property
    def _shortness(self) -> np.ndarray:
        return 1 / np.sqrt(np.diff(self.sources.offsets) + _FRAME + _SMOOTHING)

    @cached_property
    def _stretches(self) -> _Stretches:
        framed, numbers = _framed(self.sources)
        keys, rows = _keys(framed, numbers)
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        again = np.zeros(len(keys), bool)
        again[1:] = (keys[1:] == keys[:-1]) & (rows[1:] == rows[:-1])  # a source that has a stretch twice
        keys, rows = keys[~again], rows[~again]
        starts = np.flatnonzero(np.append(np.ones(len(keys[:1]), bool), keys[1:] != keys[:-1]))
        sizes = np.diff(np.append(starts, len(keys)))
        kept = sizes <= MOST_SOURCES
        rows = rows[np.repeat(kept, sizes)]
        return _Stretches(keys[starts[kept]], np.append(0, np.cumsum(sizes[kept])), rows.astype(np.int32))


def _narrow(tokens: np.ndarray) -> np.ndarray:
    return tokens.astype(np.uint16) if not len(tokens) or tokens.max() < 2**16 else tokens


def _framed(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """All ids with `<s>` and `</s>` around each row, uint64, and the row of each."""
    lengths = np.diff(rows.offsets) + _FRAME
    ends = np.cumsum(lengths)
    inside = np.ones(int(lengths.sum()), bool)
    inside[ends - 1] = inside[ends - lengths] = False
    framed = np.empty(len(inside), np.uint64)
    framed[inside] = rows.tokens
    framed[ends - lengths], framed[ends - 1] = BOS, EOS
    return framed, np.repeat(np.arange(len(rows)), lengths)


def _keys(framed: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number for each stretch of one to `LONGEST` tokens within a row, and its row."""
    keys, found, rows = np.zeros_like(framed), [framed[:0]], [numbers[:0]]
    for size in range(1, min(LONGEST, len(framed)) + 1):
        keys = keys[: len(framed) - size + 1] * _MULTIPLIER + framed[size - 1 :] + np.uint64(1)
        within = numbers[: len(keys)] == numbers[size - 1 :]
        found.append(keys[within])
        rows.append(numbers[: len(keys)][within])
    return np.concatenate(found), np.concatenate(rows)


def _whole_keys(rows: Rows) -> np.ndarray:
    """A number for each row, the same for the same ids."""
    powers = np.ones(int(np.diff(rows.offsets).max(initial=0)) + 1, np.uint64)
    np.multiply.accumulate(np.full(len(powers) - 1, _MULTIPLIER, np.uint64), out=powers[1:])
    lengths = np.diff(rows.offsets)
    places = np.arange(len(rows.tokens)) - np.repeat(rows.offsets[:-1], lengths)
    terms = (rows.tokens.astype(np.uint64) + np.uint64(1)) * powers[places]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return sums[rows.offsets[1:]] - sums[rows.offsets[:-1]]
