"""Batches of sources and of targets as tensors, each with its mask: nobody guesses what is padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from dragoman.sequences.source import SPECIALS, SoundSource, Source, Specials
from dragoman.sequences.target import Direction, frame_target


def moved(tensor: Shaped[Tensor, "..."], device: torch.device | str) -> Shaped[Tensor, "..."]:
    """Return a tensor on a device; a GPU fetches it by itself, from pinned memory, while others go on."""
    if tensor.device.type != "cpu" or torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def pad_rows(
    rows: Sequence[Sequence[int]], device: torch.device | None = None, pad: int = SPECIALS.pad
) -> Int[Tensor, "batch len"]:
    """Return lists of ids as one matrix, padded at the end."""
    longest = max((len(row) for row in rows), default=0)
    matrix = torch.full((len(rows), longest), pad, dtype=torch.long)
    for index, row in enumerate(rows):
        matrix[index, : len(row)] = torch.tensor(row, dtype=torch.long)
    return matrix.to(device)


def length_mask(
    lengths: Sequence[int], width: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "batch len"]:
    """Return where rows of these lengths have tokens, in a matrix as wide as the longest one or as is said."""
    wide = max(lengths, default=0) if width is None else width
    return (torch.arange(wide) < torch.tensor(lengths, dtype=torch.long)[:, None]).to(device)


@dataclass(frozen=True)
class SourceBatch:
    """Some sources, framed and padded.

    Attributes:
        ids: what the encoder reads: ids, or of sounds their frames.
        mask: True where there is a token, or a frame.
    """

    ids: Int[Tensor, "batch src"] | Float[Tensor, "batch frames mels"]
    mask: Bool[Tensor, "batch given"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.ids.device

    @classmethod
    def of(cls, sources: Iterable[Source], device: torch.device | None = None) -> SourceBatch:
        """Return sources as a batch on a device."""
        given = list(sources)
        sounds = [source.frames for source in given if isinstance(source, SoundSource)]
        if sounds:
            return cls.of_frames(sounds, device)
        rows = [source.framed for source in given]
        pad = given[0].specials.pad if given else SPECIALS.pad
        return cls(pad_rows(rows, device, pad), length_mask([len(row) for row in rows], device=device))

    @classmethod
    def of_frames(cls, sounds: Sequence[Float[Tensor, "_ mels"]], device: torch.device | None = None) -> SourceBatch:
        """Return the frames of sounds as a batch on a device, zeros where one is over."""
        mask = length_mask([len(one) for one in sounds], device=device)
        return cls(torch.nn.utils.rnn.pad_sequence(list(sounds), batch_first=True).to(device), mask)

    @classmethod
    def of_padded(cls, ids: Int[Tensor, "batch src"], pad: int) -> SourceBatch:
        """Return a matrix that somebody else framed and padded as a batch."""
        return cls(ids, ids != pad)

    @classmethod
    def nothing(cls, count: int, device: torch.device | None = None) -> SourceBatch:
        """Return so many empty sources, for models that read none."""
        ids = torch.empty(count, 0, dtype=torch.long, device=device)
        return cls(ids, ids.bool())

    def to(self, device: torch.device | str) -> SourceBatch:
        """Return the same batch on a device."""
        return SourceBatch(moved(self.ids, device), moved(self.mask, device))

    def take(self, rows: Sequence[int] | Int[Tensor, " rows"]) -> SourceBatch:
        """Return some rows, in that order; one may be repeated or left out."""
        index = torch.as_tensor(rows, dtype=torch.long, device=self.ids.device)
        return SourceBatch(self.ids.index_select(0, index), self.mask.index_select(0, index))

    def repeat(self, times: int) -> SourceBatch:
        """Return all of them so many times, one copy of the batch after the other."""
        return SourceBatch(torch.cat([self.ids] * times), self.mask.repeat(times, 1))


@dataclass(frozen=True)
class TargetBatch:
    """Targets of the sources of a batch, framed and padded: a block of rows for each direction, one after the other.

    Attributes:
        ids: with what begins and what ends them.
        mask: True where there is a token.
        directions: in which each block is read; a block holds `candidates` targets for each source: all first ones in
            the order of the sources, then all second ones, and so on.
        candidates: how many each source has.
    """

    ids: Int[Tensor, "rows tgt"]
    mask: Bool[Tensor, "rows tgt"]
    directions: tuple[Direction, ...] = (Direction.LEFT_TO_RIGHT,)
    candidates: int = 1

    def __post_init__(self) -> None:
        if not self.directions or self.candidates < 1 or len(self.ids) % self.per_source:
            told = f"{self.candidates} candidates in {len(self.directions)} directions"
            raise ValueError(f"{len(self.ids)} rows are not {told} for each source")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def per_source(self) -> int:
        """How many rows each source has: its candidates in all directions."""
        return len(self.directions) * self.candidates

    @property
    def sources(self) -> int:
        """How many sources they are of."""
        return len(self.ids) // self.per_source

    @property
    def inputs(self) -> Int[Tensor, "rows labels"]:
        """What decoders are given: the targets shifted right."""
        return self.ids[:, :-1]

    @property
    def input_mask(self) -> Bool[Tensor, "rows labels"]:
        """Where `inputs` have tokens: in a shorter row also at its end token, on which no label depends."""
        return self.mask[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "rows labels"]:
        """What is to be predicted: the targets shifted left."""
        return self.ids[:, 1:]

    @property
    def label_mask(self) -> Bool[Tensor, "rows labels"]:
        """Where there is something to be predicted."""
        return self.mask[:, 1:]

    @classmethod
    def of(
        cls,
        targets: Sequence[Sequence[int]],
        specials: Specials = SPECIALS,
        directions: tuple[Direction, ...] = (Direction.LEFT_TO_RIGHT,),
        device: torch.device | None = None,
    ) -> TargetBatch:
        """Return one target for each source, unframed ids from left to right, as read in some directions."""
        rows = [frame_target(ids, specials, direction) for direction in directions for ids in targets]
        mask = length_mask([len(row) for row in rows], device=device)
        return cls(pad_rows(rows, device, specials.pad), mask, directions)

    def to(self, device: torch.device | str) -> TargetBatch:
        """Return the same batch on a device."""
        return replace(self, ids=moved(self.ids, device), mask=moved(self.mask, device))

    def blocks(self) -> list[TargetBatch]:
        """Return the block of each direction as a batch of its own."""
        count = len(self.directions)
        each = zip(self.ids.chunk(count), self.mask.chunk(count), self.directions, strict=True)
        return [TargetBatch(ids, mask, (direction,), self.candidates) for ids, mask, direction in each]

    def repeat(self, times: int) -> TargetBatch:
        """Return the targets of `SourceBatch.repeat`: each source's targets again with each copy of it."""
        ids, mask = (
            rows.unflatten(0, (self.per_source, self.sources)).repeat(1, times, 1).flatten(0, 1)
            for rows in (self.ids, self.mask)
        )
        return replace(self, ids=ids, mask=mask)
