"""Muon against singular value decompositions and against PyTorch's own, and what it moves."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.models import build_model
from dragoman.optimizers.muon import Muon, matrices_of, orthogonal
from dragoman.optimizers.optimizer import load_optimizer_state, make_optimizer, optimizer_state

SHAPES = [(24, 24), (16, 40), (40, 16), (1, 9)]
MODEL = ModelConfig().replace(
    {
        "d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1, "num_decoder_layers": 1,
        "source_vocab": 12, "target_vocab": 14, "positions": "rotary", "tie_embeddings": "decoder", "dropout": 0.0,
    }
)  # fmt: skip


def matrix_of(shape: tuple[int, int], values: Tensor) -> Tensor:
    """A matrix with these singular values, and chance for directions."""
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    return left * values @ right


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_singular_values_come_near_1_and_directions_stay(shape, scale):
    values = torch.linspace(0.02, 1.0, min(shape))
    matrix = scale * matrix_of(shape, values)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    inner = left.t() @ orthogonal(matrix, torch.float32) @ right.t()
    found = inner.diagonal()
    assert found.min() > 0.6, "small singular values too"
    assert found.max() < 1.25
    assert (inner - inner.diag().diag()).abs().max() < 1e-3


def test_a_matrix_of_zeros_stays_one():
    assert orthogonal(torch.zeros(5, 7), torch.float32).eq(0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_products_in_bfloat16_differ_by_their_rounding_alone(shape):
    matrix = torch.randn(shape)
    exact, rounded = (orthogonal(matrix, factors) for factors in (torch.float32, torch.bfloat16))
    assert rounded.dtype == torch.float32
    assert (exact - rounded).norm() < 0.1 * exact.norm()
    assert not torch.equal(exact, rounded)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch has its own Muon from 2.9 on")
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_those_of_pytorchs_muon_on_each_matrix_of_a_stack(shape):
    options = {"momentum": 0.9, "weight_decay": 0.1}
    parts = [nn.Parameter(torch.randn(shape)) for _ in range(3)]
    stack = nn.Parameter(torch.cat([part.detach() for part in parts]))
    other = nn.Parameter(torch.zeros(1))
    theirs = torch.optim.Muon(parts, lr=0.02, adjust_lr_fn="match_rms_adamw", **options)
    ours = Muon(
        [(stack, (shape[0],) * 3)], torch.optim.AdamW([other], lr=0.02), factors=torch.bfloat16, **options
    )  # fmt: skip
    begun = stack.detach().clone()
    for _ in range(4):
        for group in ours.param_groups:
            group["lr"] = 0.02
        stack.grad = torch.randn_like(stack)
        for part, grad in zip(parts, stack.grad.chunk(3), strict=True):
            part.grad = grad.clone()
        ours.step()
        theirs.step()
    moved = stack.detach() - begun
    assert (stack - torch.cat(list(parts))).norm() < 0.02 * moved.norm()


def test_steps_are_about_as_long_as_adams():
    weight, other = nn.Parameter(torch.zeros(64, 64)), nn.Parameter(torch.zeros(1))
    muon = Muon([(weight, (64,))], torch.optim.AdamW([other], lr=0.01))
    muon.param_groups[0]["lr"] = 0.01
    weight.grad = torch.randn_like(weight)
    muon.step()
    assert float(weight.detach().square().mean().sqrt()) == pytest.approx(0.2 * 0.01, rel=0.2)


def test_it_moves_the_matrices_inside_the_layers_and_adam_all_else():
    model = build_model(MODEL)
    optimizer = make_optimizer(model, TrainingConfig().replace({"optimizer": "muon", "precision": "float32"}))
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer.step()
    kept = {name: set(optimizer.state[weight]) for name, weight in model.named_parameters()}
    inside = {name for name, keys in kept.items() if keys == {"momentum"}}
    assert len(inside) == 2 + 2 + 4 + 2 == len(matrices_of(model))
    assert all(name.endswith("weight") and ".layers." in name for name in inside)
    adams = kept.keys() - inside
    assert {"source_embedding.tokens.weight", "target_embedding.tokens.weight"} <= adams
    assert all(kept[name] == {"step", "exp_avg", "exp_avg_sq"} for name in adams)
    assert all(not torch.equal(before[name], weight) for name, weight in model.named_parameters())
    seen = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    assert sorted(seen) == sorted(map(id, model.parameters())), "each once"
    optimizer.zero_grad()
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize(("kind", "factor"), [("muon", None), ("muon", 3.0), ("adamw", 3.0)])
@pytest.mark.parametrize("decay", [None, 0.5])
def test_matrices_decay_by_their_rate_and_nothing_else_does(kind, factor, decay):
    model = build_model(MODEL)
    changes = {"optimizer": kind, "precision": "float32", "weight_decay": decay, "muon_rate_factor": factor}
    optimizer = make_optimizer(model, TrainingConfig().replace(changes))
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for weight in model.parameters():
        weight.data += 1
        weight.grad = torch.zeros_like(weight)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer.step()
    inside = {id(matrix) for matrix, _ in matrices_of(model)} if kind == "muon" else set()
    for name, weight in model.named_parameters():
        rate = 0.1 * (factor or 1.0) if id(weight) in inside else 0.1
        kept = 1 - rate * (decay or 0.0) if weight.dim() > 1 else 1.0
        assert torch.allclose(weight, kept * before[name]), name


def test_matrices_alone_go_as_much_further_as_their_rate_is_higher():
    moved = []
    for factor in (1.0, 2.5):
        torch.manual_seed(0)
        model = build_model(MODEL)
        changes = {"optimizer": "muon", "precision": "float32", "muon_rate_factor": factor}
        optimizer = make_optimizer(model, TrainingConfig().replace(changes))
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        for weight in model.parameters():
            weight.grad = torch.randn_like(weight)
        optimizer.step()
        moved.append({name: weight.detach() - before[name] for name, weight in model.named_parameters()})
    inside = {name for name, weight in model.named_parameters() if any(weight is one for one, _ in matrices_of(model))}
    for name, step in moved[0].items():
        expected = 2.5 * step if name in inside else step
        torch.testing.assert_close(moved[1][name], expected, rtol=1e-4, atol=1e-7, msg=name)


def test_its_state_comes_back():
    states = []
    model = build_model(MODEL)
    settings = TrainingConfig().replace({"optimizer": "muon", "precision": "float32"})
    optimizer = make_optimizer(model, settings)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    states.append(optimizer_state(optimizer, model))
    again = make_optimizer(model, settings)
    load_optimizer_state(again, model, states[0])
    states.append(optimizer_state(again, model))
    assert states[0].keys() == states[1].keys()
    assert sum(key.startswith("momentum.") for key in states[0]) == 10
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_each_projection_of_a_packed_matrix_is_made_orthogonal_on_its_own():
    model = build_model(MODEL)
    stacks = {rows for _, rows in matrices_of(model) if len(rows) > 1}
    assert stacks == {(16, 16, 16)}
    weight = nn.Parameter(torch.zeros(48, 16))
    muon = Muon([(weight, (16, 16, 16))], torch.optim.AdamW([nn.Parameter(torch.zeros(1))]))
    muon.param_groups[0]["lr"] = 1.0
    weight.grad = torch.randn(48, 16) * torch.tensor([1e-3, 1.0, 1e3]).repeat_interleave(16)[:, None]
    muon.step()
    lengths = torch.stack([part.norm() for part in weight.detach().split(16)]) / (0.2 * math.sqrt(16) * math.sqrt(16))
    assert lengths.min() > 0.7, "however much larger the others' gradients are"
    assert lengths.max() < 1.25
