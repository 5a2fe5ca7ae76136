"""The training pairs nearest to each training pair, of which every epoch draws others to be read beside it.

The same matches in every epoch would tell the model which pair it sees, and it would learn the targets by heart.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.data.store import TokenStore
from dragoman.errors import DataError, ModelError
from dragoman.files import opened, write_new_file
from dragoman.pace import Pace
from dragoman.sequences import Source
from dragoman.text.matching import Matching

FILE = "pool.npy"
PER_MATCH = 4  # candidates for each match that is read
# Of two candidates that follow each other the nearer one is so much likelier to be drawn first.
NEARER = 1.25
# So often a source is read alone: sources unlike all others will be too.
ALONE = 0.1
_NONE = -1
_STREAM = 77  # sets these draws apart from others of the same seed and epoch


class MatchCandidates:
    """Candidates for fuzzy matches: for each training pair the numbers of those most like it, itself left out.

    Args:
        matching: knows the pairs.
        nearest: their numbers, nearest first, int32 [pairs, candidates]; -1 where there are no more.
    """

    def __init__(self, matching: Matching, nearest: np.ndarray) -> None:
        self.matching, self.nearest = matching, nearest

    def drawn(self, store: TokenStore, seed: int, epoch: int) -> Iterator[list[int]]:
        """Yield the sources of an epoch, each with matches drawn from its candidates, nearer ones first; some alone.

        Args:
            store: the training pairs.
            seed: of the run.
            epoch: counted from 0.
        """
        draw = np.random.default_rng([seed, epoch, _STREAM])
        size = self.nearest.shape[1]
        keys = draw.exponential(size=self.nearest.shape) * NEARER ** np.arange(size)
        keys[self.nearest == _NONE] = np.inf
        places = np.sort(np.argsort(keys, axis=1)[:, : self.matching.count], axis=1)
        places[draw.random(len(places)) < ALONE] = size
        padded = np.pad(self.nearest, ((0, 0), (0, 1)), constant_values=_NONE)
        for row, found in enumerate(np.take_along_axis(padded, places, axis=1).tolist()):
            own = Source.from_joined(store.source(row).tolist(), self.matching.source.specials).ids
            yield self.matching.beside(own, (match for match in found if match != _NONE)).joined

    def save(self, path: Path) -> None:
        """Write the numbers of the candidates to a new file."""
        data = io.BytesIO()
        np.save(data, self.nearest, allow_pickle=False)
        write_new_file(path, data.getvalue())

    @classmethod
    def load(cls, path: Path, matching: Matching, pairs: int) -> MatchCandidates:
        """Read what `save` wrote for so many training pairs.

        Raises:
            DataError: it is missing, damaged, or of other pairs.
        """
        try:
            with opened(path) as file:
                nearest = np.load(io.BytesIO(file.read()), allow_pickle=False)
        except (OSError, ModelError, ValueError, EOFError) as error:
            raise DataError("cannot read the stored fuzzy matches", file=path, found=error) from error
        sound = nearest.dtype == np.int32 and nearest.shape == (pairs, candidate_count(matching))
        if not sound or nearest.min(initial=0) < _NONE or nearest.max(initial=_NONE) >= len(matching.index.sources):
            raise DataError("the stored fuzzy matches do not fit the data", file=path)
        return cls(matching, nearest)


def candidate_count(matching: Matching) -> int:
    """Return how many candidates each training pair has."""
    return PER_MATCH * matching.count


class CandidateFinder:
    """Gives training pairs their nearest matches, and remembers more of them.

    Args:
        matching: knows the pairs.
        report: takes a line of plain text now and then.
    """

    def __init__(self, matching: Matching, report: Callable[[str], None]) -> None:
        self._matching, self._size = matching, candidate_count(matching)
        self._pace = Pace(report, "matches: found for pairs", len(matching.index.sources))
        self._found: list[list[int]] = []

    def read(self, pairs: Iterable[tuple[Any, Sequence[int]]]) -> Iterator[tuple[list[int], Sequence[int]]]:
        """Yield pairs of ids, their sources with the nearest matches."""
        last: Sequence[int] | None = None
        found: list[int] = []
        for source, target in pairs:
            if source != last:  # pairs that are repeated follow each other
                last, found = source, self._matching.index.nearest(source, self._size, but_equal=True)
            self._found.append(found)
            self._pace.at(len(self._found))
            yield self._matching.beside(source, found[: self._matching.count]).joined, target

    def match_candidates(self) -> MatchCandidates:
        """Return the candidates of all pairs that were read."""
        rows = [[*found, *[_NONE] * (self._size - len(found))] for found in self._found]
        return MatchCandidates(self._matching, np.array(rows, np.int32).reshape(len(rows), self._size))
