"""Batches by length and token budget, as pure functions of lengths, seed and epoch.

Nothing here remembers anything, so a run that is resumed at (epoch, update) sees exactly the batches that it would
have seen. Pairs of similar length share a batch, so little is padding (paper section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from dragoman.data.masking import mask_pieces
from dragoman.data.store import TokenStore
from dragoman.text.tokenizer import BOS, EOS, PAD

SOURCE_FRAME, TARGET_FRAME = 1, 2
# Source lengths are blurred by so much before sorting, so that pairs meet others in each epoch.
_JITTER = 1.0


@dataclass(frozen=True)
class Batch:
    """Some pairs, framed and padded.

    Attributes:
        source: ids then `</s>`, padded with 0.
        target: `<s>`, ids, `</s>`, padded with 0: decoder input is `target[:, :-1]`, labels are `target[:, 1:]`. Where
            targets are learned from their end too, they come once more: `</s>`, the ids from the last to the first,
            `<s>`.
        source_tokens: source ids that are not padding, `</s>` counted.
        target_tokens: labels that are not padding, `</s>` counted and `<s>` not.
    """

    source: Int64[Tensor, "batch src"]
    target: Int64[Tensor, "rows tgt"]
    source_tokens: int
    target_tokens: int

    @property
    def inputs(self) -> tuple[Int64[Tensor, "batch _"], ...]:
        """What an encoder-decoder is called with: the source, and the target shifted right."""
        return self.source, self.target[:, :-1]

    @property
    def labels(self) -> Int64[Tensor, "rows labels"]:
        """The target shifted left."""
        return self.target[:, 1:]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        return replace(
            self,
            source=self.source.to(device),
            target=self.target.to(device),
        )


@dataclass(frozen=True)
class TextBatch:
    """Some lines of a text, framed and padded, and what is to be learned at each place.

    Attributes:
        ids: what the model reads.
        labels: what it is to predict at each place; 0, the padding, where nothing.
        target_tokens: labels that are not padding.
        source_tokens: ids that an encoder reads, `</s>` counted; 0 for a decoder.
    """

    ids: Int64[Tensor, "batch tgt"]
    labels: Int64[Tensor, "batch tgt"]
    target_tokens: int
    source_tokens: int = 0

    @property
    def inputs(self) -> tuple[Int64[Tensor, "batch _"], ...]:
        """What the model is called with."""
        return (self.ids,)

    def to(self, device: torch.device | str) -> TextBatch:
        """The same batch on a device."""
        return replace(self, ids=self.ids.to(device), labels=self.labels.to(device))


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    accumulate: int = 1,
    world_size: int = 1,
) -> list[list[np.ndarray]]:
    """Every update of an epoch.

    Each pair comes exactly once. In each micro-batch rows x longest framed target and rows x longest framed source are
    at most `batch_tokens`; a pair that is longer than that alone is a batch by itself. Batches of all lengths are
    mixed, and each epoch has others.

    Args:
        source_lengths: unframed tokens of each source [pairs].
        target_lengths: unframed tokens of each target [pairs].
        batch_tokens: budget of a micro-batch, padding counted.
        seed: of the run.
        epoch: from 0.
        accumulate: micro-batches per update and rank.
        world_size: ranks; micro-batch m of an update belongs to rank m % world_size.

    Returns:
        Updates, each a list of up to accumulate x world_size micro-batches (only the last has fewer), each an int64
        array of pair indices.
    """
    random = np.random.default_rng([seed, epoch])
    source, target = _framed(source_lengths, SOURCE_FRAME), _framed(target_lengths, TARGET_FRAME)
    shuffled = random.permutation(len(target))
    jitter = random.uniform(-_JITTER, _JITTER, len(target))
    order = shuffled[_by_length(source[shuffled] + jitter, target[shuffled])]
    batches = _pack(source[order], target[order], batch_tokens, order)
    batches = [batches[i] for i in random.permutation(len(batches))]
    group = accumulate * world_size
    return [batches[i : i + group] for i in range(0, len(batches), group)]


def eval_batches(
    source_lengths: np.ndarray, target_lengths: np.ndarray | None = None, *, batch_tokens: int
) -> list[np.ndarray]:
    """Batches by length, longest first, always the same: for validation and translation.

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


def collate(store: TokenStore, indices: np.ndarray | Sequence[int], *, right_to_left: bool = False) -> Batch:
    """The pairs at some indices as a batch, their targets from left to right, or in both directions."""
    sources = [store.source(int(i)) for i in indices]
    targets = [store.target(int(i)) for i in indices]
    source, target = _padded(sources, start=None), _padded(targets, start=BOS)
    labels = sum(map(len, targets)) + len(targets)
    if right_to_left:
        target = torch.cat([target, _padded([ids[::-1] for ids in targets], start=EOS, end=BOS)])
        labels *= 2
    return Batch(source, target, sum(map(len, sources)) + len(sources), labels)


def collate_causal(store: TokenStore, indices: np.ndarray | Sequence[int]) -> TextBatch:
    """The lines at some indices for a decoder: it reads `<s>` and the line, the labels are the line and `</s>`."""
    lines = [store.target(int(i)) for i in indices]
    framed = _padded(lines, start=BOS)
    return TextBatch(framed[:, :-1], framed[:, 1:], sum(map(len, lines)) + len(lines))


def collate_masked(store: TokenStore, indices: np.ndarray | Sequence[int], *, key: int, vocabulary: int) -> TextBatch:
    """The lines at some indices for an encoder: it reads them with pieces hidden, which are the labels.

    Args:
        store: the lines.
        indices: which of them.
        key: of the draw; a line is hidden alike in any batch, by its index and this.
        vocabulary: its size, special ids included; `<mask>` is one.
    """
    lines = [store.target(int(i)) for i in indices]
    framed = _padded(lines, start=None)
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    numbers = np.asarray(indices, dtype=np.int64)
    ids, labels = mask_pieces(framed.numpy(), lengths, numbers, key=key, vocabulary=vocabulary)
    read = int(lengths.sum()) + len(lines)
    return TextBatch(torch.from_numpy(ids), torch.from_numpy(labels), int((labels != PAD).sum()), read)


def _padded(rows: Sequence[np.ndarray], *, start: int | None, end: int = EOS) -> Tensor:
    shift = start is not None
    width = max(map(len, rows), default=0) + 1 + shift
    padded = np.full((len(rows), width), PAD, dtype=np.int64)
    if start is not None:
        padded[:, 0] = start
    for row, ids in zip(padded, rows, strict=True):
        row[shift : shift + len(ids)] = ids
        row[shift + len(ids)] = end
    return torch.from_numpy(padded)


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
