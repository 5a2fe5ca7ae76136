"""The token store of a large corpus: shards, each a store by itself, and the order in which training reads them.

The directory holds `00000/`, `00001/`, ... and `store.json`, which is written last and names them. Shards are mapped
into memory, never loaded. The SHA-256 of a shard is compared when its first pair is read, so a training starts at once.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.data.batching import plan_epoch, plan_rows
from dragoman.data.store import DESCRIPTION, TokenStore
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import flush_directory, read_json, sealed, unsealed, write_new_file

FORMAT = 2
# Of more pairs no order of all of them is made: chunks of pairs that follow each other are put in order, and then the
# pairs of some chunks at a time, which planning takes half a second for.
MOST_AT_ONCE = 2**22
CHUNK, CHUNKS = 2**16, 16
_STREAM = 78  # sets this draw apart from others of the same seed and epoch


class ShardedStore(TokenStore):
    """The pairs of some stores, one after the other; made by `finish` and `open_store`.

    Args:
        directory: where they lie.
        shards: where each lies.
        verify: compare it when a shard is first read from.

    Attributes:
        source_lengths: tokens of each source, unframed, int32 [pairs].
        target_lengths: tokens of each target, unframed, int32 [pairs].
    """

    def __init__(self, directory: Path, shards: Sequence[Path], *, verify: bool) -> None:
        self.directory, self._paths, self._verify = directory, list(shards), verify
        self._opened: dict[int, TokenStore] = {}
        self._vocabularies: tuple[int | None, int] | None = None
        lengths: list[tuple[np.ndarray, np.ndarray]] = []
        for path in shards:  # of each shard no more is kept than these, until a pair of it is read
            shard = TokenStore.open(path)
            lengths.append((shard.source_lengths.astype(np.int32), shard.target_lengths.astype(np.int32)))
        self._starts = np.cumsum([0, *(len(source) for source, _ in lengths)]).tolist()
        none = np.zeros(0, np.int32)
        self.source_lengths = np.concatenate([none, *(source for source, _ in lengths)])
        self.target_lengths = np.concatenate([none, *(target for _, target in lengths)])

    def _view(self, side: str, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        number = bisect_right(self._starts, index) - 1
        return self._shard(number)._view(side, index - self._starts[number])

    def _shard(self, number: int) -> TokenStore:
        if number not in self._opened:
            shard = TokenStore.open(self._paths[number], verify=self._verify)
            if self._vocabularies is not None:
                shard.check_ids(*self._vocabularies)
            own = slice(*self._starts[number : number + 2])
            shard.source_lengths, shard.target_lengths = self.source_lengths[own], self.target_lengths[own]
            self._opened[number] = shard
        return self._opened[number]

    def parts(self) -> Iterator[TokenStore]:
        """Yield the shards, each mapped only for so long."""
        for path in self._paths:
            yield TokenStore.open(path, verify=self._verify)

    def tokens(self, side: str) -> np.ndarray:
        """Return the unframed ids of all pairs on a side, which takes the memory for them; `each` does not."""
        return np.concatenate(list(self.each(side)))

    def check_ids(self, source_vocab: int | None, target_vocab: int) -> None:
        """Have a shard refused when it is first read from, if it has ids that are in no vocabulary of these sizes."""
        self._vocabularies = source_vocab, target_vocab

    def with_rows(self, changed: Mapping[str, Sequence[Sequence[int]]]) -> TokenStore:
        """Refuse, for all pairs would be held in memory.

        Raises:
            ConfigError: always.
        """
        found, hint = f"{len(self):,} pairs", "prepare them as one store, with a larger data.shard_pairs"
        raise ConfigError("a corpus in shards is not changed in memory", found=found, hint=hint)


def shard_path(directory: Path, number: int) -> Path:
    """Return where a shard lies."""
    return directory / f"{number:05d}"


def finish(directory: Path) -> TokenStore:
    """Write the description of a directory whose shards are complete, and open it."""
    names, sums = [], []
    for number in count():
        path = shard_path(directory, number)
        if not path.is_dir():
            break
        names.append(path.name)
        sums.append(read_json(path / DESCRIPTION)["sha256"])
    description = {"format": FORMAT, "shards": names, "descriptions": sums}
    write_new_file(directory / DESCRIPTION, (json.dumps(sealed(description), indent=2) + "\n").encode())
    flush_directory(directory)
    return open_store(directory)


def open_store(directory: str | Path, *, verify: bool = False) -> TokenStore:
    """Map a store into memory, one of shards or a single one.

    Args:
        directory: made by `TokenStore.write` or `finish`.
        verify: compare the SHA-256 of each file; of shards, when they are first read from.

    Raises:
        DataError: a file is missing, was cut short or changed; names it.
    """
    directory = Path(directory)
    path = directory / DESCRIPTION
    try:
        description = read_json(path)
        if "shards" not in description:
            return TokenStore.open(directory, verify=verify)
        shards = list(_shards(directory, unsealed(description, path), path))
    except ModelError as error:
        raise DataError(f"not a token store: {error.message}", file=path, found=error.found) from error
    return ShardedStore(directory, shards, verify=verify)


def _shards(directory: Path, description: dict[str, Any], path: Path) -> Iterator[Path]:
    names, sums = description["shards"], description.get("descriptions")
    if description.get("format") != FORMAT or not isinstance(names, list) or not isinstance(sums, list):
        raise DataError("the token store has an unknown format", file=path, expected=f"format {FORMAT}")
    if names != [shard_path(directory, number).name for number in range(len(names))] or len(names) != len(sums):
        raise DataError("the token store's description is damaged", file=path)
    for name, digest in zip(names, sums, strict=True):
        if read_json(directory / name / DESCRIPTION).get("sha256") != digest:
            raise DataError("a shard is of another store", file=directory / name / DESCRIPTION)
        yield directory / name


class WindowPlan(Sequence[list[np.ndarray]]):
    """The updates of an epoch over more pairs than are put in order at once: a pure function of its arguments.

    Chunks of pairs that follow each other are put in an order of their own in each epoch; the pairs of `CHUNKS` of
    them at a time make a window, which is planned as `plan_epoch` plans an epoch. Each pair comes exactly once, or as
    often as in `rows`; the last update of a window may have fewer micro-batches. A window is planned when it is asked
    for, and one is kept.

    Args:
        source_lengths: as for `plan_epoch`, like all that follow.
        target_lengths: likewise.
        batch_tokens: likewise.
        seed: likewise.
        epoch: likewise.
        accumulate: likewise.
        rows: likewise.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        batch_tokens: int,
        seed: int,
        epoch: int,
        accumulate: int = 1,
        rows: np.ndarray | None = None,
    ) -> None:
        self._lengths, self._rows = (source_lengths, target_lengths), rows
        self._batch_tokens, self._accumulate, self._key = batch_tokens, accumulate, (seed, epoch, _STREAM)
        self._total = len(target_lengths) if rows is None else len(rows)
        self._chunks = np.random.default_rng(self._key).permutation(-(-self._total // CHUNK))
        self._starts = [0]  # the first update of each window, as far as they are known
        self._kept: tuple[int, list[list[np.ndarray]]] | None = None

    @property
    def windows(self) -> int:
        """How many windows the epoch has."""
        return -(-len(self._chunks) // CHUNKS)

    def window(self, number: int) -> list[list[np.ndarray]]:
        """Return the updates of a window."""
        if self._kept is None or self._kept[0] != number:
            chunks = self._chunks[number * CHUNKS : (number + 1) * CHUNKS]
            parts = [np.arange(one * CHUNK, min((one + 1) * CHUNK, self._total)) for one in chunks.tolist()]
            rows = np.concatenate(parts) if self._rows is None else self._rows[np.concatenate(parts)]
            source, target = (side[rows] for side in self._lengths)
            random = np.random.default_rng([*self._key, number])
            updates = plan_rows(random, source, target, self._batch_tokens, accumulate=self._accumulate)
            self._kept = number, [[rows[batch] for batch in update] for update in updates]
        found = self._kept[1]
        if len(self._starts) == number + 1:
            self._starts.append(self._starts[number] + len(found))
        return found

    def __len__(self) -> int:
        for number in range(len(self._starts) - 1, self.windows):
            self.window(number)
        return self._starts[-1]

    def __getitem__(self, index: Any) -> Any:
        found = self.at(index)
        if found is None:
            raise IndexError(f"update {index} of {len(self)}")
        return found

    def at(self, index: int) -> list[np.ndarray] | None:
        """Return an update, or None beyond the last; windows before it are planned first, if they were not yet."""
        while index >= self._starts[-1]:
            if len(self._starts) > self.windows:
                return None
            self.window(len(self._starts) - 1)
        number = bisect_right(self._starts, index) - 1
        return self.window(number)[index - self._starts[number]]


def plan_of(
    store: TokenStore,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    accumulate: int = 1,
    rows: np.ndarray | None = None,
) -> Sequence[list[np.ndarray]]:
    """Return the updates of an epoch over a store: `plan_epoch`, or of very many pairs in shards a `WindowPlan`.

    Args:
        store: the pairs.
        batch_tokens: as for `plan_epoch`, like all that follow.
        seed: likewise.
        epoch: likewise.
        accumulate: likewise.
        rows: likewise.
    """
    lengths = store.source_lengths, store.target_lengths
    many = isinstance(store, ShardedStore) and (len(store) if rows is None else len(rows)) > MOST_AT_ONCE
    plan = WindowPlan if many else plan_epoch
    return plan(*lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch, accumulate=accumulate, rows=rows)


def update_of(plan: Sequence[list[np.ndarray]], number: int) -> list[np.ndarray] | None:
    """Return an update of an epoch, counted from 0, or None if it has no such one; so not all windows are planned."""
    if isinstance(plan, WindowPlan):
        return plan.at(number)
    return plan[number] if number < len(plan) else None
