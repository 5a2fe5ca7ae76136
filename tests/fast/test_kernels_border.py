"""Training's kernels take nothing that does not fit together."""

from __future__ import annotations

import dataclasses
from ctypes import byref, c_float

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.engines.native.library import BAD_ARGUMENT
from dragoman.fast.kernels import FUNCTIONS, Kernels, Layout, attend, attend_back, draw_drop, load_kernels

FOUND = load_kernels()
pytestmark = pytest.mark.skipif(FOUND is None, reason="the native library is not compiled")
WIDTH = 32


@pytest.fixture
def made() -> Kernels:
    assert FOUND is not None
    return FOUND


@pytest.mark.parametrize(
    "h",
    [
        torch.zeros(4, WIDTH, dtype=torch.float64), torch.zeros(4, WIDTH, dtype=torch.bfloat16), torch.zeros(3, WIDTH),
        torch.zeros(4, WIDTH - 16), torch.zeros(WIDTH, 4).t(), torch.zeros(4 * WIDTH),
    ],
)  # fmt: skip
def test_a_tensor_of_another_kind_size_or_layout_is_refused(made: Kernels, h: Tensor) -> None:
    with pytest.raises((TypeError, ValueError), match="a tensor of relu must"):
        made.call("relu", h, torch.zeros(WIDTH), byref(draw_drop(0.0)), 4, WIDTH)


def test_widths_that_are_not_whole_vectors_are_refused(made: Kernels) -> None:
    for width in (8, 20, 33):
        with pytest.raises(ValueError, match="multiple of 16"):
            made.call("column_sums", torch.zeros(4, width), 4, width, torch.zeros(width))


@pytest.mark.parametrize("label", [-1, 9, 2**40])
def test_labels_out_of_the_vocabulary_are_refused(made: Kernels, label: int) -> None:
    labels = torch.tensor([[1], [label]])
    with pytest.raises(IndexError, match="not in the vocabulary"):
        made.cross_entropy(torch.zeros(2, 9), labels, 0.1)
    with pytest.raises(IndexError, match="not in the vocabulary"):
        made.agreement((torch.zeros(2, 9), torch.zeros(2, 9)), labels, 0.1, 1.0)
    with pytest.raises(TypeError, match="must be int64, not int32"):
        made.call("cross_entropy", torch.zeros(2, 9), torch.zeros(2, 1, dtype=torch.int32), 2, 9, 0.1, None)


def test_nothing_instead_of_numbers_is_refused(made: Kernels) -> None:
    for name, takes in FUNCTIONS.items():
        nothing = [16 if isinstance(one, str) else 0.5 if one is c_float else None for one in takes]
        assert made.functions[name](made.handle, *nothing, 1) == BAD_ARGUMENT, name
        assert made.functions[name](None, *nothing, 1) == BAD_ARGUMENT, name


def layout(made: Kernels, **changes: object) -> Layout:
    lengths = torch.tensor([3, 2])
    return dataclasses.replace(Layout.of(lengths, lengths, 2, made.lanes), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"query_starts": np.array([0, 6, 5], np.int32)}, {"query_starts": np.array([-1, 3, 5], np.int32)},
        {"key_starts": np.array([0, 70_000, 5], np.int32)}, {"heads": 3}, {"heads": 0}, {"lanes": 3}, {"lanes": 0},
        {"weight_starts": np.array([0, 1, 2])}, {"weight_starts": np.array([-9, 0, 400])},
        {"causal": True, "query_starts": np.array([0, 4, 5], np.int32)},
    ],
)  # fmt: skip
def test_sentences_that_do_not_fit_their_rows_are_refused(made: Kernels, changes: dict[str, object]) -> None:
    rows = torch.randn(5, 3 * WIDTH).chunk(3, 1)
    attend(made, layout(made), *rows)
    with pytest.raises((ValueError, ZeroDivisionError)):
        attend(made, layout(made, **changes), *rows)


def test_rows_that_are_too_few_or_laid_out_otherwise_are_refused(made: Kernels) -> None:
    query, key, value = torch.randn(5, 3 * WIDTH).chunk(3, 1)
    with pytest.raises(ValueError, match="queries must have the shape"):
        attend(made, layout(made), query[:4], key, value)
    with pytest.raises(ValueError, match="columns of one matrix"):
        attend(made, layout(made), query, key, value.contiguous())
    with pytest.raises(ValueError, match="without gaps"):
        attend(made, layout(made), torch.randn(WIDTH, 5).t(), key, value)
    output, weights = attend(made, layout(made), query, key, value)
    gradients = torch.empty(5, 3 * WIDTH).chunk(3, 1)
    with pytest.raises(ValueError, match="laid out as what they are of"):
        attend_back(made, layout(made), (query, key, value), weights, output, (query.contiguous(), *gradients[1:]))
    with pytest.raises(ValueError, match="weights must have the shape"):
        attend_back(made, layout(made), (query, key, value), weights[:-1], output, gradients)
