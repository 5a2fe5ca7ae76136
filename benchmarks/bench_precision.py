"""A training step with products in bfloat16, by kernels and by modules, against one in float32, by width."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from bench_training import SMOOTHING, Step, turn, with_update
from rows import print_rows, settle
from workload import TINY, training_batches

from dragoman.data import Batch
from dragoman.fast import module_hidden, training_hidden
from dragoman.models import build_model
from dragoman.training.step import BatchLoss, accumulate_gradients

BATCH_TOKENS = 2048
WIDTHS = (64, 128, 256, 512)
Autocast = Callable[[], AbstractContextManager[object]]
IN_BFLOAT16 = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16)
# The precision, and whether kernels run it or the modules.
WAYS: dict[str, tuple[Autocast, bool]] = {
    "float32, kernels": (nullcontext, True),
    "bfloat16, kernels": (IN_BFLOAT16, True),
    "bfloat16, modules": (IN_BFLOAT16, False),
}


def step(width: int, autocast: Autocast, by_kernels: bool, batches: list[Batch]) -> Step:
    settings = {"d_model": width, "d_ff": 4 * width, "dropout": 0.1, "positions": "rotary"}
    model = build_model(TINY.replace(settings)).train()
    hidden = training_hidden(model) if by_kernels else functools.partial(module_hidden, model)
    turns = turn(batches)

    def backward() -> None:
        batch = next(turns)
        accumulate_gradients(
            BatchLoss(model, hidden), [batch], batch.target_tokens, smoothing=SMOOTHING, autocast=autocast
        )

    return with_update(model, backward)


def main() -> None:
    settle()
    batches = training_batches(8, BATCH_TOKENS)
    tokens = sum(batch.target_tokens for batch in batches) / len(batches)
    for width in WIDTHS:
        runs = {name: step(width, *way, batches) for name, way in WAYS.items()}
        facts = {"d_model": width, "d_ff": 4 * width, "layers": "3 + 3", "batch_tokens": BATCH_TOKENS}
        print_rows("precision", facts, runs, budget=15.0, work={"target_tokens": tokens})


if __name__ == "__main__":
    main()
