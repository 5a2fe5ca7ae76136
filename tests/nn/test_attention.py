from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.nn import (
    MultiHeadAttention,
    attention_scores,
    attention_weights,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from oracle.attention import attention as slow_attention
from oracle.attention import multi_head as slow_multi_head


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


sizes = st.integers(1, 5)


@given(sizes, sizes, sizes, sizes, st.integers(0, 1000), st.booleans())
def test_attention_is_the_formula(q_len, k_len, d_k, d_v, seed, grad):
    torch.manual_seed(seed)
    query, key, value = random(2, 3, q_len, d_k), random(2, 3, k_len, d_k), random(2, 3, k_len, d_v)
    mask = torch.rand(2, 1, q_len, k_len) < 0.6  # some rows are masked altogether
    with torch.set_grad_enabled(grad):  # the explicit products and the fused kernel
        result = scaled_dot_product_attention(query, key, value, mask)
    for b in range(2):
        for h in range(3):
            slow, _ = slow_attention(query[b, h].numpy(), key[b, h].numpy(), value[b, h].numpy(), mask[b, 0].numpy())
            np.testing.assert_allclose(result[b, h].numpy(), slow, atol=1e-12)


@given(sizes, sizes, st.integers(0, 1000))
def test_weights_are_zero_where_masked_and_sum_to_one(q_len, k_len, seed):
    torch.manual_seed(seed)
    mask = torch.rand(2, 1, q_len, k_len) < 0.5
    weights = attention_weights(attention_scores(random(2, 3, q_len, 4), random(2, 3, k_len, 4)) * 50, mask)
    everywhere = mask.expand_as(weights)
    assert (weights[~everywhere] == 0).all()
    sums = weights.sum(-1)
    open_rows = everywhere.any(-1)
    assert torch.allclose(sums[open_rows], torch.ones_like(sums[open_rows]), atol=1e-12)
    assert (sums[~open_rows] == 0).all()


@pytest.mark.parametrize("keys", [2, 100])  # the explicit products and the fused kernel
def test_a_fully_masked_row_is_zero_and_so_is_its_gradient(keys):
    query = random(1, 1, 2, 4).requires_grad_()
    key, value = (random(1, 1, keys, 4).requires_grad_() for _ in range(2))
    mask = torch.tensor([[True], [False]]).expand(2, keys)
    result = scaled_dot_product_attention(query, key, value, mask)
    assert (result[0, 0, 1] == 0).all()
    result.sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
    assert query.grad is not None
    assert (query.grad[0, 0, 1] == 0).all()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_multi_head_attention_is_the_formula_with_any_head_widths(bias, cross):
    heads, d_model, d_k, d_v = 3, 7, 4, 5
    module = MultiHeadAttention(d_model, heads, d_k=d_k, d_v=d_v, bias=bias).double()
    if bias:
        for linear in (module.projection, module.output):
            torch.nn.init.normal_(linear.bias)
    x, memory = random(1, 4, d_model), random(1, 6, d_model)
    seen = memory if cross else x
    mask = torch.rand(1, 1, 4, seen.shape[1]) < 0.7
    result = module(x, memory if cross else None, mask=mask)

    rows = module.projection.weight.detach().numpy()
    offsets = module.projection.bias.detach().numpy() if bias else np.zeros(len(rows))
    parts = {}
    for name, start, width in (("q", 0, d_k), ("k", heads * d_k, d_k), ("v", 2 * heads * d_k, d_v)):
        spans = [slice(start + h * width, start + (h + 1) * width) for h in range(heads)]
        parts[name] = [rows[span].T for span in spans]
        parts["b" + name] = [offsets[span] for span in spans]
    parts["o"] = module.output.weight.detach().numpy().T
    parts["bo"] = module.output.bias.detach().numpy() if bias else np.zeros(d_model)
    slow = slow_multi_head(x[0].numpy(), seen[0].numpy(), parts, heads, mask[0, 0].numpy())
    np.testing.assert_allclose(result[0].detach().numpy(), slow, atol=1e-12)


@pytest.mark.parametrize("grad", [True, False])
def test_an_observer_sees_the_weights_and_changes_nothing(grad):
    module = MultiHeadAttention(16, 4)
    x = torch.randn(3, 5, 16)
    mask = causal_mask(5) & padding_mask(torch.tensor([[1, 1, 1, 0, 0]] * 3), pad=0)
    records = []
    with torch.set_grad_enabled(grad):
        plain = module(x, mask=mask)
        stop = module.observe(records.append)
        observed = module(x, mask=mask)
        stop()
        module(x, mask=mask)
    assert (plain - observed).abs().max() <= 1e-6
    (record,) = records
    assert record.weights.shape == (3, 4, 5, 5)
    assert torch.equal(record.weights, attention_weights(record.scores, mask))
    assert torch.equal(record.output, observed)


def test_attention_dropout_acts_in_training_only():
    module = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(2, 6, 8)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_xavier_bounds_hold_for_each_matrix_on_its_own():
    module = MultiHeadAttention(64, 2, d_k=8, d_v=200)
    query, key, value = module.projection.weight.split(module.widths)
    for matrix in (query, key, value, module.output.weight):
        bound = (6 / sum(matrix.shape)) ** 0.5
        assert 0.9 * bound < matrix.abs().max() <= bound


def test_heads_must_divide_the_width_or_be_told_theirs():
    with pytest.raises(ValueError, match="give d_k and d_v"):
        MultiHeadAttention(10, 3)
