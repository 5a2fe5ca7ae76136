"""Several corpora in one epoch, each with its share: which pairs it has is a function of the seed and its number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from dragoman.config import DataConfig
from dragoman.data.filtering import Encoded
from dragoman.data.store import Row
from dragoman.errors import ConfigError, DataError


class Mixing:
    """The pairs of each epoch, by what `data` says of its corpora.

    Args:
        data: `weights` or `mixing_temperature`.
        sizes: pairs of each corpus, one after the other in the store; None: of older data nobody knows.
        seed: of the run.

    Raises:
        ConfigError: the weights do not fit the corpora.
        DataError: the sizes are not known.
    """

    def __init__(self, data: DataConfig, sizes: Sequence[int] | None, seed: int) -> None:
        self.shares, self._sizes, self._seed = shares_of(data, sizes), sizes, seed

    def rows(self, epoch: int) -> np.ndarray | None:
        """Return the indices of the pairs of an epoch, counted from 0; None: each pair once."""
        if self.shares is None or self._sizes is None:
            return None
        return drawn_rows(self._sizes, self.shares, seed=self._seed, epoch=epoch)


def shares_of(data: DataConfig, sizes: Sequence[int] | None) -> np.ndarray | None:
    """Return the share that each corpus has of an epoch; None where each pair is seen once.

    Args:
        data: `weights` or `mixing_temperature`.
        sizes: pairs of each corpus, in the order of the files; None: of older data nobody knows.

    Raises:
        ConfigError: there are not as many weights as corpora, or one has weight and no pairs.
        DataError: the sizes are not known.
    """
    if not data.weights and data.mixing_temperature is None:
        return None
    if sizes is None:
        raise DataError("these prepared data do not record the size of each corpus", hint="prepare them again")
    counts = np.asarray(sizes, dtype=np.float64)
    if data.mixing_temperature is not None:
        weights = np.where(counts > 0, np.maximum(counts, 1) ** (1 / data.mixing_temperature), 0.0)
    else:
        if len(data.weights) != len(counts):
            found = f"{len(data.weights)} for {len(counts)}"
            raise ConfigError("data.weights has a number for each training file", found=found)
        weights = np.asarray(data.weights, dtype=np.float64)
        if np.any((weights > 0) & (counts == 0)):
            raise ConfigError("a corpus with a weight has no pairs", found=f"sizes {list(sizes)}",
                              hint="set its weight to 0")  # fmt: skip
    return weights / weights.sum()


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
        Indices of pairs, int64, corpus by corpus.
    """
    total = int(sum(sizes))
    ends = np.rint(np.cumsum(shares) * total).astype(np.int64)
    found, first = [], 0
    for number, (size, wanted) in enumerate(zip(sizes, np.diff(ends, prepend=0), strict=True)):
        if size and wanted:
            random = np.random.default_rng([seed, epoch, number])
            whole, rest = divmod(int(wanted), size)
            drawn = np.sort(random.permutation(size)[:rest])
            found.append(first + np.concatenate([np.tile(np.arange(size), whole), drawn]))
        first += size
    return np.concatenate(found).astype(np.int64)


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
