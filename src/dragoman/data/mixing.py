"""Several corpora in one epoch, each with its share: which pairs it has is a function of the seed and its number."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from dragoman.config import DataConfig
from dragoman.config.kinds import Stage
from dragoman.data.filtering import Encoded
from dragoman.data.store import Row
from dragoman.errors import ConfigError, DataError


class Mixing:
    """The pairs of each epoch, by what `data` says of its corpora.

    A stage of a curriculum begins a new epoch, so that what an epoch has follows from the updates before it.

    Args:
        data: `weights`, `mixing_temperature` or `curriculum`.
        sizes: pairs of each corpus, one after the other in the store; None: of older data nobody knows.
        seed: of the run.

    Attributes:
        starts: updates before each stage; without a curriculum there is one.

    Raises:
        ConfigError: the weights do not fit the corpora.
        DataError: the sizes are not known.
    """

    def __init__(self, data: DataConfig, sizes: Sequence[int] | None, seed: int) -> None:
        self._sizes, self._seed = sizes, seed
        stages = data.curriculum or (Stage(0, data.weights),)
        self.starts = [stage.update for stage in stages]
        self._weights = [stage.weights for stage in stages]
        self._shares = [shares_of(stage.weights, data.mixing_temperature, sizes) for stage in stages]

    def rows(self, epoch: int, begun: int = 0) -> np.ndarray | None:
        """Return the indices of the pairs of an epoch; None: each pair once.

        Args:
            epoch: its number, from 0.
            begun: updates before it.
        """
        shares = self._shares[self._stage(begun)]
        if shares is None or self._sizes is None:
            return None
        return drawn_rows(self._sizes, shares, seed=self._seed, epoch=epoch)

    def end(self, begun: int) -> int | None:
        """Return after how many updates an epoch ends with its stage; None: never.

        Args:
            begun: updates before the epoch.
        """
        return next((start for start in self.starts if start > begun), None)

    def updates(self, epochs: float, count: Callable[[np.ndarray | None], int]) -> tuple[int, list[int]]:
        """Return how many updates some epochs are, and how many an epoch is in each stage that they reach.

        A stage that ends within an epoch has so much of it.

        Args:
            epochs: how many, from the beginning of training.
            count: returns the updates of an epoch with such rows.
        """
        counts, total = list[int](), 0
        for start in self.starts:
            counts.append(each := count(self.rows(0, start)))
            end, total = self.end(start), max(1, start + math.ceil(epochs * each - 1e-9))
            if end is None or total <= end:
                break
            epochs -= (end - start) / each
        return total, counts

    def told(self, begun: int) -> str | None:
        """Return a line about the stage that begins with an epoch, or None.

        Args:
            begun: updates before the epoch.
        """
        if begun not in self.starts[1:]:
            return None
        weights = self._weights[self._stage(begun)]
        what = f"the training files have the weights {', '.join(f'{one:g}' for one in weights)}"
        return f"after update {begun:,} {what if weights else 'each pair is seen once in an epoch'}"

    def doubt(self, last: int | None) -> str | None:
        """Return a warning of stages that a run of so many updates does not reach, or None.

        Args:
            last: its updates; None: not known.
        """
        late = [f"{start:,}" for start in self.starts if last is not None and start >= last]
        if not late:
            return None
        return f"data.curriculum: training ends at update {last:,}, before the stages that begin at {', '.join(late)}"

    def _stage(self, begun: int) -> int:
        return bisect_right(self.starts, begun) - 1


def shares_of(weights: Sequence[float], temperature: float | None, sizes: Sequence[int] | None) -> np.ndarray | None:
    """Return the share that each corpus has of an epoch; None where each pair is seen once.

    Args:
        weights: of each corpus; none: by the temperature.
        temperature: shares are as sizes to the power of 1 / this; None: by the weights.
        sizes: pairs of each corpus, in the order of the files; None: of older data nobody knows.

    Raises:
        ConfigError: there are not as many weights as corpora, or one has weight and no pairs.
        DataError: the sizes are not known.
    """
    if not weights and temperature is None:
        return None
    if sizes is None:
        raise DataError("these prepared data do not record the size of each corpus", hint="prepare them again")
    counts = np.asarray(sizes, dtype=np.float64)
    if temperature is not None:
        wanted = np.where(counts > 0, np.maximum(counts, 1) ** (1 / temperature), 0.0)
    else:
        if len(weights) != len(counts):
            found = f"{len(weights)} for {len(counts)}"
            raise ConfigError("there is a weight for each training file", found=found,
                              hint="set data.weights or data.curriculum anew")  # fmt: skip
        wanted = np.asarray(weights, dtype=np.float64)
        if np.any((wanted > 0) & (counts == 0)):
            raise ConfigError("a corpus with a weight has no pairs", found=f"sizes {list(sizes)}",
                              hint="set its weight to 0")  # fmt: skip
    return wanted / wanted.sum()


def drawn_rows(sizes: Sequence[int], shares: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
    """Return the pairs of an epoch, as many as there are in all: a pure function of its arguments.

    A corpus whose share is more than its size is gone through whole as often as it goes, and what is left is drawn
    without repetition; a pair of it is seen about as often as any other.

    Args:
        sizes: pairs of each corpus, one after the other in the store.
        shares: of each, adding up to 1.
        seed: of the run.
        epoch: from 0.

    Returns:
        Indices of pairs, int64, those of each corpus in their order and spread evenly: each stretch has the shares.
    """
    total = int(sum(sizes))
    ends = np.rint(np.cumsum(shares) * total).astype(np.int64)
    found, places, first = [], [], 0
    for number, (size, wanted) in enumerate(zip(sizes, np.diff(ends, prepend=0), strict=True)):
        if size and wanted:
            random = np.random.default_rng([seed, epoch, number])
            whole, rest = divmod(int(wanted), size)
            drawn = np.sort(random.permutation(size)[:rest])
            found.append(first + np.concatenate([np.tile(np.arange(size), whole), drawn]))
            places.append((np.arange(wanted) + 0.5) / wanted)
        first += size
    return np.concatenate(found)[np.argsort(np.concatenate(places), kind="stable")].astype(np.int64)


def repeated(
    pairs: Iterable[Encoded], times: Mapping[str, int], sizes: dict[str, int]
) -> Iterator[tuple[Row, list[int]]]:
    """Yield both sides of each pair, as often as its file is to be seen.

    Args:
        pairs: each with what its sides became.
        times: how often pairs of a file are seen; those of others once.
        sizes: takes how many pairs of each file that makes.
    """
    for pair, source, target in pairs:
        sizes[pair.file] = sizes.get(pair.file, 0) + times.get(pair.file, 1)
        yield from repeat((source, target), times.get(pair.file, 1))
