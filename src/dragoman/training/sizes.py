"""Sizes of models by the amount of data: the table, and which of its rows it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dragoman.config import ModelConfig
from dragoman.data import Prepared


@dataclass(frozen=True)
class Size:
    """A row of the rule: for fewer target tokens than `below`; layers and epochs, of text and of symbols.

    Encoders of pairs of text have `encoder_layers`, all other stacks of text `layers`. With `both_directions` targets
    of pairs of text are learned right to left too.
    """

    below: float
    model: dict[str, int | float]
    encoder_layers: int
    layers: int
    epochs: int
    symbol_layers: int
    symbol_epochs: int
    both_directions: bool = False


# What each constant was tried against is in the guide. The row of up to 4e6 tokens has four encoder layers because that
# before it gained by them; it was not run.
SIZES = (
    Size(150e3, {"d_model": 128, "d_ff": 512, "num_heads": 4, "dropout": 0.1}, 2, 2, 60, 2, 60, both_directions=True),
    Size(1e6, {"d_model": 256, "d_ff": 512, "num_heads": 4, "dropout": 0.2}, 4, 2, 15, 3, 20, both_directions=True),
    Size(4e6, {"d_model": 256, "d_ff": 1024, "num_heads": 4, "dropout": 0.2}, 4, 3, 20, 3, 20),
    Size(15e6, {"d_model": 512, "d_ff": 1024, "num_heads": 4, "dropout": 0.3}, 5, 5, 30, 5, 30),
    Size(float("inf"), {"d_model": 512, "d_ff": 2048, "num_heads": 8, "dropout": 0.1}, 6, 6, 10, 6, 10),
)
LARGEST_ON_CPU = 2


def target_tokens(data: Prepared) -> int:
    """Return the tokens of the training set on the target side, with an `</s>` each."""
    return int(data.train.target_lengths.sum()) + len(data.train)


def size_for(tokens: int, device: torch.device, unit: str) -> tuple[Size, str]:
    """Return the row for so many tokens, of a unit that is told, on a device; and why."""
    reason = f"{tokens:,} {unit}"
    row = next(index for index, size in enumerate(SIZES) if tokens < size.below)
    if device.type == "cpu" and row > LARGEST_ON_CPU:
        row = LARGEST_ON_CPU
        reason += " would carry more, but not on a CPU in bearable time"
    return SIZES[row], reason


def shape_for(model: ModelConfig, size: Size) -> dict[str, object]:
    """Return the widths of a row, with heads that divide the width that was given."""
    heads = int(size.model["num_heads"])
    if model.d_model is not None and not (model.d_k and model.d_v):
        heads = next(count for count in range(heads, 0, -1) if model.d_model % count == 0)
    return {**size.model, "num_heads": heads}
