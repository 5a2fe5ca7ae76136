"""The `annotated` profile against the formulas of The Annotated Transformer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from traces import check_searches, largest_difference, steps, tolerances, trace

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import Dropout, MultiHeadAttention
from dragoman.profiles import annotated
from oracle.annotated import Annotated

BOS, EOS, PAD, VOCAB = 0, 1, 2, 15
variants = pytest.mark.parametrize("variant", ["repository", "article"])
SMALL = {"N": 2, "d_model": 12, "d_ff": 20}
shapes = st.fixed_dictionaries(
    {
        "N": st.integers(1, 2),
        "d_model": st.sampled_from([4, 12, 20]),
        "d_ff": st.integers(1, 24),
        "variant": st.sampled_from(["repository", "article"]),
    }
)


def trained(**shape):
    """Weights in that system's names, none of them at its start; with tables of positions, as its checkpoints have."""
    state = annotated.initial_weights(VOCAB + 3, VOCAB, **shape)
    for name, tensor in state.items():
        gain = name.endswith(("a_2", "norm.weight"))
        spread = 0.3 if tensor.dim() == 1 else tensor.shape[1] ** -0.5
        tensor.copy_(torch.randn_like(tensor) * spread + gain)
    for side in {name.split(".")[0] for name in state if ".lut." in name}:
        state[f"{side}.1.pe"] = annotated.position_table(30, shape["d_model"])[None]
    return state


def batch():
    """Every kind of padding: none, some, a row of nothing else, and a target that begins with it."""
    source, target = torch.randint(3, VOCAB, (4, 6)), torch.randint(3, VOCAB, (4, 5))
    target[:, 0] = BOS
    source[1, 4:], target[1, 3:] = PAD, PAD
    source[2] = PAD
    target[3, 0] = PAD
    return source, target


def oracle(state, h, source, target, variant):
    arrays = {name: tensor.double().numpy() for name, tensor in state.items()}
    return Annotated(arrays, h, PAD, article=variant == "article").run(source.numpy(), target.numpy())


@settings(max_examples=12)
@given(shapes, st.sampled_from([1, 2, 4]), st.integers(0, 1000))
def test_every_number_on_the_way_is_theirs(shape, h, seed):
    torch.manual_seed(seed)
    state, (source, target) = trained(**shape), batch()
    expected = oracle(state, h, source, target, shape["variant"])
    for dtype, tolerance in tolerances(shape["d_model"]):
        model = annotated.load(state, h=h, variant=shape["variant"], dtype=dtype).eval()
        assert largest_difference(trace(model, source, target), expected) <= tolerance


@variants
def test_arrays_load_as_tensors_do(variant):
    state, (source, target) = trained(**SMALL, variant=variant), batch()
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    models = [annotated.load(weights, h=3, variant=variant).eval() for weights in (state, arrays)]
    assert torch.equal(models[0](source, target), models[1](source, target))


@variants
def test_cached_steps_are_the_parallel_pass(variant):
    model = annotated.load(trained(**SMALL, variant=variant), h=3, variant=variant, dtype=torch.float64).eval()
    source, target = batch()
    rows = [0, 1, 2]  # a target that begins with padding is seen when decoding
    real = (target != PAD)[rows]
    difference = (steps(model, source, target) - model(source, target))[rows][real]
    assert difference.abs().max() <= 1e-10


@variants
def test_it_translates_through_the_searches(variant):
    model = annotated.load(trained(**SMALL, variant=variant), h=3, variant=variant, dtype=torch.float64).eval()
    sources = [torch.randint(3, VOCAB, (length,)) for length in (6, 2, 4)]
    check_searches(model, sources, bos=BOS, eos=EOS, pad=PAD)


def test_a_query_that_may_see_nothing_weighs_all_keys_alike():
    state, (source, target) = trained(**SMALL, variant="repository"), batch()
    seen = trace(annotated.load(state, h=3).eval(), source, target)
    np.testing.assert_allclose(seen["encoder.layers.0.self_attention"][2], 1 / 6, atol=1e-7)
    np.testing.assert_allclose(seen["decoder.layers.1.self_attention"][3, :, 0], 1 / 5, atol=1e-7)


def test_positions_are_the_formula_in_single_precision():
    table = annotated.position_table(5000, 512)
    position, pair = np.arange(5000)[:, None], np.arange(0, 512, 2)
    exact = np.zeros((5000, 512))
    exact[:, 0::2], exact[:, 1::2] = (f(position / 10000 ** (pair / 512)) for f in (np.sin, np.cos))
    off = np.abs(table.numpy() - exact).max(1)
    assert table.dtype == torch.float32
    assert off[:100].max() < 1e-5
    assert 1e-4 < off.max() < 1e-3  # the exact table would be too good


def test_a_checkpoint_without_its_tables_gets_them():
    state, (source, target) = trained(**SMALL, variant="repository"), batch()
    with_tables = annotated.load(state, h=3).eval()
    bare = annotated.load({name: t for name, t in state.items() if not name.endswith("pe")}, h=3, max_len=9).eval()
    assert torch.equal(with_tables(source, target), bare(source, target))
    with pytest.raises(ModelError, match="at most 9 tokens"):
        bare(torch.randint(3, VOCAB, (1, 10)), target[:1])


@variants
def test_a_fresh_model_starts_as_theirs(variant):
    torch.manual_seed(5)
    linear, w_1, w_2 = nn.Linear(12, 12), nn.Linear(12, 20), nn.Linear(20, 12)
    nn.Embedding(9, 12), nn.Embedding(7, 12)
    project = nn.Linear(12, 7)
    drawn = [nn.init.xavier_uniform_(torch.empty(12, 12)) for _ in range(4)]

    torch.manual_seed(5)
    model = annotated.build(9, 7, 2, 12, 20, 3, variant=variant)
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert len(attentions) == 6
    for attention in attentions:
        assert torch.equal(attention.projection.bias, linear.bias.repeat(3))
        assert torch.equal(attention.output.bias, linear.bias)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert torch.equal(layer.feed_forward.inner.bias, w_1.bias)
        assert torch.equal(layer.feed_forward.outer.bias, w_2.bias)
    assert torch.equal(model.generator.bias, project.bias)
    assert torch.equal(attentions[0].projection.weight, torch.cat(drawn[:3]))
    assert torch.equal(attentions[0].output.weight, drawn[3])
    assert len({m.output.weight.sum().item() for m in attentions}) == 6
    bound = math.sqrt(6 / (9 + 12))
    assert 0.9 * bound < model.source_embedding.tokens.weight.abs().max() <= bound


def count(src_vocab, tgt_vocab, N, d_model, d_ff):
    """Matrices with their offsets, norms, and the tables, added up by hand."""
    attention, feed_forward, norm = 4 * (d_model + 1) * d_model, 2 * d_model * d_ff + d_ff + d_model, 2 * d_model
    encoder = N * (attention + feed_forward + 2 * norm) + norm
    decoder = N * (2 * attention + feed_forward + 3 * norm) + norm
    return encoder + decoder + (src_vocab + tgt_vocab) * d_model + (d_model + 1) * tgt_vocab


@variants
def test_the_count_of_parameters_is_that_of_the_listing(variant):
    assert count(10_000, 8_000, 6, 512, 2048) == 57_460_544
    model = annotated.build(9, 7, 2, 12, 20, 3, variant=variant)
    assert sum(parameter.numel() for parameter in model.parameters()) == count(9, 7, 2, 12, 20)


def test_dropout_of_attention_does_not_follow_the_models():
    model = annotated.build(9, 7, 1, 12, 20, 3, dropout=0.4)
    assert {m.dropout for m in model.modules() if isinstance(m, MultiHeadAttention)} == {0.1}
    others = {m.p for m in model.modules() if isinstance(m, Dropout)}
    assert others == {0.4}


def test_what_does_not_fit_is_named():
    state = trained(**SMALL, variant="repository")
    del state["encoder.layers.1.sublayer.0.norm.a_2"]
    state["decoder.layers.0.src_attn.linears.1.bias"] = torch.zeros(5)
    state["generator.proj.scale"] = torch.zeros(1)
    with pytest.raises(ModelError) as error:
        annotated.load(state, h=3)
    assert "encoder.layers.1.sublayer.0.norm.a_2: missing, expected [12]" in str(error.value)
    assert "decoder.layers.0.src_attn.linears.1.bias: expected [12], found [5]" in str(error.value)
    assert "generator.proj.scale: left over" in str(error.value)
    assert len(str(error.value).splitlines()) == 4


def test_wrong_settings_are_refused():
    state = trained(**SMALL, variant="repository")
    with pytest.raises(ConfigError, match="h divides 12"):
        annotated.load(state, h=5)
    with pytest.raises(ConfigError, match="repository or article"):
        annotated.load(state, variant="book")
    with pytest.raises(ModelError, match="not the weights of"):
        annotated.load(state, h=3, variant="article")


def smoothed_by_hand(labels, size, smoothing):
    """Row by row: nothing for padding, what is left spread over the V - 2 entries that are neither it nor the label."""
    rows = []
    for label in labels:
        row = [0.0 if k == PAD else smoothing / (size - 2) for k in range(size)]
        row[label] = 1 - smoothing
        rows.append(row if label != PAD else [0.0] * size)
    return np.array(rows)


@settings(max_examples=30)
@given(st.integers(4, 9), st.sampled_from([0.0, 0.1, 0.4]), st.integers(0, 1000))
def test_the_loss_is_the_divergence_from_smoothed_labels(size, smoothing, seed):
    torch.manual_seed(seed)
    logits, labels = torch.randn(2, 3, size, dtype=torch.float64), torch.randint(0, size, (2, 3))
    labels[0, 0], labels[1, 2] = 0, PAD
    wanted = smoothed_by_hand(labels.flatten().tolist(), size, smoothing)
    smoothed = annotated.smoothed_labels(labels.flatten(), size, PAD, smoothing, torch.float64)
    np.testing.assert_allclose(smoothed.numpy(), wanted, atol=1e-15)

    logs = logits.flatten(0, 1).log_softmax(-1).numpy()
    entropy = -sum(p * math.log(p) for p in wanted.flatten() if p > 0)
    expected = -(wanted * logs).sum() - entropy
    total, mean = annotated.simple_loss(logits, labels, PAD, smoothing)
    assert float(total) == pytest.approx(expected, abs=1e-12)
    assert float(mean) == pytest.approx(expected / int((labels != PAD).sum()), abs=1e-12)


def test_smoothing_of_labels_as_in_their_example():
    rows = annotated.smoothed_labels(torch.tensor([2, 1, 0, 3, 3]), 5, 0, 0.4)
    share = 0.4 / 3
    expected = [
        [0, share, 0.6, share, share],
        [0, 0.6, share, share, share],
        [0] * 5,
        *[[0, share, share, 0.6, share]] * 2,
    ]
    np.testing.assert_allclose(rows.numpy(), expected, atol=1e-7)


@pytest.mark.parametrize("accum_iter", [1, 3])
def test_the_rate_is_what_their_loop_uses(accum_iter):
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = LambdaLR(optimizer, lambda step: annotated.rate(step, 512, 1.0, 10))
    used = []
    for micro_batch in range(60):
        if micro_batch % accum_iter == 0:
            used.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
        schedule.step()
    found = [annotated.learning_rate(n, warmup=10, accum_iter=accum_iter) for n in range(1, len(used) + 1)]
    assert found == pytest.approx(used, rel=1e-12)
    assert annotated.learning_rate(1) == annotated.learning_rate(2) == 512**-0.5 * 3000**-1.5
    assert annotated.rate(4000, 512, 2.0, 4000) == pytest.approx(2 * 512**-0.5 * 4000**-0.5)


def test_greedy_decoding_goes_on_after_the_end():
    model = annotated.load(trained(**SMALL, variant="repository"), h=3, dtype=torch.float64).eval()
    with torch.no_grad():
        model.generator.bias[EOS] += 30  # always the likeliest
    source = batch()[0][:2]
    assert annotated.greedy_decode(model, source, 6, BOS).tolist() == [[BOS, *[EOS] * 5]] * 2
    with torch.no_grad():
        model.generator.bias[[EOS, PAD]] -= 30  # what is padding in a target would be hidden below
    found = annotated.greedy_decode(model, source, 6, BOS)
    for length in range(1, 6):
        # The whole prefix again, nothing hidden but the source's padding and the future.
        again = model(source, found[:, :length])[:, -1].argmax(-1)
        assert torch.equal(found[:, length], again)
