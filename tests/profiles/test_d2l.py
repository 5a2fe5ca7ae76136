"""The `d2l` profile against the formulas of the book's PyTorch and Paddle editions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from traces import check_searches, largest_difference, steps, tolerances, trace

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import Dropout, MultiHeadAttention
from dragoman.profiles import d2l
from oracle.d2l import Book

PAD, BOS, EOS = 1, 2, 3
editions = pytest.mark.parametrize("edition", d2l.EDITIONS)


def trained(num_hiddens=8, ffn_num_hiddens=6, num_blks=2, use_bias=False, seed=0):
    """Weights in the names of the English PyTorch edition, none of them at its start."""
    rng = np.random.default_rng(seed)
    d, f = num_hiddens, ffn_num_hiddens
    shapes = {"encoder.embedding.weight": (11, d), "decoder.embedding.weight": (13, d)}
    shapes |= {"decoder.dense.weight": (13, d), "decoder.dense.bias": (13,)}
    for side, attentions in (("encoder", ["attention"]), ("decoder", ["attention1", "attention2"])):
        for place in (f"{side}.blks.block{i}" for i in range(num_blks)):
            for name in (f"{place}.{attention}.W_{part}" for attention in attentions for part in "qkvo"):
                shapes[f"{name}.weight"] = (d, d)
                if use_bias and side == "encoder":
                    shapes[f"{name}.bias"] = (d,)
            for number in range(1, len(attentions) + 2):
                shapes |= {f"{place}.addnorm{number}.ln.{part}": (d,) for part in ("weight", "bias")}
            shapes |= {f"{place}.ffn.dense1.weight": (f, d), f"{place}.ffn.dense1.bias": (f,)}
            shapes |= {f"{place}.ffn.dense2.weight": (d, f), f"{place}.ffn.dense2.bias": (d,)}
    spread = {name: 0.3 if len(shape) == 1 else shape[1] ** -0.5 for name, shape in shapes.items()}
    return {name: rng.normal(size=shape) * spread[name] + name.endswith("ln.weight") for name, shape in shapes.items()}


def as_paddle(state):
    """The same weights as the Paddle edition names and lays them out."""
    return {
        name.replace(".block", "."): array.T if array.ndim == 2 and ".embedding." not in name else array
        for name, array in state.items()
    }


def batch():
    """No padding, some, a source of nothing else, a target that begins with it, and padding among the tokens."""
    source = torch.tensor(
        [[4, 9, 8, 7, 6, 3], [5, 6, 3, 1, 1, 1], [1, 1, 1, 1, 1, 1], [4, 3, 1, 1, 1, 1], [1, 4, 3, 1, 5, 1]]
    )
    target = torch.tensor([[2, 5, 6, 7], [2, 10, 1, 1], [2, 4, 4, 1], [1, 4, 4, 1], [2, 1, 12, 1]])
    return source, target


def oracle(state, heads, training=True):
    table = d2l.position_table(20, state["encoder.embedding.weight"].shape[1]).double().numpy()
    return Book(state, heads, PAD, table, training)


def arrays(*tensors):
    return [tensor.numpy() for tensor in tensors]


@settings(max_examples=20)
@given(
    num_blks=st.integers(1, 3),
    heads=st.integers(1, 3),
    width=st.sampled_from([2, 6, 20]),
    ffn=st.integers(1, 9),
    use_bias=st.booleans(),
    edition=st.sampled_from(d2l.EDITIONS),
    sees_future=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_number_on_the_way_is_theirs(num_blks, heads, width, ffn, use_bias, edition, sees_future, seed):
    state, (source, target) = trained(heads * width, ffn, num_blks, use_bias, seed), batch()
    expected = oracle(state, heads, training=not sees_future).run(*arrays(source, target))
    given_ = as_paddle(state) if edition == "paddle" else state
    bug = "sees_future" if sees_future else None
    for dtype, tolerance in tolerances(heads * width):
        model = d2l.load(given_, heads, src_pad=PAD, edition=edition, faithful_to_bug=bug, dtype=dtype)
        assert largest_difference(trace(model, source, target), expected) <= tolerance


def test_the_future_is_seen_in_evaluation_mode_only():
    state, (source, target) = trained(), batch()
    good, bad = (d2l.load(state, 2, 0.0, faithful_to_bug=bug) for bug in (None, "sees_future"))
    changed = target.clone()
    changed[:, -1] = 9
    assert torch.equal(good(source, changed)[:, :-1], good(source, target)[:, :-1])
    assert (bad(source, changed)[:, 0] - bad(source, target)[:, 0]).abs().max() > 1e-4
    assert torch.equal(bad.train()(source, target), good(source, target))


def test_cached_steps_are_the_parallel_pass():
    state, (source, target) = trained(), batch()
    model = d2l.load(state, 2, dtype=torch.float64)
    with torch.no_grad():
        parallel = model(source, target)
    assert torch.allclose(steps(model, source, target), parallel, atol=1e-12)


def test_with_their_bug_every_step_stands_at_position_zero():
    state, (source, target) = trained(), batch()
    model = d2l.load(state, 2, faithful_to_bug="position_zero", dtype=torch.float64)
    found = steps(model, source, target).numpy()
    expected = [oracle(state, 2).serial(*arrays(source[row], target[row])) for row in range(len(source))]
    assert np.abs(found - np.stack(expected)).max() < 1e-10
    assert largest_difference(trace(model, source, target), oracle(state, 2).run(*arrays(source, target))) < 1e-10


def test_with_their_bug_masked_scores_pass_through_float32():
    scores = torch.randn(2, 3, 5, dtype=torch.float64)
    mask = torch.tensor([True, True, True, False, False])
    rounded = np.float32(scores.numpy()[..., :3]).astype(np.float64)
    expected = np.exp(rounded) / np.exp(rounded).sum(-1, keepdims=True)
    found = d2l.rounded_weights(scores, mask).numpy()
    assert np.abs(found[..., :3] - expected).max() < 1e-15
    assert (found[..., 3:] == 0).all()
    assert torch.equal(d2l.rounded_weights(scores), scores.softmax(-1))
    state, (source, target) = trained(), batch()
    models = [d2l.load(state, 2, dtype=torch.float64, faithful_to_bug=bug) for bug in (None, "float32_scores")]
    assert 1e-11 < (models[0](source, target) - models[1](source, target)).abs().max() < 1e-5


@editions
def test_it_translates_through_the_searches(edition):
    state = trained() if edition == "pytorch" else as_paddle(trained())
    model = d2l.load(state, 2, edition=edition, dtype=torch.float64)
    sources = [torch.tensor(row) for row in ([5, 6, 7, 3], [9, 3], [4, 4, 10, 8, 3])]
    check_searches(model, sources, bos=BOS, eos=EOS, pad=PAD)


def test_positions_are_the_formula_in_single_precision():
    table = d2l.position_table(1000, 24).numpy()
    assert table.dtype == np.float32
    for position in (0, 1, 7, 99, 999):
        for pair in range(12):
            angle = position / 10000 ** (2 * pair / 24)
            close = 2e-5 if position < 100 else 5e-4
            assert abs(table[position, 2 * pair] - math.sin(angle)) < close
            assert abs(table[position, 2 * pair + 1] - math.cos(angle)) < close
    # The route itself: a power, not an exponential, and division in float32.
    power = torch.pow(10000, torch.tensor([22.0]) / 24)
    assert table[999, 22] == torch.sin(torch.tensor([999.0]) / power).item()
    model = d2l.build(11, 13, 8, 6, 2, 1, max_len=3)
    with pytest.raises(ModelError, match="at most 3 tokens"):
        model(torch.full((1, 4), 4), torch.full((1, 2), 4))


def test_tables_given_with_the_weights_are_used():
    state, (source, target) = trained(), batch()
    tables = {
        f"{side}.pos_encoding.P": np.random.default_rng(5).normal(size=(1, 6, 8)) for side in ("encoder", "decoder")
    }
    model = d2l.load(state | tables, 2, dtype=torch.float64)
    book = Book(state, 2, PAD, tables["encoder.pos_encoding.P"][0])
    assert largest_difference(trace(model, source, target), book.run(*arrays(source, target))) < 1e-10


def test_a_fresh_pytorch_model_starts_as_theirs():
    model = d2l.build(400, 300, 48, 24, 4, 1, use_bias=True)
    reach = {"projection": 48, "output": 48, "inner": 48, "outer": 24, "generator": 48}
    linears = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    for name, module in linears:
        limit = reach[name.split(".")[-1]] ** -0.5
        assert 0.95 * limit < module.weight.abs().max() <= limit
        if module.bias is not None:
            assert 0 < module.bias.abs().max() <= limit
    assert len([1 for _, module in linears if module.bias is not None]) == 2 + 4 + 1
    assert model.source_embedding.tokens.weight.std().item() == pytest.approx(1.0, abs=0.02)


def test_a_fresh_paddle_model_starts_as_theirs():
    model = d2l.build(400, 300, 48, 24, 4, 1, edition="paddle")
    attention = model.decoder.layers[0].cross_attention
    limits = [(matrix, 96) for matrix in (*attention.projection.weight.split(48), attention.output.weight)]
    limits += [(model.generator.weight, 348), (model.encoder.layers[0].feed_forward.inner.weight, 72)]
    limits += [(model.source_embedding.tokens.weight, 448), (model.target_embedding.tokens.weight, 348)]
    for matrix, fans in limits:
        assert 0.95 * math.sqrt(6 / fans) < matrix.abs().max() <= math.sqrt(6 / fans)
    assert all((p == 0).all() for name, p in model.named_parameters() if name.endswith("bias"))


def test_it_has_their_parameters_and_dropout():
    model = d2l.build(11, 13, 8, 6, 2, 2, 0.3, use_bias=True)
    assert sum(p.numel() for p in model.parameters()) == sum(array.size for array in trained(use_bias=True).values())
    assert {m.dropout for m in model.modules() if isinstance(m, MultiHeadAttention)} == {0.3}
    inner = {name: m.p for name, m in model.named_modules() if isinstance(m, Dropout)}
    assert {rate for name, rate in inner.items() if "feed_forward." not in name} == {0.3}
    assert {rate for name, rate in inner.items() if "feed_forward." in name} == {0.0}


@editions
def test_what_does_not_fit_is_named(edition):
    state = trained() if edition == "pytorch" else as_paddle(trained())
    block = "block1" if edition == "pytorch" else "1"
    wide = f"decoder.blks.{block}.ffn.dense2.weight"
    state[wide] = state[wide].T
    del state[f"decoder.blks.{block}.attention2.W_k.weight"]
    state["encoder.blks.block7.attention.W_q.bias"] = np.zeros(8)
    with pytest.raises(ModelError) as caught:
        d2l.load(state, 2, edition=edition)
    shapes = ("[8, 6]", "[6, 8]") if edition == "pytorch" else ("[6, 8]", "[8, 6]")
    assert f"{wide}: expected {shapes[0]}, found {shapes[1]}" in str(caught.value)
    assert f"decoder.blks.{block}.attention2.W_k.weight: missing, expected [8, 8]" in str(caught.value)
    assert "encoder.blks.block7.attention.W_q.bias: left over" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"num_heads": 3}, "num_heads"), ({"edition": "mxnet"}, "edition"), ({"faithful_to_bug": "leak"}, "bug")],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        d2l.load(trained(), **{"num_heads": 2, **options})


def test_losses_of_both_editions():
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[4, 2, 3], [0, 1, 1]])
    p = (logits.exp() / logits.exp().sum(-1, keepdim=True)).detach().numpy()
    first = -sum(math.log(p[0, i, label]) for i, label in enumerate([4, 2, 3]))
    second = -math.log(p[1, 0, 0])
    assert d2l.loss(logits, labels, tgt_pad=1).item() == pytest.approx((first + second) / 4, abs=1e-12)
    sentences = d2l.sentence_losses(logits, labels, torch.tensor([3.0, 1.0]))
    assert sentences.tolist() == pytest.approx([first / 3, second / 3], abs=1e-12)
    assert d2l.sentence_losses(logits, labels, torch.tensor([3, 1])).tolist() == sentences.tolist()


def test_the_score_of_a_candidate():
    assert d2l.beam_score(-8.0, 16) == -1.0
    assert d2l.beam_score(-6.0, 3, alpha=1.0) == -2.0
