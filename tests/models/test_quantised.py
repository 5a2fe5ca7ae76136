"""Weights as bytes with a factor for each row."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.models.quantised import as_bytes, as_numbers, quantise
from dragoman.models.stored import FACTORS, StoredArray, read_arrays
from dragoman.models.tensors import read_tensors, write_tensors

PATH = Path("model.safetensors")


def weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    tied = torch.randn(9, 6) * torch.logspace(-3, 3, 9)[:, None]
    zero = torch.randn(4, 5)
    zero[1] = 0
    return {"z.tied": tied, "a.tied": tied, "matrix": zero, "wide": torch.randn(3, 70), "bias": torch.randn(4),
            "kernel": torch.randn(2, 3, 3), "none": torch.zeros(0, 4), "ids": torch.arange(6).view(2, 3)}  # fmt: skip


def test_a_row_comes_back_within_half_of_its_factor() -> None:
    torch.manual_seed(1)
    x = torch.randn(50, 33, dtype=torch.float64) * torch.logspace(-6, 6, 50, dtype=torch.float64)[:, None]
    values, factors = quantise(x)
    assert values.dtype == torch.int8
    assert bool((values.abs().amax(1) == 127).all())
    assert bool(((values * factors - x).abs() <= factors * (0.5 + 1e-9)).all())
    assert quantise(torch.zeros(1, 3))[0].tolist() == [[0, 0, 0]]


def test_files_give_bytes_times_factors_back(tmp_path: Path) -> None:
    given = weights()
    write_tensors(tmp_path / "w.safetensors", as_bytes(given))
    found = read_tensors(tmp_path / "w.safetensors")
    assert found.keys() == given.keys()
    assert found["a.tied"] is found["z.tied"]
    for name in ("bias", "kernel", "none", "ids"):
        assert torch.equal(found[name], given[name])
    for name in ("a.tied", "matrix", "wide"):
        values, factors = quantise(given[name])
        assert torch.equal(found[name], values.float() * factors)
    # What is bytes already stays as it is.
    write_tensors(tmp_path / "again.safetensors", as_bytes(found))
    again = read_tensors(tmp_path / "again.safetensors")
    assert all(torch.allclose(again[name], found[name], rtol=1e-6, atol=0) for name in found)


def numbers(array: StoredArray) -> np.ndarray:
    size = int(np.prod(array.shape))
    kind = np.dtype(array.dtype)
    raw = ctypes.string_at(array.address, size * kind.itemsize)
    found = np.frombuffer(raw, kind).reshape(array.shape)
    return found if array.factors is None else found.astype(np.float32) * numbers(array.factors)[:, None]


def test_without_pytorch_the_same_is_read_and_cut_by_rows(tmp_path: Path) -> None:
    given = {name: tensor for name, tensor in weights().items() if name not in ("ids", "none")}
    path = tmp_path / "w.safetensors"
    write_tensors(path, as_bytes(given))
    stored, tensors = read_arrays(path), read_tensors(path)
    assert stored is not None
    stored.await_check()
    assert stored.arrays.keys() == tensors.keys()
    for name, array in stored.arrays.items():
        assert np.array_equal(numbers(array), tensors[name].numpy())
        assert np.array_equal(numbers(array[1:3]), tensors[name][1:3].numpy())
    assert stored.arrays["a.tied"].data_ptr() == stored.arrays["z.tied"].data_ptr()


@pytest.mark.parametrize(
    "factors", [torch.ones(3), torch.ones(4, 1), torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.int8)]
)
def test_factors_that_do_not_fit_are_refused(factors: Tensor, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"w": torch.ones(4, 2, dtype=torch.int8), "w" + FACTORS: factors})
    with pytest.raises(ModelError, match="a factor for each row"):
        read_tensors(path)
    assert read_arrays(path) is None


def test_bytes_without_factors_are_left_to_others(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"w": torch.ones(4, 2, dtype=torch.int8)})
    assert read_arrays(path) is None
    assert as_numbers({"w": torch.ones(4, 2, dtype=torch.int8)}, PATH)["w"].dtype == torch.int8


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_have_no_bytes(bad: float) -> None:
    with pytest.raises(ModelError, match="not finite"):
        as_bytes({"w": torch.tensor([[1.0, bad]])})
