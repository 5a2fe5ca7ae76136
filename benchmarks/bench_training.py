"""A training step of a small model against `torch.nn.Transformer` of the same sizes, on the same batches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import torch
from peers import TorchTransformer
from rows import print_rows, settle
from torch import nn
from torch.nn import functional as F
from workload import TINY, training_batches

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.data import Batch
from dragoman.fast import module_hidden, training_hidden
from dragoman.models import build_model
from dragoman.nn import Transformer
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.training.step import BatchLoss, accumulate_gradients

BATCH_TOKENS, SMOOTHING = 1024, 0.1
Step = Callable[[], object]


def our_model(dropout: float, sizes: ModelConfig = TINY, *, everywhere: bool = False) -> Transformer:
    """Dropout on embeddings and sub-layers; `everywhere`: also where `nn.Transformer` has it."""
    inner = dropout if everywhere else 0.0
    settings = {"dropout": dropout, "attention_dropout": inner, "activation_dropout": inner}
    model = build_model(sizes.replace(settings))
    assert isinstance(model, Transformer)
    return model.train()


def our_step(model: Transformer, batches: Iterator[Batch], *, fast: bool = True) -> Step:
    """As `train` does it on a CPU, or with the modules alone."""
    hidden = training_hidden(model) if fast else functools.partial(module_hidden, model)

    def backward() -> None:
        batch = next(batches)
        accumulate_gradients(BatchLoss(model, hidden), [batch], batch.target_tokens, smoothing=SMOOTHING)

    return with_update(model, backward)


def torch_step(model: TorchTransformer, batches: Iterator[Batch]) -> Step:
    def backward() -> None:
        batch = next(batches)
        logits = model(batch.source.ids, batch.target.inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0, label_smoothing=SMOOTHING)
        loss.backward()

    return with_update(model, backward)


def with_update(model: nn.Module, backward: Step) -> Step:
    """Both get the same optimiser: the fused Adam."""
    optimizer = make_optimizer(model, TrainingConfig())
    for group in optimizer.param_groups:
        group["lr"] = 1e-4

    def step() -> None:
        backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def check_equal(batch: Batch) -> None:
    """With the same weights and no dropout, both compute the same logits at every real position."""
    ours = our_model(0.0).eval()
    theirs = TorchTransformer(TINY.replace({"dropout": 0.0}))
    theirs.load(ours)
    source, target, real = batch.source.ids, batch.target.inputs, batch.target.input_mask
    with torch.no_grad():  # in training mode, or nn.Transformer takes another path than when it trains
        torch.testing.assert_close(theirs.train()(source, target)[real], ours(source, target)[real], rtol=0, atol=1e-3)


def main() -> None:
    settle()
    batches = training_batches(16, BATCH_TOKENS)
    check_equal(batches[0])
    tokens = sum(batch.target_tokens for batch in batches) / len(batches)
    for dropout in (0.1, 0.0):
        models = {"dragoman": our_model(dropout)}
        if dropout:
            models["dragoman, dropout as in nn.Transformer"] = our_model(dropout, everywhere=True)
        runs = {"nn.Transformer": torch_step(TorchTransformer(TINY.replace({"dropout": dropout})), turn(batches))}
        runs |= {name: our_step(model, turn(batches)) for name, model in models.items()}
        runs["dragoman, modules alone"] = our_step(our_model(dropout), turn(batches), fast=False)
        facts = {"model": "tiny", "batch_tokens": BATCH_TOKENS, "dropout": dropout}
        print_rows("training step", facts, runs, budget=25.0 if dropout else 15.0, work={"target_tokens": tokens})


def turn(batches: list[Batch]) -> Iterator[Batch]:
    """Everyone gets the same batches in the same order."""
    return itertools.cycle(batches)


if __name__ == "__main__":
    main()
