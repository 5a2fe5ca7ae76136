"""Batches by length and token budget, as pure functions of lengths, seed and epoch.

Nothing here remembers anything, so a run that is resumed at (epoch, update) sees exactly the batches that it would
have seen. Pairs of similar length share a batch, so little is padding (paper section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from dragoman.data.masking import mask_pieces
from dragoman.data.sounds import SoundStore
from dragoman.data.store import TokenStore
from dragoman.sequences import SPECIALS, Direction, SourceBatch, Specials, TargetBatch
from dragoman.sequences.batch import moved

SOURCE_FRAME, TARGET_FRAME = 1, 2
# Source lengths are blurred by so much before sorting, so that pairs meet others in each epoch.
_JITTER = 1.0


@dataclass(frozen=True)
class Batch:
    """Some pairs, framed and padded.

    Attributes:
        source: what is translated.
        target: what is to be written, once in each direction that is learned.
        source_tokens: source ids that are not padding, `</s>` counted.
        target_tokens: labels that are not padding, what ends a target counted and what begins it not.
    """

    source: SourceBatch
    target: TargetBatch
    source_tokens: int
    target_tokens: int

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source)

    @property
    def labels(self) -> Int64[Tensor, "rows labels"]:
        """The targets shifted left."""
        return self.target.labels

    @property
    def label_mask(self) -> Bool[Tensor, "rows labels"]:
        """Where there is something to be predicted."""
        return self.target.label_mask

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on a device."""
        return replace(self, source=self.source.to(device), target=self.target.to(device))

    def repeat(self, times: int) -> Batch:
        """Return all pairs so many times; in each block of targets one copy follows the other, as in the sources."""
        counts = self.source_tokens * times, self.target_tokens * times
        return Batch(self.source.repeat(times), self.target.repeat(times), *counts)


@dataclass(frozen=True)
class TextBatch:
    """Some lines of a text, framed and padded, and what is to be learned at each place.

    Attributes:
        ids: what the model reads.
        mask: True where it has tokens.
        labels: what it is to predict at each place; of no meaning where nothing.
        label_mask: True where there is something to be predicted.
        target_tokens: how many labels that are.
        source_tokens: ids that an encoder reads, `</s>` counted; 0 for a decoder.
    """

    ids: Int64[Tensor, "batch tgt"]
    mask: Bool[Tensor, "batch tgt"]
    labels: Int64[Tensor, "batch tgt"]
    label_mask: Bool[Tensor, "batch tgt"]
    target_tokens: int
    source_tokens: int = 0

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.ids)

    def to(self, device: torch.device | str) -> TextBatch:
        """Return the same batch on a device."""
        return self._each(lambda rows: moved(rows, device))

    def repeat(self, times: int) -> TextBatch:
        """Return all lines so many times, one copy of the batch after the other."""
        counts = {"target_tokens": self.target_tokens * times, "source_tokens": self.source_tokens * times}
        return replace(self._each(lambda rows: rows.repeat(times, 1)), **counts)

    def _each(self, change: Callable[[Tensor], Tensor]) -> TextBatch:
        names = ("ids", "mask", "labels", "label_mask")
        return replace(self, **{name: change(getattr(self, name)) for name in names})


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    accumulate: int = 1,
    rows: np.ndarray | None = None,
) -> list[list[np.ndarray]]:
    """Return every update of an epoch.

    Each pair comes exactly once, or as often as in `rows`. In each micro-batch rows x longest framed target and rows x
    longest framed source are at most `batch_tokens`; a pair that is longer than that alone is a batch by itself.
    Batches of all lengths are mixed, and each epoch has others.

    Args:
        source_lengths: unframed tokens of each source [pairs].
        target_lengths: unframed tokens of each target [pairs].
        batch_tokens: budget of a micro-batch, padding counted.
        seed: of the run.
        epoch: from 0.
        accumulate: micro-batches of an update; of several processes, of all of them together.
        rows: indices of the pairs that the epoch has, some perhaps several times; each once if None.

    Returns:
        Updates, each a list of up to `accumulate` micro-batches (only the last has fewer), each an int64 array of pair
        indices.
    """
    random = np.random.default_rng([seed, epoch])
    return plan_rows(random, source_lengths, target_lengths, batch_tokens, accumulate=accumulate, rows=rows)


def plan_rows(
    random: np.random.Generator,
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    batch_tokens: int,
    *,
    accumulate: int,
    rows: np.ndarray | None = None,
) -> list[list[np.ndarray]]:
    """Return updates as `plan_epoch` does, by a generator of random numbers in place of seed and epoch."""
    source, target = _framed(source_lengths, SOURCE_FRAME), _framed(target_lengths, TARGET_FRAME)
    shuffled = random.permutation(len(target)) if rows is None else random.permutation(rows)
    jitter = random.uniform(-_JITTER, _JITTER, len(shuffled))
    order = shuffled[_by_length(source[shuffled] + jitter, target[shuffled])]
    batches = _pack(source[order], target[order], batch_tokens, order)
    batches = [batches[i] for i in random.permutation(len(batches))]
    return [batches[i : i + accumulate] for i in range(0, len(batches), accumulate)]


def eval_batches(
    source_lengths: np.ndarray, target_lengths: np.ndarray | None = None, *, batch_tokens: int
) -> list[np.ndarray]:
    """Return batches by length, longest first, always the same: for validation and translation.

    Args:
        source_lengths: unframed tokens of each source [rows].
        target_lengths: unframed tokens of each target [rows], if there are targets.
        batch_tokens: budget as for `plan_epoch`.

    Returns:
        Int64 arrays of row indices; together each row exactly once.
    """
    source = _framed(source_lengths, SOURCE_FRAME)
    target = source if target_lengths is None else _framed(target_lengths, TARGET_FRAME)
    order = _by_length(source, target)
    return _pack(source[order], target[order], batch_tokens, order)[::-1]


def collate(
    store: TokenStore,
    indices: np.ndarray | Sequence[int],
    directions: tuple[Direction, ...] = (Direction.LEFT_TO_RIGHT,),
    specials: Specials = SPECIALS,
) -> Batch:
    """Return the pairs at some indices as a batch, each target once in each of some directions.

    It holds what `SourceBatch.of` and `TargetBatch.of` would make of the same pairs, several times sooner. A store has
    sources with their fuzzy matches joined to them, as an encoder reads them.
    """
    targets = [store.target(int(i)) for i in indices]
    if isinstance(store, SoundStore):
        source = SourceBatch.of_frames(store.frames(indices))
        read = int(store.source_lengths[np.asarray(indices)].sum())
    else:
        sources = [store.source(int(i)) for i in indices]
        source = SourceBatch(*_padded(sources, None, specials.eos if specials.ends_source else None, specials.pad))
        read = sum(map(len, sources)) + (len(sources) if specials.ends_source else 0)
    blocks = []
    for direction in directions:
        ordered = targets if direction is Direction.LEFT_TO_RIGHT else [ids[::-1] for ids in targets]
        blocks.append(_padded(ordered, *direction.frame(specials), specials.pad))
    ids, mask = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*blocks, strict=True))
    labels = (sum(map(len, targets)) + len(targets)) * len(directions)
    return Batch(source, TargetBatch(ids, mask, directions), read, labels)


def collate_causal(store: TokenStore, indices: np.ndarray | Sequence[int], specials: Specials = SPECIALS) -> TextBatch:
    """Return the lines at some indices for a decoder: it reads `<s>` and a line, the labels are the line and `</s>`."""
    lines = [store.target(int(i)) for i in indices]
    framed, mask = _padded(lines, *Direction.LEFT_TO_RIGHT.frame(specials), specials.pad)
    return TextBatch(framed[:, :-1], mask[:, :-1], framed[:, 1:], mask[:, 1:], sum(map(len, lines)) + len(lines))


def collate_masked(
    store: TokenStore,
    indices: np.ndarray | Sequence[int],
    *,
    key: int,
    vocabulary: int,
    specials: Specials = SPECIALS,
) -> TextBatch:
    """Return the lines at some indices for an encoder: it reads them with pieces hidden, which are the labels.

    Args:
        store: the lines.
        indices: which of them.
        key: of the draw; a line is hidden alike in any batch, by its index and this.
        vocabulary: its size, special ids included; `<mask>` is one.
        specials: of that vocabulary.
    """
    lines = [store.target(int(i)) for i in indices]
    framed, mask = _padded(lines, None, specials.eos, specials.pad)
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    numbers = np.asarray(indices, dtype=np.int64)
    ids, chosen = mask_pieces(framed.numpy(), lengths, numbers, key=key, vocabulary=vocabulary)
    read = int(lengths.sum()) + len(lines)
    return TextBatch(torch.from_numpy(ids), mask, framed, torch.from_numpy(chosen), int(chosen.sum()), read)


def _padded(
    rows: Sequence[np.ndarray], begin: int | None, end: int | None, pad: int
) -> tuple[Int64[Tensor, "rows width"], Bool[Tensor, "rows width"]]:
    """Rows of ids, each in its frame, and where there are tokens."""
    first = 0 if begin is None else 1
    ends = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + first
    whole = ends if end is None else ends + 1
    places = np.arange(whole.max(initial=first))
    padded = np.full((len(rows), len(places)), pad, dtype=np.int64)
    if begin is not None:
        padded[:, 0] = begin
    if rows:
        padded[(places >= first) & (places < ends[:, None])] = np.concatenate(rows)
        if end is not None:
            padded[np.arange(len(rows)), ends] = end
    return torch.from_numpy(padded), torch.from_numpy(places < whole[:, None])


def _framed(lengths: np.ndarray, frame: int) -> np.ndarray:
    return np.asarray(lengths, dtype=np.int64) + frame


def _by_length(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """By target length, then by source length, up and down in turn: neighbours are alike where the target grows too."""
    return np.lexsort((np.where(target % 2, source, -source), target))


def _pack(source: np.ndarray, target: np.ndarray, budget: int, order: np.ndarray) -> list[np.ndarray]:
    """Cut sorted pairs into the fewest consecutive batches that keep the budget."""
    batches, start = [], 0
    while start < len(order):
        most = max(budget // int(max(source[start], target[start], 1)), 1)
        longest = np.maximum(source[start : start + most], target[start : start + most])
        # Rows x longest grows with each row, so the rows that fit are those counted.
        cost = np.maximum.accumulate(longest) * np.arange(1, len(longest) + 1)
        end = start + max(int((cost <= budget).sum()), 1)
        batches.append(order[start:end])
        start = end
    return batches
