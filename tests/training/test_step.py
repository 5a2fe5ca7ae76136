"""An update is the same however it is split."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.data import Batch, TokenStore, collate, plan_epoch
from dragoman.models import build_model
from dragoman.nn import Transformer
from dragoman.training.step import BatchLoss, accumulate_gradients


@pytest.fixture
def model() -> Transformer:
    config = ModelConfig(
        source_vocab=20, target_vocab=20, d_model=12, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1,
        dropout=0.0,
    )  # fmt: skip
    built = build_model(config).double()
    assert isinstance(built, Transformer)
    return built


@pytest.fixture
def store(tmp_path) -> TokenStore:
    draw = torch.Generator().manual_seed(0)
    rows = [
        [torch.randint(4, 20, (int(torch.randint(1, 9, (1,), generator=draw)),), generator=draw).tolist() for _ in "st"]
        for _ in range(24)
    ]
    return TokenStore.write(tmp_path / "store", [(s, t) for s, t in rows], vocabulary_size=20)


def gradients(model: Transformer, batches: list[Batch], labels: int) -> tuple[float, list[torch.Tensor]]:
    model.zero_grad()
    sums = accumulate_gradients(BatchLoss(model), batches, labels, smoothing=0.1)
    return sums.loss / labels, [parameter.grad.clone() for parameter in model.parameters()]


def test_four_micro_batches_are_one_batch_and_so_are_two_ranks(model, store):
    rows = list(range(24))
    labels = collate(store, rows).target_tokens
    loss, whole = gradients(model, [collate(store, rows)], labels)
    parts = [collate(store, rows[start : start + 6]) for start in range(0, 24, 6)]  # padded differently
    split_loss, split = gradients(model, parts, labels)
    # Two ranks run every second micro-batch each, with the global count, and sum their gradients.
    ranks = [gradients(model, parts[rank::2], labels) for rank in range(2)]
    summed = [a + b for a, b in zip(ranks[0][1], ranks[1][1], strict=True)]
    assert split_loss == pytest.approx(loss, abs=1e-12)
    assert ranks[0][0] + ranks[1][0] == pytest.approx(loss, abs=1e-12)
    for a, b, c in zip(whole, split, summed, strict=True):
        assert (a - b).abs().max() <= 1e-12
        assert (a - c).abs().max() <= 1e-12


def test_each_micro_batch_is_seeded_before_it_runs(model, store):
    seen = []
    accumulate_gradients(BatchLoss(model), [collate(store, [0]), collate(store, [1])], 10, before=seen.append)
    assert seen == [0, 1]


def test_an_update_planned_with_accumulation_holds_that_many_micro_batches(store):
    settings = {"batch_tokens": 20, "seed": 1, "epoch": 0}
    plan = plan_epoch(store.source_lengths, store.target_lengths, accumulate=3, **settings)
    assert {len(update) for update in plan[:-1]} == {3}
