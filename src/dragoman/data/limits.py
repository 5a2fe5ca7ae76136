"""How long outputs may be, so that what training shows fits: factor and offset of the limit, chosen from the pairs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from jaxtyping import Int

from dragoman.config import DecodingConfig
from dragoman.data.filtering import Encoded
from dragoman.data.sounds import SoundStore
from dragoman.data.store import TokenStore
from dragoman.sequences.source import SPECIALS

Lengths = Int[np.ndarray, "pairs"]

# One pair in so many may not fit: of noisy corpora that many are misaligned, and would let every loop run on for long.
LEFT_OUT = 1000
# Outputs may be longer than what training showed, by one token in so many.
ROOM = 10
# Of larger corpora an even sample is looked at.
LOOKED_AT = 200_000
_EXAMPLES = 5
_SETTINGS = ("max_length", "max_length_factor", "max_length_offset")


def leaves_limit_open(options: DecodingConfig) -> bool:
    """Return whether nothing was said of how long outputs may be."""
    return not options.given.intersection(_SETTINGS)


def fit_limit(sources: Lengths, targets: Lengths, *, factor: float = 1.0, offset: int = 50) -> tuple[float, int]:
    """Return a limit, source tokens x factor + offset, that targets fit with a tenth of room, all but 1 in 1,000.

    Of all such limits it is the one that allows least for a source of the mean length: a loop runs that far.

    Args:
        sources: tokens of each source, without matches.
        targets: tokens of each target.
        factor: at least so much.
        offset: at least so many; both as they are where they suffice.
    """
    some = np.linspace(0, len(sources) - 1, min(len(sources), LOOKED_AT)).astype(np.int64)
    lengths, wanted = sources[some].astype(np.float64), targets[some].astype(np.int64)
    needed = wanted + -(-wanted // ROOM)
    if not len(some):
        return factor, offset
    kept = max(0, len(some) - 1 - len(some) // LEFT_OUT)

    def offset_for(slope: float) -> int:
        excess = np.partition(needed - np.floor(lengths * slope), kept)[kept]
        return max(offset, math.ceil(excess))

    best, mean = (factor, offset_for(factor)), float(lengths.mean())
    # Beyond this factor the offset alone limits the shortest sources.
    steepest = float((needed / np.maximum(lengths, 1)).max())
    for slope in np.unique(np.geomspace(factor, max(factor, min(steepest, 1000.0)), 40).round(1)).tolist():
        if slope <= factor or best[1] == offset:
            continue
        found = (slope, offset_for(slope))
        if slope * mean + found[1] < best[0] * mean + best[1]:
            best = found
    return best


def own_lengths(store: TokenStore) -> Lengths:
    """Return the tokens of each source of a store, the fuzzy matches beside it left out: they begin with a `<s>`."""
    lengths = np.array(store.source_lengths)
    if isinstance(store, SoundStore):
        return lengths
    for row in range(len(store)):
        found = np.flatnonzero(store.source(row) == SPECIALS.bos)
        if len(found):
            lengths[row] = found[0]
    return lengths


class LengthsSeen:
    """The lengths of pairs on their way to a store, and where each stands: 16 bytes a pair."""

    def __init__(self) -> None:
        self._sources, self._targets, self._lines, self._files = (array("I") for _ in range(4))
        self._names: dict[str, int] = {}

    def watch(self, pairs: Iterable[Encoded]) -> Iterator[Encoded]:
        """Yield the same pairs; their sources have no matches yet."""
        for one in pairs:
            pair, source, target = one
            self._sources.append(len(source))
            self._targets.append(len(target))
            self._lines.append(pair.line)
            self._files.append(self._names.setdefault(pair.file, len(self._names)))
            yield one

    def report(self, options: DecodingConfig, tell: Callable[[str], None]) -> None:
        """Tell how long outputs may be if that is not the default, and which targets are longer.

        Args:
            options: the search; what it leaves open is chosen as `fit_limit` does.
            tell: takes lines of plain text.
        """
        sources, targets = (np.asarray(lengths, dtype=np.int64) for lengths in (self._sources, self._targets))
        if leaves_limit_open(options):
            factor, offset = fit_limit(sources, targets)
            if (factor, offset) != (options.max_length_factor, options.max_length_offset):
                tell(f"limit of outputs: source tokens x {factor:g} + {offset:,}, which the training targets need")
            options = options.replace({"max_length_factor": factor, "max_length_offset": offset})
        limits = np.array([options.output_limit(length) for length in range(int(sources.max(initial=0)) + 1)])
        rows = np.flatnonzero(targets > limits[sources])
        if not len(rows):
            return
        names = list(self._names)
        first = "; ".join(f"{names[self._files[row]]}, line {self._lines[row]}" for row in rows[:_EXAMPLES])
        longest = int((targets - limits[sources])[rows].max())
        tell(
            f"warning: {len(rows):,} of {len(targets):,} training targets are longer than what a search may write "
            f"({options.limit_in_words}), by up to {longest:,} tokens: outputs like them are cut (first: {first})"
        )
