"""What workers do for a large corpus: they hash, filter and encode some thousand pairs at a time.

Who hands blocks out takes what comes back in order, so the result is that of one process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from dragoman.config import DataConfig
from dragoman.data.begun import Begun, kept_texts
from dragoman.data.filtering import Counts, Encoded, encode_pairs
from dragoman.data.splitting import place_of
from dragoman.pace import Pace, silent
from dragoman.text import Pair, TokenizerPair
from dragoman.text.keys import text_hash
from dragoman.text.lines import chunks
from dragoman.workers import Workers

BLOCK = 10_000  # pairs that a worker takes at a time
Found = tuple[list[int], list[np.ndarray], list[np.ndarray], Counts]


@dataclass(frozen=True)
class Encoding:
    """What a worker needs to know: filters, limits and tokenizers.

    Attributes:
        begun: what the first reading found.
        tokenizers: of both sides.
        data: limits.
    """

    begun: Begun
    tokenizers: TokenizerPair
    data: DataConfig


@dataclass(frozen=True)
class Block:
    """Pairs that follow each other.

    Attributes:
        pairs: as they are read.
        repetitions: bits, as `Begun` has them.
        first: place of the first pair among these.
    """

    pairs: list[Pair]
    repetitions: np.ndarray
    first: int


def encode_block(encoding: Encoding, block: Block) -> Found:
    """Return the places of the pairs that are kept, of both sides their ids and how many each has, and the counts.

    Args:
        encoding: of the corpus, without repetitions.
        block: pairs of it.
    """
    counts, begun = Counts(), replace(encoding.begun, repetitions=block.repetitions)
    numbered = (pair._replace(line=place) for place, pair in enumerate(block.pairs))
    kept = kept_texts(numbered, block.first, begun, counts, Pace(silent, "", None))
    rows = list(encode_pairs(kept, encoding.tokenizers, encoding.data, counts, threads=1))
    sides = [[np.asarray(row[side], dtype=np.uint32) for row in rows] for side in (1, 2)]
    ids = [np.concatenate([np.zeros(0, np.uint32), *side]) for side in sides]
    return [pair.line for pair, _, _ in rows], ids, [np.array(list(map(len, side)), np.int64) for side in sides], counts


class SharedShards:
    """The shards of a corpus that are not there yet, encoded by workers; they are asked for in order.

    Args:
        workers: who encode.
        encoding: what they need to know.
        pairs: the corpus.
        done: numbers of the shards that are there.
        pace: takes how many pairs were handed out.
    """

    def __init__(
        self, workers: Workers, encoding: Encoding, pairs: Iterator[Pair], done: Collection[int], pace: Pace
    ) -> None:
        self._begun, self._size, self._pairs = encoding.begun, encoding.data.shard_pairs, pairs
        self._done, self._pace = done, pace
        self._waiting = deque[tuple[int, list[Pair]]]()  # handed out, each with the number of its shard
        plain = replace(encoding, begun=replace(encoding.begun, repetitions=np.zeros(0, np.uint8)))
        self._found = workers.map(encode_block, plain, self._blocks())
        self._next: Found | None = None

    def _blocks(self) -> Iterator[Block]:
        bits = self._begun.repetitions
        for number, start in enumerate(range(0, self._begun.pairs, self._size)):
            pairs, place = islice(self._pairs, self._size), start
            if number in self._done:
                deque(pairs, maxlen=0)
                continue
            for some in chunks(pairs, BLOCK):
                self._waiting.append((number, some))
                begin, end = place >> 3, place + len(some)
                yield Block(some, bits[begin : (end + 7) >> 3], place - 8 * begin)
                place = end
                self._pace.at(place)

    def rows(self, number: int, counts: Counts) -> Iterator[Encoded]:
        """Yield the pairs of a shard that are kept, each with its ids.

        Args:
            number: of the shard.
            counts: filled in.
        """
        while True:
            self._next = self._next or next(self._found, None)
            if self._next is None or self._waiting[0][0] != number:
                return
            (kept, ids, lengths, counted), (_, some) = self._next, self._waiting.popleft()
            self._next = None
            counts.add(counted)
            sides = [np.split(side, np.cumsum(sizes)[:-1]) for side, sizes in zip(ids, lengths, strict=True)]
            for place, source, target in zip(kept, *sides, strict=bool(kept)):
                yield some[place], source, target.tolist()


def hashed(
    pairs: Iterable[Pair], asked: tuple[bool, bool], workers: Workers | None
) -> Iterator[tuple[Pair, int | None, int]]:
    """Yield each pair with its place among those that may be held out (None: no such pair), and the hash of its texts.

    Args:
        pairs: a corpus.
        asked: whether the place is asked for, and whether the hash is; else they are None and 0.
        workers: who compute them; None: this process.
    """
    if workers is None or not any(asked):
        for pair in pairs:
            yield pair, *_hashes(pair, asked)
        return
    waiting = deque[list[Pair]]()

    def blocks() -> Iterator[list[Pair]]:
        for some in chunks(pairs, BLOCK):
            waiting.append(some)
            yield some

    for found in workers.map(hash_block, asked, blocks()):
        for pair, (place, key) in zip(waiting.popleft(), found, strict=True):
            yield pair, place, key


def hash_block(asked: tuple[bool, bool], pairs: list[Pair]) -> list[tuple[int | None, int]]:
    """Return what `hashed` gives for some pairs."""
    return [_hashes(pair, asked) for pair in pairs]


def _hashes(pair: Pair, asked: tuple[bool, bool]) -> tuple[int | None, int]:
    return place_of(pair) if asked[0] else None, text_hash(*pair.sides) if asked[1] else 0
