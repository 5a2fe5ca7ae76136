"""The corpus doctor: what is in a parallel corpus, said before hours are spent on it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.text.corpus import SUSPICIOUS_LENGTH, SUSPICIOUS_RATIO
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.lines import chunks
from dragoman.text.pair import Pair
from dragoman.text.pair_format import is_header
from dragoman.text.shifted import Lengths
from dragoman.text.side_report import Report, SideReport, SideTally, damage_warnings, side_lines, untrained
from dragoman.text.sides import SideProfiles

_EXAMPLES = 5
_CHUNK = 5000


@dataclass(frozen=True)
class Finding:
    """How many pairs have some trait, and where the first of them stand."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeldOutReport:
    """The held-out pairs, and how many of them training has seen (case, punctuation and blanks aside)."""

    pairs: int
    empty_source: int
    empty_target: int
    source_in_train: int
    target_in_train: int
    pair_in_train: int
    swapped: Finding
    misaligned: tuple[str, ...] = ()


@dataclass(frozen=True)
class CorpusReport(Report):
    """What `corpus_report` found.

    Attributes:
        pairs: pairs read.
        source: the source side.
        target: the target side.
        duplicate_pairs: exact repetitions of an earlier pair.
        ambiguous_sources: distinct sources that occur with more than one target.
        copies: pairs whose two sides are the same, empty ones aside.
        length_outliers: pairs whose ratio of lengths is more than three times the usual one, or less than a third.
        swapped: pairs whose two sides were probably exchanged.
        dev: the held-out pairs, if there are any.
        test: the test pairs, if they were named (only to be compared with training).
        drop_duplicates: the setting of data; nothing is said of what it sees to.
        drop_overlap: likewise.
        normalize: the setting of tokenizers, likewise.
        header: a first line that names the columns, and its file.
        misaligned: stretches of files in which, by their lengths, sources and targets do not belong together.
    """

    pairs: int
    source: SideReport
    target: SideReport
    duplicate_pairs: int
    ambiguous_sources: int
    copies: int
    length_outliers: Finding
    swapped: Finding
    dev: HeldOutReport | None = None
    test: HeldOutReport | None = None
    drop_duplicates: bool = False
    drop_overlap: bool = False
    normalize: str = "none"
    header: str | None = None
    misaligned: tuple[str, ...] = ()

    def _lines(self) -> Iterator[str]:
        yield f"{self.pairs:,} pairs"
        yield from side_lines("source", self.source)
        yield from side_lines("target", self.target)
        yield f"exact repetitions of a pair: {self.duplicate_pairs:,}"
        yield f"sources with several targets: {self.ambiguous_sources:,}"
        yield f"target is a copy of the source: {self.copies:,}"
        yield f"unusual ratio of lengths: {_said(self.length_outliers)}"
        yield f"sides probably exchanged: {_said(self.swapped)}"
        for name, part in untrained(self.dev, self.test):
            yield f"{part.pairs:,} {name} pairs, empty: {part.empty_source:,} sources, {part.empty_target:,} targets"
            yield (
                f"of them in training: {part.source_in_train:,} sources, {part.target_in_train:,} targets, "
                f"{part.pair_in_train:,} pairs"
            )
            yield f"{name} sides probably exchanged: {_said(part.swapped)}"

    def _warnings(self) -> Iterator[str]:
        pairs = max(self.pairs, 1)
        empty = self.source.empty + self.target.empty
        if empty:
            yield f"{empty:,} lines are empty: their pairs are left out of training"
        for name, stretches in (("", self.misaligned), *((n, p.misaligned) for n, p in untrained(self.dev, self.test))):
            for stretch in stretches:
                yield (
                    f"{name} sources and targets do not seem to belong together: {stretch}; look for a line that is "
                    "missing or too many on one side, just before the first of them"
                ).lstrip()
        if self.header is not None:
            advice = "skip it with --columns source=1,target=2, in the order that you want"
            yield f"the first line looks like a header, not a pair: {self.header}; {advice}"
        if self.duplicate_pairs > 0.05 * pairs and not self.drop_duplicates:
            yield f"{self.duplicate_pairs:,} pairs are exact repetitions: consider drop_duplicates"
        if self.copies > 0.05 * pairs:
            yield f"{self.copies:,} targets are copies of their source: a model learns to copy"
        if self.length_outliers.count > 0.01 * pairs:
            yield f"pairs with an unusual ratio of lengths: {_said(self.length_outliers)}"
        if self.swapped.count > max(2, 0.001 * pairs):
            yield f"source and target are probably exchanged in {_said(self.swapped)}"
        yield from damage_warnings(self.source, self.target, normalize=self.normalize)
        for name, part in untrained(self.dev, self.test):
            if part.swapped.count > 0.5 * part.pairs:
                yield f"the {name} files look exchanged: source where target should be"
            if name == "held-out" and self.drop_overlap:
                continue
            if part.pair_in_train or part.source_in_train > 0.01 * part.pairs:
                advice = "consider drop_overlap" if name == "held-out" else "take them out of training"
                yield (
                    f"{part.source_in_train:,} {name} sources ({part.pair_in_train:,} whole pairs) are in training "
                    f"too: scores will flatter; {advice}"
                )


def corpus_report(
    train: Iterable[Pair],
    dev: Iterable[Pair] | None = None,
    test: Iterable[Pair] | None = None,
    *,
    drop_duplicates: bool = False,
    drop_overlap: bool = False,
    normalize: str = "none",
) -> CorpusReport:
    """Read a corpus twice and say what is in it.

    Texts are kept as 8-byte hashes only: about 70 bytes of memory a pair, whatever its length.

    Args:
        train: pairs that can be iterated again (`ParallelCorpus`).
        dev: held-out pairs, compared with the training pairs.
        test: test pairs, compared likewise.
        drop_duplicates: the setting of data; nothing is said of what it sees to.
        drop_overlap: likewise.
        normalize: the setting of tokenizers, likewise.

    Raises:
        DataError: a file cannot be read as text.
    """
    tally = _Tally(keys=dev is not None or test is not None)
    for pairs in chunks(train, _CHUNK):
        tally.add(pairs)
    usual = float(np.median(tally.lengths.log_ratios())) if tally.pairs else 0.0
    outliers, swapped = _Finder(), _Finder()
    for pairs in chunks(train, _CHUNK):
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        outliers.add(pairs, _far(sources, targets, usual))
        swapped.add(pairs, tally.profiles.exchanged(sources, targets, counted=True))
    return CorpusReport(
        pairs=tally.pairs,
        source=tally.source.report(),
        target=tally.target.report(),
        duplicate_pairs=tally.duplicates(),
        ambiguous_sources=tally.ambiguous(),
        copies=tally.copies,
        length_outliers=outliers.finding(),
        swapped=swapped.finding(),
        dev=None if dev is None else _held_out_report(dev, tally),
        test=None if test is None else _held_out_report(test, tally),
        drop_duplicates=drop_duplicates,
        drop_overlap=drop_overlap,
        normalize=normalize,
        header=tally.header,
        misaligned=tuple(map(str, tally.lengths.stretches())),
    )


class _Tally:
    """The first pass: counts, hashes and character profiles."""

    def __init__(self, *, keys: bool) -> None:
        self.pairs = self.copies = 0
        self.header: str | None = None
        self.source, self.target = SideTally(), SideTally()
        self.profiles = SideProfiles()
        self.lengths = Lengths()
        self._sources, self._pairs = array("Q"), array("Q")
        self.keys = Keys() if keys else None

    def add(self, pairs: list[Pair]) -> None:
        self.pairs += len(pairs)
        for pair in pairs:
            if pair.line == 1 and self.header is None and is_header(pair.source, pair.target):
                self.header = f"{pair.source!r} and {pair.target!r} ({pair.file})"
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self.profiles.add(sources, targets)
        self.lengths.add(pairs)
        for source, target in zip(sources, targets, strict=True):
            self.source.add(source)
            self.target.add(target)
            self.copies += source == target and bool(source.strip())
            self._sources.append(text_hash(source))
            self._pairs.append(text_hash(source, target))
            if self.keys is not None:
                self.keys.add(source, target)

    def duplicates(self) -> int:
        return len(self._pairs) - len(np.unique(self._pairs))

    def ambiguous(self) -> int:
        _, first = np.unique(self._pairs, return_index=True)
        _, targets = np.unique(np.asarray(self._sources)[first], return_counts=True)
        return int((targets > 1).sum())


class Keys:
    """Hashes of sources, targets and pairs by what remains of them without case, punctuation and blanks."""

    def __init__(self) -> None:
        self.sources, self.targets, self.pairs = array("Q"), array("Q"), array("Q")

    def add(self, source: str, target: str) -> None:
        """Take a pair; an empty side is not kept, for it would overlap with every other."""
        left, right = skeleton(source), skeleton(target)
        if left:
            self.sources.append(text_hash(left))
        if right:
            self.targets.append(text_hash(right))
        if left and right:
            self.pairs.append(text_hash(left, right))


class _Finder:
    def __init__(self) -> None:
        self._count = 0
        self._examples: list[str] = []

    def add(self, pairs: list[Pair], found: np.ndarray) -> None:
        self._count += int(found.sum())
        for i in np.flatnonzero(found)[: _EXAMPLES - len(self._examples)]:
            self._examples.append(f"{pairs[i].file}, line {pairs[i].line}")

    def finding(self) -> Finding:
        return Finding(self._count, tuple(self._examples))


def _held_out_report(held_out: Iterable[Pair], tally: _Tally) -> HeldOutReport:
    keys, swapped, lengths, empty, total = Keys(), _Finder(), Lengths(), [0, 0], 0
    for pairs in chunks(held_out, _CHUNK):
        total += len(pairs)
        lengths.add(pairs)
        for pair in pairs:
            keys.add(pair.source, pair.target)
            empty[0] += not pair.source.strip()
            empty[1] += not pair.target.strip()
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        swapped.add(pairs, tally.profiles.exchanged(sources, targets, counted=False))
    seen = tally.keys or Keys()
    return HeldOutReport(
        pairs=total,
        empty_source=empty[0],
        empty_target=empty[1],
        source_in_train=int(np.isin(keys.sources, seen.sources).sum()),
        target_in_train=int(np.isin(keys.targets, seen.targets).sum()),
        pair_in_train=int(np.isin(keys.pairs, seen.pairs).sum()),
        swapped=swapped.finding(),
        misaligned=tuple(map(str, lengths.stretches())),
    )


def _log_ratios(sources: list[str], targets: list[str]) -> np.ndarray:
    left, right = (np.array([len(text) for text in texts], dtype=np.float64) for texts in (sources, targets))
    return np.log((left + 1) / (right + 1))


def _far(sources: list[str], targets: list[str], usual: float) -> np.ndarray:
    # An empty side is counted as such, not as an outlier.
    long = np.array(
        [max(len(s), len(t)) >= SUSPICIOUS_LENGTH and bool(s and t) for s, t in zip(sources, targets, strict=True)]
    )
    return long & (np.abs(_log_ratios(sources, targets) - usual) > np.log(SUSPICIOUS_RATIO))


def _said(finding: Finding) -> str:
    return f"{finding.count:,}" + (f" (first: {'; '.join(finding.examples)})" if finding.examples else "")
