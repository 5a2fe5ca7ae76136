"""Which pairs or lines are trained on: each filter counts what it drops, and kept + dropped = read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dragoman.config import DataConfig
from dragoman.data.store import Row
from dragoman.errors import DataError
from dragoman.text import Pair, ParallelCorpus, ReadCounts, TextCorpus, Tokenizer, TokenizerPair
from dragoman.text.keys import skeleton, text_hash

# Of a pair whose source is a sound, its samples stand where the ids of the source do.
Encoded = tuple[Pair, Row, list[int]]


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
    pairs: Iterable[Pair], counts: Counts, *, drop_duplicates: bool = False, seen: SeenKeys | None = None
) -> Iterator[Pair]:
    """Yield the pairs without those that have an empty side and, on request, repetitions and overlaps.

    Args:
        pairs: what to filter; each is counted as read.
        counts: filled in under "empty", "duplicate" and "overlap"; the caller counts what it keeps.
        drop_duplicates: leave out exact repetitions of an earlier pair.
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
        if drop_duplicates:
            key = text_hash(*pair.sides)
            if key in earlier:
                counts.dropped["duplicate"] += 1
                continue
            earlier.add(key)
        yield pair


def encode_pairs(
    pairs: Iterable[Pair], tokenizers: TokenizerPair, data: DataConfig, counts: Counts, *, limit_ratio: bool = True
) -> Iterator[Encoded]:
    """Yield each pair with its source and target ids, without those that are too long or too unequal in tokens.

    Args:
        pairs: what to encode.
        tokenizers: of the two sides.
        data: `max_source_tokens`, `max_target_tokens` and `max_length_ratio`.
        counts: filled in under "too long" and "length ratio", and what is kept.
        limit_ratio: apply `max_length_ratio`.
    """
    for pair in pairs:
        source, target = tokenizers.source.encode(pair.source), tokenizers.target.encode(pair.target)
        shorter, longer = sorted((len(source), len(target)))
        if not shorter:  # nothing but characters that normalising drops
            counts.dropped["empty"] += 1
        elif len(source) > data.max_source_tokens or len(target) > data.max_target_tokens:
            counts.dropped["too long"] += 1
        elif limit_ratio and data.max_length_ratio is not None and longer > data.max_length_ratio * shorter:
            counts.dropped["length ratio"] += 1
        else:
            counts.kept += 1
            yield pair, tokenizers.source_of(source).joined, target


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
        corpus: ParallelCorpus | TextCorpus,
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
