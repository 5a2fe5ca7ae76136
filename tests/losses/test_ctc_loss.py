"""The loss of reading targets off frames: beside the sum over every path, and as a share of an update."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.data import Batch
from dragoman.fast import hidden as hidden_module
from dragoman.fast import module_hidden, training_hidden
from dragoman.losses.ctc import ctc_loss, frames_needed
from dragoman.models import build_model
from dragoman.models.blueprint import places
from dragoman.models.draft import blueprint_of
from dragoman.models.reading import describe
from dragoman.nn import Transformer
from dragoman.search.ctc import merged
from dragoman.sequences import Direction, SourceBatch, TargetBatch
from dragoman.training.step import BatchLoss, accumulate_gradients, batch_loss


def a_model(**others: object) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
    built = build_model(ModelConfig(target_vocab=9, mels=8, ctc=True, dropout=0.0, **sizes, **others))
    assert isinstance(built, Transformer)
    return built


def a_batch(*sizes: tuple[int, int], directions: tuple[Direction, ...] = (Direction.LEFT_TO_RIGHT,)) -> Batch:
    """So many frames and tokens of each pair."""
    draw = torch.Generator().manual_seed(len(sizes))
    sounds = [torch.randn(frames, 8, generator=draw) for frames, _ in sizes]
    targets = [torch.randint(4, 9, (tokens,), generator=draw).tolist() for _, tokens in sizes]
    labels = len(directions) * sum(tokens + 1 for _, tokens in sizes)
    return Batch(SourceBatch.of_frames(sounds), TargetBatch.of(targets, directions=directions), len(sizes), labels)


def in_float64(batch: Batch) -> Batch:
    return replace(batch, source=replace(batch.source, ids=batch.source.ids.double()))


def by_every_path(log_probs: Tensor, target: list[int]) -> Tensor:
    paths = [
        path for path in product(range(log_probs.shape[1]), repeat=len(log_probs)) if merged(list(path), 0) == target
    ]
    each = [torch.stack([log_probs[at, token] for at, token in enumerate(path)]).sum() for path in paths]
    return -torch.stack(each).logsumexp(0)


@pytest.mark.parametrize("target", [[], [1], [2, 2], [1, 2], [2, 1, 2]])
def test_loss_and_gradients_are_those_of_the_sum_over_every_path(target: list[int]) -> None:
    draw = torch.Generator().manual_seed(len(target))
    memory = torch.randn(1, 6, 3, generator=draw, dtype=torch.float64)
    there = torch.arange(6)[None] < 5
    found = []
    for way in range(2):
        torch.manual_seed(1)
        head, given = nn.Linear(3, 3).double(), memory.clone().requires_grad_()
        if way:
            loss = by_every_path(head(given[0, :5]).log_softmax(-1), target)
        else:
            labels = torch.tensor([[*target, 0, 0]])
            loss = ctc_loss(given, there, head, labels, torch.tensor([len(target)]), 0)
        found.append([loss.detach(), *torch.autograd.grad(loss, [given, *head.parameters()])])
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in zip(*found, strict=True))
    assert (found[0][1][0, 5] == 0).all()


def test_what_does_not_fit_into_its_frames_counts_nothing() -> None:
    torch.manual_seed(0)
    memory, head = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), nn.Linear(4, 5).double()
    there, labels = torch.ones(2, 3).bool(), torch.tensor([[1, 1, 2], [1, 2, 3]])
    assert [frames_needed(row) for row in labels.numpy()] == [4, 3]
    assert frames_needed(np.array([], dtype=np.int64)) == 0
    both = ctc_loss(memory, there, head, labels, torch.tensor([3, 3]), 0)
    alone = ctc_loss(memory[1:], there[1:], head, labels[1:], torch.tensor([3]), 0)
    assert both.item() == pytest.approx(alone.item())
    (slope,) = torch.autograd.grad(both, memory)
    assert (slope[0] == 0).all()
    assert slope.isfinite().all()


def gradients(model: Transformer, batches: list[Batch], labels: int) -> list[Tensor]:
    model.zero_grad()
    accumulate_gradients(BatchLoss(model, ctc=0.3), batches, labels, smoothing=0.1)
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_a_share_of_the_loss_is_the_same_however_an_update_is_split() -> None:
    model = a_model().double()
    whole = in_float64(a_batch((30, 4), (21, 2), (44, 5), (9, 3)))
    parts = []
    for rows in ([0, 2], [1], [3]):
        target = TargetBatch(whole.target.ids[rows], whole.target.mask[rows])
        parts.append(Batch(whole.source.take(rows), target, 1, 1))
    one, other = gradients(model, [whole], whole.target_tokens), gradients(model, parts, whole.target_tokens)
    assert len(one) == len(list(model.parameters()))
    assert all(torch.allclose(a, b, atol=1e-13) for a, b in zip(one, other, strict=True))
    # The processes add theirs up.
    ranks = [gradients(model, parts[rank::2], whole.target_tokens) for rank in range(2)]
    assert all(torch.allclose(a, b + c, atol=1e-13) for a, b, c in zip(one, *ranks, strict=True))


@pytest.mark.parametrize("directions", [(Direction.LEFT_TO_RIGHT,), tuple(Direction)])
def test_the_share_is_mixed_into_the_loss_alone(directions: tuple[Direction, ...]) -> None:
    own = {"right_to_left": True, "right_to_left_decoder": "own"} if len(directions) > 1 else {}
    model = a_model(**own).double()
    batch = in_float64(a_batch((30, 4), (21, 2), directions=directions))
    decoder = batch_loss(model, batch, 0.1)
    mixed, all_of_it = (batch_loss(model, batch, 0.1, ctc=share) for share in (0.25, 1.0))
    assert mixed.loss.item() == pytest.approx(0.75 * decoder.loss.item() + 0.25 * all_of_it.loss.item())
    assert (mixed.nll, mixed.correct, mixed.count) == (decoder.nll, decoder.correct, decoder.count)
    memory, mask = model.encode(batch.source.ids, batch.source.mask)
    labels = batch.target.ids[:2, 1:]
    expected = ctc_loss(memory, mask[:, 0, 0], model.ctc, labels, torch.tensor([4, 2]), 0)
    assert all_of_it.loss.item() == pytest.approx(expected.item())
    # Without dropout two passes are one.
    twice = batch_loss(model, batch, 0.1, r_drop=1.0, ctc=0.25)
    assert twice.loss.item() == pytest.approx(mixed.loss.item())


def test_the_kernels_give_the_memory_too() -> None:
    model = a_model().train()
    assert hidden_module.is_plain(model)
    batch, found = a_batch((30, 4), (21, 2), (44, 5)), []
    for hidden in (training_hidden(model), partial(module_hidden, model)):
        model.zero_grad()
        sums = batch_loss(model, batch, 0.1, hidden, ctc=0.3)
        sums.loss.backward()
        found.append([sums.loss.detach(), *(one.grad.clone() for one in model.parameters())])
    assert all((one - other).abs().max() < 1e-4 for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("two", [False, True])
def test_the_head_is_in_the_blueprint_and_draws_last(two: bool) -> None:
    others = {"right_to_left": True, "right_to_left_decoder": "own"} if two else {}
    model = a_model(**others)
    config = ModelConfig(target_vocab=9, mels=8, ctc=True, d_model=32, num_heads=2, d_ff=32, num_encoder_layers=1,
                         num_decoder_layers=1, **others)  # fmt: skip
    named = [(name, tuple(one.shape)) for name, one in model.named_parameters(remove_duplicate=False)]
    for blueprint in (blueprint_of(config), describe(model)):
        assert [(place.name, place.shape) for place in places(blueprint)] == named
    torch.manual_seed(0)
    without = build_model(config.replace({"ctc": False, "dropout": 0.0})).state_dict()
    ours = model.state_dict()
    assert set(ours) - set(without) == {"ctc.weight", "ctc.bias"}
    assert all(torch.equal(ours[name], one) for name, one in without.items() if "right_to_left" not in name)
