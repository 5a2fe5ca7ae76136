"""Which pairs are trained on: each filter counts what it drops, and kept + dropped = read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dragoman.config import DataConfig
from dragoman.text.corpus import Pair
from dragoman.text.keys import skeleton, text_hash
from dragoman.text.tokenizer_pair import TokenizerPair


@dataclass
class Counts:
    """Pairs read, kept, and dropped by reason; `read == kept + sum(dropped.values())` at the end of a pass."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"read": self.read, "kept": self.kept, "dropped": dict(self.dropped)}

    def clear(self) -> None:
        """Begin a new pass."""
        self.read = self.kept = 0
        self.dropped.clear()

    def unreadable(self, count: int) -> None:
        """Take in lines that the reader skipped."""
        if count:
            self.read += count
            self.dropped["unreadable"] += count

    def __str__(self) -> str:
        reasons = "".join(f", {count:,} {reason}" for reason, count in sorted(self.dropped.items()))
        return f"{self.kept:,} of {self.read:,} pairs kept{reasons}"


@dataclass(frozen=True)
class SeenKeys:
    """Hashes of the held-out sources and targets, case, punctuation and blanks aside."""

    sources: frozenset[int]
    targets: frozenset[int]

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> SeenKeys:
        """The keys of some pairs."""
        both = [(text_hash(skeleton(pair.source)), text_hash(skeleton(pair.target))) for pair in pairs]
        return cls(frozenset(source for source, _ in both), frozenset(target for _, target in both))

    def __contains__(self, pair: Pair) -> bool:
        return text_hash(skeleton(pair.source)) in self.sources or text_hash(skeleton(pair.target)) in self.targets


def drop_texts(
    pairs: Iterable[Pair], counts: Counts, *, drop_duplicates: bool = False, seen: SeenKeys | None = None
) -> Iterator[Pair]:
    """The pairs without those that have an empty side and, on request, repetitions and overlaps.

    Args:
        pairs: what to filter; each is counted as read.
        counts: filled in under "empty", "duplicate" and "overlap"; the caller counts what it keeps.
        drop_duplicates: leave out exact repetitions of an earlier pair.
        seen: leave out pairs whose source or target is among these.
    """
    earlier: set[int] = set()
    for pair in pairs:
        counts.read += 1
        if not (pair.source.strip() and pair.target.strip()):
            counts.dropped["empty"] += 1
            continue
        if seen is not None and pair in seen:
            counts.dropped["overlap"] += 1
            continue
        if drop_duplicates:
            key = text_hash(pair.source, pair.target)
            if key in earlier:
                counts.dropped["duplicate"] += 1
                continue
            earlier.add(key)
        yield pair


def encode_pairs(
    pairs: Iterable[Pair], tokenizers: TokenizerPair, data: DataConfig, counts: Counts, *, limit_ratio: bool = True
) -> Iterator[tuple[Pair, list[int], list[int]]]:
    """Each pair with its source and target ids, without those that are too long or too unequal in tokens.

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
        if len(source) > data.max_source_tokens or len(target) > data.max_target_tokens:
            counts.dropped["too long"] += 1
        elif limit_ratio and data.max_length_ratio is not None and longer > data.max_length_ratio * shorter:
            counts.dropped["length ratio"] += 1
        else:
            counts.kept += 1
            yield pair, source, target
