"""The `paddle` profile against the formulas of its article."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError, ModelError
from dragoman.profiles import paddle
from oracle.paddle import attention as slow_attention

sizes = st.integers(1, 5)


def weights(width, hidden, heads, out=None, seed=0):
    rng = np.random.default_rng(seed)
    shapes = dict.fromkeys(("W_q", "W_k", "W_v"), (width, hidden * heads))
    if out is not None:
        shapes["W_o"] = (hidden * heads, out)
    state = {f"{name}.weight": rng.normal(size=shape) * 0.4 for name, shape in shapes.items()}
    return state | {f"{name}.bias": rng.normal(size=shape[1]) for name, shape in shapes.items()}


def inputs(batch, length, width, seed=0):
    rng = np.random.default_rng(seed + 1)
    return [rng.normal(size=(batch, length, width)) for _ in range(3)]


def run(model, arrays, valid_lens, dtype):
    seen = []
    stop = model.observe(lambda record: seen.append(record.weights.numpy()))
    with torch.no_grad():
        output = model(*(torch.tensor(array, dtype=dtype) for array in arrays), torch.tensor(valid_lens))
    stop()
    return output.numpy(), seen[0]


@settings(max_examples=40)
@given(sizes, sizes, sizes, sizes, sizes, st.booleans(), st.integers(0, 1000))
def test_output_and_weights_are_theirs(length, width, hidden, heads, out, single, seed):
    heads, out = (1, None) if single else (heads, out)
    state, arrays = weights(width, hidden, heads, out, seed), inputs(4, length, width, seed)
    # One row has no valid key, one has more than there are.
    valid_lens = np.array([length, 0, 1 + seed % length, length + 2])
    expected = slow_attention(state, *arrays, valid_lens, heads)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        if single:
            model = paddle.load_single(state, length, dtype=dtype)
        else:
            model = paddle.load(state, length, heads, dtype=dtype)
        for found, wanted in zip(run(model, arrays, valid_lens, dtype), expected, strict=True):
            assert np.abs(found - wanted).max() <= tolerance


def test_lengths_may_be_floats_and_hide_keys_exactly():
    model = paddle.load(weights(6, 3, 4, 5), 7, 4, dtype=torch.float64)
    arrays = inputs(2, 7, 6)
    output, maps = run(model, arrays, [3.0, 6.0], torch.float64)
    assert np.array_equal(output, run(model, arrays, [3, 6], torch.float64)[0])
    assert (maps[0, :, :, 3:] == 0).all()
    assert (maps[1, :, :, 6:] == 0).all()
    arrays[1][0, 3:] += 1.0
    arrays[2][0, 3:] += 1.0
    assert np.abs(run(model, arrays, [3, 6], torch.float64)[0] - output).max() < 1e-12


def test_heads_are_interleaved():
    state = weights(6, 2, 3, 4)
    model = paddle.load(state, 2, 3, dtype=torch.float64)
    seen = []
    model.observe(lambda record: seen.append(record.query))
    x = torch.randn(1, 2, 6, dtype=torch.float64)
    model(x, x, x, torch.tensor([2]))
    projected = x.numpy()[0] @ state["W_q.weight"] + state["W_q.bias"]
    assert np.allclose(seen[0][0, 1].detach().numpy(), projected[:, [1, 4]])


@pytest.mark.parametrize(("hidden", "heads"), [(3, 4), (5, 1)])
def test_as_a_block_it_gives_the_same(hidden, heads):
    model = paddle.load(weights(6, hidden, heads, 6), 7, heads, dtype=torch.float64)
    block = paddle.to_block(model)
    x, valid_lens = torch.randn(3, 7, 6, dtype=torch.float64), torch.tensor([7, 2, 0])
    mask = (torch.arange(7) < valid_lens[:, None])[:, None, None, :]
    assert not block.training
    assert torch.allclose(block(x, mask=mask), model(x, x, x, valid_lens), atol=1e-12)


def test_a_fresh_one_starts_as_theirs():
    model = paddle.build(9, 40, 30, 50, 2)
    for linear, fans in ((model.W_q, 100), (model.W_k, 100), (model.W_v, 100), (model.W_o, 110)):
        limit = math.sqrt(6 / fans)
        assert 0.95 * limit < linear.weight.abs().max() <= limit
        assert (linear.bias == 0).all()
    assert sum(p.numel() for p in model.parameters()) == 3 * 41 * 60 + 61 * 50


def test_what_does_not_fit_is_named():
    state = weights(6, 3, 4, 5)
    state["W_k.weight"] = state["W_k.weight"].T
    state["W_x.weight"] = state.pop("W_v.bias")
    with pytest.raises(ModelError) as caught:
        paddle.load(state, 7, 4)
    assert "W_k.weight: expected [6, 12], found [12, 6]" in str(caught.value)
    assert "W_v.bias: missing, expected [12]" in str(caught.value)
    assert "W_x.weight: left over" in str(caught.value)
    with pytest.raises(ModelError, match=r"W_o\.weight: left over"):
        paddle.load_single(weights(6, 3, 4, 5), 7)


def test_settings_that_cannot_be_are_refused():
    state = weights(6, 3, 4, 5)
    with pytest.raises(ConfigError, match="head_num divides 12"):
        paddle.load(state, 7, 5)
    x = torch.zeros(1, 6, 6)
    with pytest.raises(ConfigError, match="query_size 7"):
        paddle.load(state, 7, 4)(x, x, x, torch.tensor([6]))
    with pytest.raises(ConfigError, match="output_vec_size 6"):
        paddle.to_block(paddle.load(state, 7, 4))
