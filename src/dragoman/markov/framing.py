"""How a sequence becomes the events that are counted: `<s>` before it, `</s>` after it, a context before each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dragoman.errors import DataError

# The ids that every vocabulary has in common.
PAD, BOS, EOS = 0, 2, 3
Sequences = Sequence[Sequence[int]]


def framed(sequences: Sequences, vocab: int) -> Iterator[np.ndarray]:
    """Return each sequence as `<s>`, its ids and `</s>`.

    Raises:
        DataError: there is none, or an id is outside the vocabulary.
    """
    if not len(sequences):
        raise DataError("there is nothing to count", expected="at least one sequence", found="none")
    for ids in sequences:
        row = np.array([BOS, *ids, EOS], dtype=np.int64)
        if row.min() < 0 or row.max() >= vocab:
            raise DataError("an id is outside the vocabulary", expected=f"0 to {vocab - 1}", found=list(ids)[:20])
        yield row


def word_events(sequences: Sequences, vocab: int, order: int) -> Iterator[np.ndarray]:
    """Return context * vocab + next word, the context being the last `order` words; `<pad>` where there are fewer."""
    for row in framed(sequences, vocab):
        padded = np.concatenate([np.full(max(order - 1, 0), PAD), row])
        size = len(row) - 1
        context = np.zeros(size, np.int64)
        for first in range(order):
            context = context * vocab + padded[first : first + size]
        yield context * vocab + row[1:]


def pair_events(sequences: Sequences, vocab: int) -> Iterator[np.ndarray]:
    """Return context * vocab + next word, a context for each pair of an earlier word and the last (see `paired`)."""
    return (paired(row, vocab)[0] for row in framed(sequences, vocab))


def paired(row: np.ndarray, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a framed sequence as (earlier * vocab + last) * vocab + next, and each last word's place.

    A word that stands there twice makes one pair. `<s>` precedes everything and would tell nothing: it is the earlier
    word only where there is no other, and `<pad>` is where the last word is `<s>` itself.
    """
    size = len(row) - 1
    first_time = np.zeros((size, 1), bool)
    first_time[1 + np.unique(row[1:size], return_index=True)[1]] = True
    together = np.triu(np.broadcast_to(first_time, (size, size)), 1)
    together[0, 1:2] = True
    earlier, last = together.nonzero()
    context = np.append(row[earlier] * vocab + row[last], PAD * vocab + BOS)
    last = np.append(last, 0)
    return context * vocab + row[last + 1], last
