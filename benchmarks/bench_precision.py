"""A training step with products in bfloat16 against one in float32, by the width of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from bench_training import SMOOTHING, Step, turn, with_update
from rows import print_rows, settle
from workload import TINY, training_batches

from dragoman.data import Batch
from dragoman.models import build_model
from dragoman.training.step import accumulate_gradients

BATCH_TOKENS = 2048
WIDTHS = (64, 128, 256, 512)
PRECISIONS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "float32": nullcontext,
    "bfloat16": functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16),
}


def step(width: int, autocast: Callable[[], AbstractContextManager[object]], batches: list[Batch]) -> Step:
    model = build_model(TINY.replace({"d_model": width, "d_ff": 4 * width, "dropout": 0.1})).train()
    turns = turn(batches)

    def backward() -> None:
        batch = next(turns)
        accumulate_gradients(model, [batch], batch.target_tokens, smoothing=SMOOTHING, autocast=autocast)

    return with_update(model, backward)


def main() -> None:
    settle()
    batches = training_batches(8, BATCH_TOKENS)
    tokens = sum(batch.target_tokens for batch in batches) / len(batches)
    for width in WIDTHS:
        runs = {name: step(width, autocast, batches) for name, autocast in PRECISIONS.items()}
        facts = {"d_model": width, "d_ff": 4 * width, "layers": "3 + 3", "batch_tokens": BATCH_TOKENS}
        print_rows("precision", facts, runs, budget=15.0, work={"target_tokens": tokens})


if __name__ == "__main__":
    main()
