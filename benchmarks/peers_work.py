"""What is measured: models, batches, and which rows make the table."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

# A shape that every peer knows: post-norm, one embedding for all, sines before cosines.
SHAPE = {"norm": "post", "positions": "concatenated", "tie_embeddings": "all", "activation": "relu"}
Ids = list[list[int]]


def sizes(d_model: int, heads: int, d_ff: int, layers: int, vocab: int) -> dict[str, Any]:
    """A model's configuration, in our names."""
    widths = {"d_model": d_model, "num_heads": heads, "d_ff": d_ff, "source_vocab": vocab, "target_vocab": vocab}
    return {**SHAPE, **widths, "num_encoder_layers": layers, "num_decoder_layers": layers}


MODELS = {"base": sizes(512, 8, 2048, 6, 8000), "tiny": sizes(256, 4, 1024, 3, 4000)}


@dataclass(frozen=True)
class Goal:
    """What is wanted of a row: so many times as fast as the yardstick."""

    model: str
    batch: int
    beam_size: int
    least: float


GOALS = (
    Goal("base", 1, 1, 2.0), Goal("base", 1, 4, 2.0), Goal("base", 32, 1, 1.5), Goal("base", 32, 4, 1.3),
    Goal("tiny", 1, 1, 1.2), Goal("tiny", 1, 4, 1.2), Goal("tiny", 32, 1, 1.3), Goal("tiny", 32, 4, 1.2),
)  # fmt: skip
TRAINING_GOAL, FILE_GOAL, START_GOAL, USER_GOAL = 1.25, 1.2, 1 / 1.3, 2.0


@dataclass(frozen=True)
class Decoding:
    """Sources in batches; every output has as many tokens as a source has on average."""

    batches: list[Ids]
    steps: int
    beam_size: int

    @property
    def tokens(self) -> int:
        return self.steps * sum(len(batch) for batch in self.batches)

    @property
    def lengths(self) -> list[list[int]]:
        return [[len(ids) + 1 for ids in batch] for batch in self.batches]


def lengths(count: int, seed: int = 1) -> list[int]:
    """As long as image captions: 13 tokens on average, seldom more than 30."""
    draw = random.Random(seed)
    return [min(45, max(4, round(draw.lognormvariate(2.51, 0.35)))) for _ in range(count)]


def sentences(many: list[int], vocab: int, seed: int = 2) -> Ids:
    """Random ids above the special ones."""
    draw = random.Random(seed)
    return [[draw.randrange(5, vocab) for _ in range(length)] for length in many]


def decoding(batch: int, beam_size: int, vocab: int, calls: int) -> Decoding:
    """`calls` batches of as many sentences."""
    drawn = lengths(batch * calls)
    ids = sentences(drawn, vocab)
    steps = round(sum(drawn) / len(drawn))
    return Decoding([ids[index : index + batch] for index in range(0, len(ids), batch)], steps, beam_size)


def one_length(batch: int, source: int, target: int, beam_size: int, vocab: int) -> Decoding:
    """A batch of sources of one length."""
    return Decoding([sentences([source] * batch, vocab)], target, beam_size)


def training(count: int, tokens: int, vocab: int) -> list[list[Ids]]:
    """Batches of about so many target tokens, of pairs of like length; each is sources and targets."""
    draw, made = random.Random(3), []
    targets = sorted(lengths(20_000, seed=4))
    starts = sorted(draw.sample(range(len(targets) - tokens // 4), count))
    for start in starts:
        chosen, total = [], 0
        for length in targets[start:]:
            if total + length + 1 > tokens:
                break
            chosen.append(length)
            total += length + 1
        others = [max(4, length + round(draw.gauss(0, 1))) for length in chosen]
        made.append([sentences(others, vocab, start), sentences(chosen, vocab, start + 1)])
    return made
