"""Which side of a corpus a text looks like, by its characters: finds pairs whose two sides were exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Character bigrams are hashed into so many buckets; a block is a run of 128 code points, about a script.
_BIGRAMS = 2**16
_BLOCKS = 0x110000 >> 7
# Share of each profile that is spread evenly, so that no text is impossible on either side.
_EVEN = 0.1
# Both sides together must speak this much (natural logarithm of the odds) for an exchange.
EXCHANGE_ODDS = 12.0


class SideProfiles:
    """Character statistics of the two sides; `add` all pairs first, then ask `exchanged`.

    Attributes:
        bigrams: how often each is there on each side, int64 [2, buckets].
        blocks: likewise, int64 [2, blocks].
    """

    def __init__(self) -> None:
        self.bigrams = np.zeros((2, _BIGRAMS), dtype=np.int64)
        self.blocks = np.zeros((2, _BLOCKS), dtype=np.int64)

    def add(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Count the characters of some pairs."""
        for side, texts in enumerate((sources, targets)):
            bigrams, blocks, _ = _features(texts)
            self.bigrams[side] += np.bincount(bigrams, minlength=_BIGRAMS)
            self.blocks[side] += np.bincount(blocks, minlength=_BLOCKS)

    def exchanged(self, sources: Sequence[str], targets: Sequence[str], *, counted: bool) -> np.ndarray:
        """Return for each pair whether both of its texts look like the other side.

        Args:
            sources: source texts.
            targets: their target texts.
            counted: these pairs were added, so each text is first taken out of its own side's counts.

        Returns:
            Booleans, one per pair. Pairs of short texts in one script are seldom told; wrong alarms are rare.
        """
        left = self._odds(sources, 0, counted)
        right = self._odds(targets, 1, counted)
        return (left > 0) & (right > 0) & (left + right > EXCHANGE_ODDS)

    def _odds(self, texts: Sequence[str], side: int, counted: bool) -> np.ndarray:
        if not texts:
            return np.zeros(0)
        bigrams, blocks, starts = _features(texts)
        odds = _log_odds(self.bigrams, side, counted)[bigrams] + _log_odds(self.blocks, side, counted)[blocks]
        return np.add.reduceat(odds, starts)


def _log_odds(counts: np.ndarray, side: int, counted: bool) -> np.ndarray:
    own, other = counts[side], counts[1 - side]
    own = np.maximum(own - counted, 0)
    even = _EVEN / len(own)
    shares = [(1 - _EVEN) * count / max(count.sum(), 1) + even for count in (other, own)]
    return np.log(shares[0]) - np.log(shares[1])


def _features(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bucket of each character's bigram, its block, and where each text starts; every text ends in one LF."""
    joined = "".join(f"{text}\n" for text in texts)
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    before = np.roll(points, 1)
    bigrams = ((before * 0x9E3779B1 + points * 0x85EBCA77) >> 12) % _BIGRAMS
    starts = np.cumsum([0] + [len(text) + 1 for text in texts[:-1]])
    return bigrams, points >> 7, starts
