"""Averages of weights: over checkpoints, and moving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.models.tensors import read_tensors, write_tensors
from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.runs.checkpoint import save_checkpoint
from dragoman.training.averaging import average_checkpoints


def write(path: Path, **tensors: Tensor) -> Path:
    write_tensors(path, tensors)
    return path


# Over checkpoints


def test_the_average_is_the_mean_in_float64(tmp_path: Path) -> None:
    drawn = [torch.randn(7, 5) * 10**i for i in range(4)]
    paths = [save_checkpoint(tmp_path, i, {"model": {"weight": w}, "ema": {}}, {}, "") for i, w in enumerate(drawn)]
    averaged = average_checkpoints(paths)["weight"]
    expected = np.mean([weight.double().numpy() for weight in drawn], axis=0).astype(np.float32)
    assert averaged.dtype == torch.float32
    assert np.array_equal(averaged.numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_average_of_equals_is_the_same_bits(dtype: torch.dtype, count: int, tmp_path: Path) -> None:
    weight = torch.randint(-1000, 1000, (50,)).to(dtype)
    path = write(tmp_path / "a.safetensors", a=weight, tied=weight)
    averaged = average_checkpoints([path] * count)
    assert averaged["a"].dtype == dtype
    assert torch.equal(averaged["a"], weight)
    assert torch.equal(averaged["tied"], weight)


def test_small_differences_survive_narrow_types(tmp_path: Path) -> None:
    one, two = torch.tensor([1.0, 1 / 128]).bfloat16().split(1)
    paths = [write(tmp_path / f"{i}.safetensors", a=two if i else one) for i in range(129)]
    assert average_checkpoints(paths)["a"] == torch.tensor((1 + 128 / 128) / 129).bfloat16()


def test_integers_come_from_the_last(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.safetensors", steps=torch.tensor(i), mask=torch.tensor([i > 0])) for i in range(3)]
    averaged = average_checkpoints(paths)
    assert averaged["steps"].dtype == torch.int64
    assert averaged["steps"] == 2
    assert averaged["mask"].all()


@pytest.mark.parametrize(
    ("other", "expected", "found"),
    [
        ({"a": torch.ones(3)}, "a: [2] torch.float32", "a: [3] torch.float32"),
        ({"a": torch.ones(2).double()}, "a: [2] torch.float32", "a: [2] torch.float64"),
        ({"b": torch.ones(2)}, "a: [2] torch.float32", "no a"),
        ({"a": torch.ones(2), "b": torch.ones(2)}, "no b", "b: [2] torch.float32"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    other: dict[str, Tensor], expected: str, found: str, tmp_path: Path
) -> None:
    paths = [write(tmp_path / "1.safetensors", a=torch.ones(2)), write(tmp_path / "2.safetensors", **other)]
    with pytest.raises(ModelError) as caught:
        average_checkpoints(paths)
    assert (caught.value.file, caught.value.expected, caught.value.found) == (str(paths[1]), expected, found)


def test_nothing_and_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing to average"):
        average_checkpoints([])
    path = save_checkpoint(tmp_path, 1, {"model": {"weight": torch.ones(3)}}, {}, "")
    (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        average_checkpoints([path])


# Moving


class Tied(nn.Module):
    """Two names for one weight, a bias of another type, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.narrow = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
        self.register_buffer("seen", torch.zeros(1))


def shift(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape))


def test_the_moving_average_follows_its_formula() -> None:
    model = Tied().double()
    average = ExponentialMovingAverage(model, decay=0.5)
    expected = model.a.weight.detach().numpy().copy()
    for n in range(1, 31):
        shift(model)
        average.update(model)
        d = min(0.5, (1 + n) / (10 + n))
        expected = d * expected + (1 - d) * model.a.weight.detach().numpy()
    with average.applied(model):
        assert np.allclose(model.a.weight.detach().numpy(), expected, rtol=0, atol=1e-12)
    assert average.updates == 30


def test_decay_zero_is_the_model_itself_and_narrow_types_are_kept_wide() -> None:
    model = Tied()
    follower, slow = ExponentialMovingAverage(model, 0.0), ExponentialMovingAverage(model, 0.999)
    with torch.no_grad():
        model.narrow.fill_(1)
    for _ in range(3):
        follower.update(model)
        slow.update(model)
    assert torch.equal(follower.state()["average.narrow"], torch.ones(2))
    value = slow.state()["average.narrow"]
    assert value.dtype == torch.float32
    assert not torch.equal(value, value.bfloat16().float())


def test_it_goes_on_bit_for_bit_after_a_restart(tmp_path: Path) -> None:
    model = Tied()
    straight, broken = (ExponentialMovingAverage(model, 0.9) for _ in range(2))
    for step in range(20):
        shift(model)
        straight.update(model)
        broken.update(model)
        if step % 5 == 3:
            state = read_tensors(write(tmp_path / "ema.safetensors", **broken.state()))
            broken = ExponentialMovingAverage(Tied(), 0.9)
            broken.load(state)
    first, second = straight.state(), broken.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert "average.b.weight" not in first


def test_loading_copies_and_checks() -> None:
    model = Tied()
    average = ExponentialMovingAverage(model, 0.9)
    state = {name: tensor.clone() for name, tensor in average.state().items()}
    average.load(state)
    shift(model)
    average.update(model)
    assert not torch.equal(state["average.a.weight"], average.state()["average.a.weight"])
    assert state["updates"] == 0
    state["average.narrow"] = torch.zeros(3)
    with pytest.raises(ModelError, match="narrow"):
        average.load(state)


def test_the_model_gets_its_own_weights_back_even_after_an_error() -> None:
    model = Tied()
    average = ExponentialMovingAverage(model, 0.9)
    averaged = model.a.weight.detach().clone()
    shift(model)
    own = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    storage = model.a.weight.data_ptr()

    def evaluate() -> None:
        with average.applied(model):
            assert torch.equal(model.a.weight, averaged)
            assert torch.equal(model.b.weight, averaged)
            assert torch.is_grad_enabled()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()
    assert all(torch.equal(parameter, own[name]) for name, parameter in model.named_parameters())
    assert model.a.weight.data_ptr() == storage
    assert all(parameter.requires_grad for parameter in model.parameters())
