"""Stretches of a parallel file whose sources and targets do not belong together, found by their lengths.

Lengths of translations go together; those of one line and another's translation do not. Two looks are taken. One asks
whether some stretch fits better if the targets are moved by a few lines; the other whether its lengths fit no better
than those of lines far away, though elsewhere in the file they do.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dragoman.text.pair import Pair

_FEWEST = 200  # pairs of a file that is looked at
_SHIFTS = (1, -1, 2, -2, 3, -3)
_FAR = (37, 40, 53, 58, 71, 86)  # lines away, where nothing belongs together; odd and even, for some files alternate
_BLOCK = 100
_SHORTEST = {"moved": 30, "unlike": 100}  # lines of a stretch that is told
# By chance a stretch like this comes once in e**15 files.
_SURE = 15.0
_RELATED = 0.75  # lengths that fit at most so badly, beside those of lines far away, tell something
_FLAT = 0.5  # a block whose lengths vary less than this, beside the whole file, tells nothing


class Stretch(NamedTuple):
    """Lines of a file, from `first` to `last`, that do not belong together."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}, lines {self.first:,} to {self.last:,}"


class Lengths:
    """The lengths of the texts of pairs, and where each stands: 12 bytes a pair."""

    def __init__(self) -> None:
        self.source, self.target, self._lines = array("I"), array("I"), array("I")
        self._files: list[tuple[int, str]] = []  # where each begins

    def add(self, pairs: Sequence[Pair]) -> None:
        """Take pairs in their order."""
        for pair in pairs:
            if not self._files or self._files[-1][1] != pair.file:
                self._files.append((len(self.source), pair.file))
            self.source.append(len(pair.source))
            self.target.append(len(pair.target))
            self._lines.append(pair.line)

    def log_ratios(self) -> np.ndarray:
        """Return the logarithm of each ratio of lengths."""
        return self._log(self.source) - self._log(self.target)

    @staticmethod
    def _log(lengths: array[int]) -> np.ndarray:
        return np.log1p(np.frombuffer(lengths, dtype=np.uint32).astype(np.float32)) if lengths else np.zeros(0, "f")

    def stretches(self) -> list[Stretch]:
        """Return the stretches that do not belong together, one for each file at most."""
        source, target = self._log(self.source), self._log(self.target)
        bounds = [*self._files, (len(source), "")]
        found = []
        for (begin, file), (end, _) in pairwise(bounds):
            stretch = find_stretch(source[begin:end], target[begin:end])
            if stretch is not None:
                first, last = (self._lines[begin + place] for place in (stretch[0], stretch[1] - 1))
                found.append(Stretch(file, first, last))
        return found


def find_stretch(source: np.ndarray, target: np.ndarray) -> tuple[int, int] | None:
    """Return the first and the last + 1 of the pairs of a file that do not belong together, or None.

    Args:
        source: logarithms of the lengths of its sources.
        target: of its targets.
    """
    if len(source) < _FEWEST or not source.std() or not target.std():
        return None
    x, y = (np.clip((side - side.mean()) / side.std(), -2.5, 2.5) for side in (source, target))
    here = np.abs(x - y)
    found = [stretch for by in _SHIFTS if (stretch := _moved(x, y, here, by)) is not None]
    if found:
        return max(found, key=lambda one: one[1] - one[0])
    return _unlike(x, y, here)


def _moved(x: np.ndarray, y: np.ndarray, here: np.ndarray, by: int) -> tuple[int, int] | None:
    """The stretch that fits better with the targets moved by some lines."""
    there = np.abs(x - np.roll(y, -by))
    better = here - there
    better[slice(-by, None) if by > 0 else slice(0, -by)] = 0  # rolled in from the other end
    stretch = _sure(better, _SHORTEST["moved"])
    if stretch is None:
        return None
    begin, end = stretch
    outside = np.concatenate((here[:begin], here[end:]))
    # Moved back, it has to fit as the rest does.
    if len(outside) >= _SHORTEST["moved"] and there[begin:end].mean() > 1.5 * outside.mean():
        return None
    return stretch


def _unlike(x: np.ndarray, y: np.ndarray, here: np.ndarray) -> tuple[int, int] | None:
    """The stretch whose lengths fit no better than those of lines far away."""
    far = np.mean([np.abs(x - np.roll(y, by)) for by in _FAR], axis=0)
    blocks = len(x) // _BLOCK

    def by_block(values: np.ndarray) -> np.ndarray:
        return values[: blocks * _BLOCK].reshape(blocks, _BLOCK)

    telling = (by_block(x).std(1) > _FLAT) & (by_block(y).std(1) > _FLAT)
    if telling.sum() < 0.5 * blocks:
        return None
    misfit = by_block(here).mean(1) / np.maximum(by_block(far).mean(1), 1e-6)
    usual = float(np.quantile(misfit[telling], 0.05))
    if usual > _RELATED:
        # Nowhere do the lengths go together: so it may be, or the whole file is out of order.
        unrelated = len(x) >= 10 * _BLOCK and abs(float(np.corrcoef(x, y)[0, 1])) < 0.05
        return (0, len(x)) if unrelated else None
    worse = here - (1 + usual) / 2 * far
    worse *= np.append(np.repeat(telling, _BLOCK), np.full(len(x) - blocks * _BLOCK, telling[-1]))
    stretch = _sure(worse, _SHORTEST["unlike"])
    if stretch is None:
        return None
    inside = np.zeros(len(x), dtype=bool)
    inside[slice(*stretch)] = True
    if here[inside].mean() < (3 + usual) / 4 * far[inside].mean():
        return None
    fits = inside.all() or here[~inside].mean() <= _RELATED * far[~inside].mean()
    return stretch if fits else None


def _sure(values: np.ndarray, shortest: int) -> tuple[int, int] | None:
    """The stretch with the greatest sum of values that are negative by nature, if chance does not explain it."""
    sums = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    end = int(np.argmax(sums - np.minimum.accumulate(sums)))
    begin = int(np.argmin(sums[: end + 1]))
    if end - begin < shortest:
        return None
    height, outside = sums[end] - sums[begin], len(values) - (end - begin)
    drift = height / (end - begin)
    if outside >= shortest:
        drift = min(drift, (height - sums[-1]) / outside)
    # Cramér's bound: a walk that falls by `drift` a step climbs by `height` somewhere with odds of about n e**-power.
    power = 2 * drift * height / max(float(values.var()), 1e-9)
    return (begin, end) if power > _SURE + math.log(len(values)) else None
