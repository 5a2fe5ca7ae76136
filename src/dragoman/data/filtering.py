"""Which pairs or lines are trained on: each filter counts what it drops, and kept + dropped = read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dragoman.config import DataConfig
from dragoman.data.store import Row
from dragoman.errors import DataError
from dragoman.text import Pair, ReadCounts, Tokenizer, TokenizerPair
from dragoman.text.corpus import Corpus
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.lines import chunks

# Of a pair whose source is a sound, its samples stand where the ids of the source do.
Encoded = tuple[Pair, Row, list[int]]
_MANY = 0.01  # of what is read: so much may be too long before a hint is given
# Pairs that are encoded together.
_AT_ONCE = 4096


@dataclass
class Counts:
    """Pairs or lines read, kept, and dropped by reason.

    `read == kept + sum(dropped.values())` at the end of a pass. Of the lines kept, `split` were cut into `parts`.
    """

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unit: Literal["pairs", "lines"] = "pairs"
    split: int = 0
    parts: int = 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Counts:
        """Return the counts that `to_dict` made plain values of."""
        rest: dict[str, Any] = {name: value for name, value in values.items() if name != "dropped"}
        return cls(dropped=Counter(values["dropped"]), **rest)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {**asdict(self), "dropped": dict(self.dropped)}

    def clear(self) -> None:
        """Begin a new pass."""
        self.read = self.kept = self.split = self.parts = 0
        self.dropped.clear()

    def add(self, other: Counts) -> None:
        """Add the counts of another part of the same corpus."""
        for name in ("read", "kept", "split", "parts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.dropped.update(other.dropped)

    def take_in(self, reading: ReadCounts) -> None:
        """Take in what the reader did not give."""
        skipped = {"unreadable": reading.skipped, "without one side": reading.incomplete, "header": reading.headers}
        for reason, count in skipped.items():
            if count:
                self.read += count
                self.dropped[reason] += count

    def __str__(self) -> str:
        reasons = "".join(f", {count:,} {reason}" for reason, count in sorted(self.dropped.items()))
        cut = f", {self.split:,} of them split into {self.parts:,}" if self.split else ""
        return f"{self.kept:,} of {self.read:,} {self.unit} kept{cut}{reasons}"


@dataclass(frozen=True)
class SeenKeys:
    """Hashes of the held-out texts, side by side, case, punctuation and blanks aside."""

    sides: tuple[frozenset[int], ...]

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> SeenKeys:
        """Make the hashes of held-out pairs."""
        rows = [_keys(pair) for pair in pairs]
        return cls(tuple(frozenset(column) for column in zip(*rows, strict=True)))

    def __contains__(self, pair: Pair) -> bool:
        return any(key in seen for key, seen in zip(_keys(pair), self.sides, strict=False))


def _keys(pair: Pair) -> list[int]:
    return [text_hash(skeleton(side)) for side in pair.sides]


def drop_texts(
    pairs: Iterable[Pair],
    counts: Counts,
    *,
    drop_duplicates: bool | Callable[[], bool] = False,
    seen: SeenKeys | None = None,
) -> Iterator[Pair]:
    """Yield the pairs without those that have an empty side and, on request, repetitions and overlaps.

    Args:
        pairs: what to filter; each is counted as read.
        counts: filled in under "empty", "duplicate" and "overlap"; the caller counts what it keeps.
        drop_duplicates: leave out exact repetitions of an earlier pair; or what tells whether the newest pair is one.
        seen: leave out pairs whose source or target is among these.
    """
    earlier: set[int] = set()
    for pair in pairs:
        counts.read += 1
        if not pair.is_complete:
            counts.dropped["empty"] += 1
            continue
        if seen is not None and pair in seen:
            counts.dropped["overlap"] += 1
            continue
        if callable(drop_duplicates):
            if drop_duplicates():
                counts.dropped["duplicate"] += 1
                continue
        elif drop_duplicates:
            key = text_hash(*pair.sides)
            if key in earlier:
                counts.dropped["duplicate"] += 1
                continue
            earlier.add(key)
        yield pair


def encode_pairs(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    data: DataConfig,
    counts: Counts,
    *,
    limit_ratio: bool = True,
    threads: int | None = None,
) -> Iterator[Encoded]:
    """Yield each pair with its source and target ids, without those that are too long or too unequal in tokens.

    Args:
        pairs: what to encode.
        tokenizers: of the two sides.
        data: `max_source_tokens`, `max_target_tokens` and `max_length_ratio`.
        counts: filled in under "too long" and "length ratio", and what is kept.
        limit_ratio: apply `max_length_ratio`.
        threads: that encode; as many as there are processors if None.
    """
    plain = tokenizers.matching is None
    for pair, source, target in _with_ids(pairs, tokenizers, threads or _processors()):
        shorter, longer = sorted((len(source), len(target)))
        if not shorter:  # nothing but characters that normalising drops
            counts.dropped["empty"] += 1
        elif len(source) > data.max_source_tokens or len(target) > data.max_target_tokens:
            counts.dropped["too long"] += 1
        elif limit_ratio and data.max_length_ratio is not None and longer > data.max_length_ratio * shorter:
            counts.dropped["length ratio"] += 1
        else:
            counts.kept += 1
            yield pair, source if plain else tokenizers.source_of(source).joined, target


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _with_ids(
    pairs: Iterable[Pair], tokenizers: TokenizerPair, threads: int
) -> Iterator[tuple[Pair, list[int], list[int]]]:
    """Both sides of each pair as ids, by some threads; while some pairs are encoded, the next ones are read."""

    def encoded(some: list[Pair]) -> Iterator[tuple[Pair, list[int], list[int]]]:
        sources, targets = zip(*(pair[:2] for pair in some), strict=True)
        left = tokenizers.source.encode_all(sources, threads)
        return zip(some, left, tokenizers.target.encode_all(targets, threads), strict=True)

    with ThreadPoolExecutor(1) as worker:
        before: Future[Iterator[tuple[Pair, list[int], list[int]]]] | None = None
        for some in chunks(pairs, _AT_ONCE):
            now = worker.submit(encoded, some)
            if before is not None:
                yield from before.result()
            before = now
        if before is not None:
            yield from before.result()


def encode_lines(lines: Iterable[Pair], tokenizer: Tokenizer, data: DataConfig, counts: Counts) -> Iterator[Encoded]:
    """Yield each line of a text with no source and its target ids; long ones are left out or cut into like parts.

    Args:
        lines: what to encode.
        tokenizer: of the text.
        data: `max_target_tokens` and `long_lines`.
        counts: filled in under "too long", and what is kept and split.
    """
    limit = data.max_target_tokens
    for line in lines:
        ids = tokenizer.encode(line.target)
        if len(ids) <= limit:
            counts.kept += 1
            yield line, [], ids
        elif data.long_lines == "drop":
            counts.dropped["too long"] += 1
        else:
            parts = -(-len(ids) // limit)
            counts.kept += 1
            counts.split += 1
            counts.parts += parts
            for part in range(parts):
                some = ids[len(ids) * part // parts : len(ids) * (part + 1) // parts]
                yield line._replace(target=tokenizer.decode(some)), [], some


class KeptPairs:
    """The training pairs that pass the filters on text; `counts` belongs to the latest pass.

    Args:
        corpus: may be read again and again.
        data: the filters.
        chosen: tells which are held out, if they come from the same corpus.
        seen: pairs that share a side with these are left out.
        counts: filled in by each pass.
    """

    def __init__(
        self,
        corpus: Corpus,
        data: DataConfig,
        chosen: Callable[[Pair], bool] | None,
        seen: SeenKeys | None,
        counts: Counts,
    ) -> None:
        self._corpus, self._data, self._chosen, self._seen = corpus, data, chosen, seen
        self.counts = counts

    def __iter__(self) -> Iterator[Pair]:
        counts, reading = self.counts, ReadCounts()
        counts.clear()
        pairs = self._corpus.read(reading)
        if self._chosen is not None:
            pairs = self._without(pairs, self._chosen)
        yield from drop_texts(pairs, counts, drop_duplicates=self._data.drop_duplicates, seen=self._seen)
        counts.take_in(reading)

    def check_any(self) -> None:
        """Refuse a corpus of which nothing is kept.

        Raises:
            DataError: so it is.
        """
        if next(iter(self), None) is None:
            hint = "what is held out too is left out: data.drop_overlap" if self.counts.dropped["overlap"] else None
            raise DataError(f"no training {self.counts.unit.removesuffix('s')} is left", found=self.counts, hint=hint)

    def _without(self, pairs: Iterable[Pair], chosen: Callable[[Pair], bool]) -> Iterator[Pair]:
        for pair in pairs:
            if chosen(pair):
                self.counts.read += 1
                self.counts.dropped["held out"] += 1
            else:
                yield pair


def tell_counts(part: str, count: Counts, report: Callable[[str], None]) -> None:
    """Report what became of a part, "train" or "dev".

    Raises:
        DataError: nothing of it is left.
    """
    report(f"{part}: {count}")
    if count.dropped["too long"] > _MANY * count.read:
        settings = "data.max_source_tokens and data.max_target_tokens"
        if count.unit == "lines":
            settings = "data.max_target_tokens, or set data.long_lines = split"
        report(f"warning: {count.dropped['too long']:,} {count.unit} are too long and left out: raise {settings}")
    if not count.kept:
        name = "training" if part == "train" else "held-out"
        raise DataError(f"no {name} {count.unit.removesuffix('s')} is left", found=count)
