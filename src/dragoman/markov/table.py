"""Transition counts: after each context, how often each word came next. Stored sparsely, as compressed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.markov.files import MOST_WORDS

# A context of two words and the word after it make one 64-bit key.
MAX_VOCAB = MOST_WORDS
_EVENTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Transitions:
    """A sparse matrix of counts with one row per context that occurred.

    Attributes:
        vocab: number of word ids, the length of a row.
        contexts: the number that stands for each row's context, rising. One word is its id; two words are
            earlier * vocab + last; no word at all is 0.
        offsets: row r is `words[offsets[r]:offsets[r + 1]]`.
        words: the words that came next, rising within a row.
        counts: how often each did, at least once.
    """

    vocab: int
    contexts: Int[Tensor, " rows"]
    offsets: Int[Tensor, " bounds"]
    words: Int[Tensor, " entries"]
    counts: Int[Tensor, " entries"]

    @classmethod
    def count(cls, events: Iterable[np.ndarray], vocab: int) -> Transitions:
        """Count events, each the number context * vocab + next word; takes memory for the distinct ones only."""
        keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        for some in _gathered(events):
            new, times = np.unique(some, return_counts=True)
            keys, counts = _merged(np.concatenate([keys, new]), np.concatenate([counts, times]))
        return cls._of(keys, counts, vocab)

    @classmethod
    def _of(cls, keys: np.ndarray, counts: np.ndarray, vocab: int) -> Transitions:
        contexts, starts = np.unique(keys // vocab, return_index=True)
        parts = (contexts, np.append(starts, len(keys)), keys % vocab, counts)
        return cls(vocab, *(torch.from_numpy(part.astype(np.int64)) for part in parts))

    def shortened(self, words_per_context: int) -> Transitions:
        """Return the counts after shorter contexts, the last so many words: rows that agree in them are added up."""
        shorter = self.contexts % self.vocab**words_per_context
        keys = shorter[self.row_of_entry] * self.vocab + self.words
        return self._of(*_merged(keys.numpy(), self.counts.numpy()), self.vocab)

    @property
    def row_of_entry(self) -> Int[Tensor, " entries"]:
        """The row that each entry stands in."""
        return torch.repeat_interleave(torch.arange(len(self.contexts)), self.offsets.diff())

    @cached_property
    def totals(self) -> Int[Tensor, " rows"]:
        """How often each context occurred."""
        return torch.zeros_like(self.contexts).index_add(0, self.row_of_entry, self.counts)

    def find(self, contexts: Int[Tensor, " wanted"]) -> tuple[Int[Tensor, " wanted"], Any]:
        """Return the row of each context, and whether there is one (where not, the row means nothing)."""
        if not len(self.contexts):
            return torch.zeros_like(contexts), torch.zeros_like(contexts, dtype=torch.bool)
        rows = torch.searchsorted(self.contexts, contexts).clamp(max=len(self.contexts) - 1)
        return rows, self.contexts[rows] == contexts

    def entries_of(self, rows: Int[Tensor, " taken"]) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
        """Return the entries of some rows, row after row, and the place in `rows` that each entry belongs to."""
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        places = torch.repeat_interleave(torch.arange(len(rows)), lengths)
        within = torch.arange(len(places)) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
        return self.offsets[rows][places] + within, places

    def add_rows(
        self,
        rows: Int[Tensor, " taken"],
        weights: Float[Tensor, " taken"],
        owners: Int[Tensor, " taken"],
        batch: int,
    ) -> Float[Tensor, "{batch} vocab"]:
        """Return for each owner the sum of its rows, each row multiplied by a weight.

        Args:
            rows: which rows are taken, in any order.
            weights: what each is multiplied by.
            owners: the line of the result that each is added to.
            batch: lines of the result.
        """
        entries, taken = self.entries_of(rows)
        result = torch.zeros(batch, self.vocab, dtype=torch.float64)
        place = owners[taken], self.words[entries]
        return result.index_put_(place, self.counts[entries] * weights[taken], accumulate=True)

    def tensors(self) -> dict[str, Int[Tensor, " values"]]:
        """Return what a file keeps of it."""
        return {"contexts": self.contexts, "offsets": self.offsets, "words": self.words, "counts": self.counts}

    @classmethod
    def from_tensors(cls, vocab: int, words_per_context: int, tensors: Mapping[str, Any]) -> Transitions:
        """Return what `tensors` gave, after a file; every rule of a table is checked.

        Raises:
            ValueError: says what does not hold.
        """
        for name in ("contexts", "offsets", "words", "counts"):
            found = tensors.get(name)
            if found is None or found.dtype != torch.int64 or found.dim() != 1:
                raise ValueError(f"{name} is no list of 64-bit integers")
        contexts, offsets, words, counts = (tensors[name] for name in ("contexts", "offsets", "words", "counts"))
        if (
            len(offsets) != len(contexts) + 1
            or offsets[0] != 0
            or offsets[-1] != len(words)
            or len(words) != len(counts)
        ):
            raise ValueError("rows and entries do not fit together")
        if (offsets.diff() < 1).any() or (counts < 1).any():
            raise ValueError("a row is empty, or a count is below 1")
        if not _within(contexts, vocab**words_per_context) or not _within(words, vocab):
            raise ValueError("an id is outside the vocabulary")
        table = cls(vocab, contexts, offsets, words, counts)
        if (contexts.diff() < 1).any() or ((table.row_of_entry * vocab + words).diff() < 1).any():
            raise ValueError("contexts or words are not in rising order")
        return table


def _within(ids: Tensor, limit: int) -> bool:
    return not len(ids) or bool(ids.min() >= 0 and ids.max() < limit)


def _gathered(events: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Many small arrays as few large ones."""
    waiting: list[np.ndarray] = []
    size = 0
    for some in events:
        waiting.append(some)
        size += len(some)
        if size >= _EVENTS_AT_ONCE:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _merged(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, inverse = np.unique(keys, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, inverse, counts)
    return distinct, total
