"""Learning targets in both directions: what is made of a `Transformer` for it (Liu et al. 2016, Agreement on Target-
bidirectional Neural Machine Translation).

A decoder can learn both directions, told apart by what a target begins with: then the model is a plain `Transformer`
and only its batches differ. Or each direction has a decoder of its own: then it is a `BidirectionalTransformer`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.nn import Decoder, Encoder, Transformer
from dragoman.sequences import Direction, SourceBatch, TargetBatch


class BidirectionalTransformer(Transformer):
    """A `Transformer` with a second decoder, which reads targets from right to left; all other parts serve both.

    Used as a `Transformer` it reads, and writes, from left to right.

    Args:
        source_embedding: as of `Transformer`, like all that follow.
        right_to_left_decoder: made as `decoder` is.
    """

    def __init__(
        self,
        source_embedding: nn.Module,
        target_embedding: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        generator: nn.Linear,
        pad: int = 0,
        ctc: nn.Linear | None = None,
        *,
        right_to_left_decoder: Decoder,
    ) -> None:
        super().__init__(source_embedding, target_embedding, encoder, decoder, generator, pad, ctc)
        self.right_to_left_decoder = right_to_left_decoder


def learned_directions(config: ModelConfig) -> tuple[Direction, ...]:
    """Return the directions in which training reads targets."""
    return tuple(Direction) if config.right_to_left else (Direction.LEFT_TO_RIGHT,)


def for_direction(model: Transformer, direction: Direction) -> Transformer:
    """Return what reads and writes targets in a direction, as a plain `Transformer` would from left to right.

    Args:
        model: has learned that direction.
        direction: in which ids are given to what is returned, and framed (`Direction.frame`).

    Returns:
        The model itself where its one decoder learned the direction, or its parts with the decoder of the direction.
    """
    if direction is Direction.LEFT_TO_RIGHT or not isinstance(model, BidirectionalTransformer):
        return model
    parts = model.source_embedding, model.target_embedding, model.encoder, model.right_to_left_decoder, model.generator
    return Transformer(*parts, model.pad).train(model.training)


def decoder_passes(model: Transformer, target: TargetBatch) -> list[tuple[Decoder, TargetBatch]]:
    """Return which decoder reads which of the targets, in the order of their rows: one pass through it for each."""
    if not isinstance(model, BidirectionalTransformer):
        return [(model.decoder, target)]
    decoders = {Direction.LEFT_TO_RIGHT: model.decoder, Direction.RIGHT_TO_LEFT: model.right_to_left_decoder}
    return [(decoders[block.directions[0]], block) for block in target.blocks()]


class Memory(NamedTuple):
    """What an encoder made of the sources of a batch: a vector at each place where there is something."""

    vectors: Float[Tensor, "batch src d_model"]
    there: Bool[Tensor, "batch src"]


def read_targets(
    model: Transformer, source: SourceBatch, target: TargetBatch, memories: list[Memory] | None = None
) -> Float[Tensor, "rows labels d_model"]:
    """Return what decoders give to the generator at each label of each target, all at once (teacher forcing).

    Each source is encoded once, whatever the number of its targets.

    Args:
        model: has learned the targets' directions.
        source: what is translated.
        target: targets of those sources.
        memories: the encoder's output is appended to it.

    Raises:
        ValueError: they are targets of more or fewer sources.
    """
    if target.sources != len(source):
        raise ValueError(f"targets of {target.sources} sources were given with {len(source)} sources")
    memory, memory_mask = model.encode(source.ids, source.mask)
    if memories is not None:
        memories.append(Memory(memory, memory_mask[:, 0, 0]))
    found = []
    for decoder, block in decoder_passes(model, target):
        seen, times = (memory, memory_mask), block.per_source
        if times > 1:
            seen = memory.repeat(times, 1, 1), memory_mask.repeat(times, 1, 1, 1)
        mask = model.decoder_mask(block.inputs, block.input_mask)
        found.append(decoder(model.target_embedding(block.inputs), mask, *seen))
    return torch.cat(found) if len(found) > 1 else found[0]
