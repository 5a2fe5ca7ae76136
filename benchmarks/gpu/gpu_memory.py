"""What of a training fits into the memory of a GPU: bytes by arithmetic, those of a layer counted on a processor.

python benchmarks/gpu/gpu_memory.py
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.data import Batch
from dragoman.fast import module_hidden
from dragoman.models import build_model
from dragoman.sequences import SourceBatch, TargetBatch, sources_of

VOCAB = 32_000
# d_model, d_ff, layers on either side.
SHAPES = {"base": (512, 2048, 6), "big": (1024, 4096, 6), "huge": (2048, 8192, 24)}
CARDS = (8, 24, 80)
USABLE = 0.9  # of a card; the rest goes to CUDA itself and to gaps
# Bytes of a parameter: weight, gradient, both moments of Adam; the moving average; its copy in bfloat16 for products.
ADAM, AVERAGE, CAST = 16, 4, 2
# Labels whose logits are held at once, and bytes of each number of them: float32, and bfloat16 twice.
ROWS, LOGIT = 8192, 8
# No width of a weight, so that what belongs to tokens is known by its shape.
LENGTH, SENTENCES, NARROW = 37, 3, 128


def config(d_model: int, heads: int, d_ff: int, encoder: int, decoder: int, vocab: int = VOCAB) -> ModelConfig:
    """Return a model of the paper's kind with all embeddings tied."""
    return ModelConfig(
        source_vocab=vocab, target_vocab=vocab, d_model=d_model, num_heads=heads, d_ff=d_ff, num_encoder_layers=encoder,
        num_decoder_layers=decoder, dropout=0.1, tie_embeddings="all",
    )  # fmt: skip


def parameters(d_model: int, d_ff: int, layers: int, vocab: int = VOCAB) -> int:
    """Return the parameters of a model with so many layers on either side, embeddings tied, a norm at both ends."""
    attention, feed_forward, norm = 4 * (d_model**2 + d_model), 2 * d_model * d_ff + d_ff + d_model, 2 * d_model
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return layers * (encoder + decoder) + 2 * norm + vocab * d_model


@functools.cache
def kept_by_layers(d_model: int) -> float:
    """Return bytes for each token that an encoder and a decoder layer keep for the backward pass, in bfloat16.

    They are what one layer more keeps, of `SENTENCES` sentences of `LENGTH` tokens, with heads of 64 and d_ff of four
    times d_model. All of it grows with d_model, so it is counted of a narrow model.
    """
    few, more = (_kept(config(NARROW, NARROW // 64, 4 * NARROW, layers, layers, vocab=8)) for layers in (1, 2))
    return (more - few) / (LENGTH * SENTENCES) * d_model / NARROW


def _kept(shape: ModelConfig) -> int:
    model: Any = build_model(shape).train()
    rows = [[5] * (LENGTH - 1)] * SENTENCES
    batch = Batch(SourceBatch.of(sources_of(rows)), TargetBatch.of(rows), LENGTH * SENTENCES, LENGTH * SENTENCES)
    held: dict[int, int] = {}
    alive = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        # Weights and their copies in bfloat16 are counted apart.
        if {LENGTH, LENGTH * SENTENCES} & set(tensor.shape):
            held[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one), torch.autocast("cpu", torch.bfloat16):
        module_hidden(model, batch)
    return sum(held.values())


def state_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return bytes of weights, gradients and moments as they are, after an update."""
    found = [*model.parameters(), *(one.grad for one in model.parameters())]
    found += [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    return sum(one.nbytes for one in found if one is not None)


def report() -> Iterator[str]:
    """Yield the lines of the table."""
    fits = "".join(f"{f'in {card} GB':>10}" for card in CARDS)
    yield f"{'model':<6}{'parameters':>15}{'fixed GB':>10}{'sharded / 8':>13}{'KiB a token':>13}{fits}"
    for name, (d_model, d_ff, layers) in SHAPES.items():
        count = parameters(d_model, d_ff, layers)
        fixed = count * (ADAM + AVERAGE + CAST) + ROWS * VOCAB * LOGIT
        parts = count * (ADAM + AVERAGE) / 8 + ROWS * VOCAB * LOGIT + 4 * VOCAB * d_model
        each = layers * kept_by_layers(d_model)
        room = "".join(f"{_tokens(USABLE * card * 1e9 - fixed, each):>10}" for card in CARDS)
        yield f"{name:<6}{count:>15,}{fixed / 1e9:>10.1f}{parts / 1e9:>13.1f}{each / 1024:>13.0f}{room}"


def _tokens(room: float, each: float) -> str:
    return f"{int(room / each) // 100 * 100:,}" if room > 100 * each else "–"


if __name__ == "__main__":
    print("\n".join(report()))
