"""The `lsdefine` profile against its formulas, and against the order in which Keras lists weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import check_searches, largest_difference, steps, tolerances, trace

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import Dropout, MultiHeadAttention
from dragoman.profiles import lsdefine
from oracle.lsdefine import Model, beam, greedy, position_table

BOS, EOS, LIMIT = 2, 3, 9
modes = pytest.mark.parametrize("mode", [0, 1])


def oracle(mode=0, layers=2, heads=2, d_k=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    vocabularies = (13, 13) if options.get("share") else (11, 13)
    return Model(rng, *vocabularies, LIMIT, heads * d_k, 6, heads, layers, mode=mode, **options)


def batch():
    """No padding, some, much, and a source of nothing else."""
    source = torch.tensor([[2, 9, 8, 7, 6, 3], [2, 5, 6, 3, 0, 0], [2, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    target = torch.tensor([[2, 5, 6, 7], [2, 10, 0, 0], [2, 0, 0, 0], [2, 4, 4, 0]])
    return source, target


@settings(max_examples=15)
@given(
    mode=st.integers(0, 1),
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    d_k=st.sampled_from([1, 4, 20]),
    share=st.booleans(),
    first=st.sampled_from([0, 1, 7]),
    listed=st.booleans(),
    misaligned=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_number_on_the_way_is_theirs(mode, layers, heads, d_k, share, first, listed, misaligned, seed):
    theirs = oracle(mode, layers, heads, d_k, seed, share=share, first=first)
    source, target = batch()
    misaligned = misaligned and mode == 0
    source, target = source[:3], target[:3]
    expected = theirs.run(source.numpy(), target.numpy(), misaligned=misaligned)
    state = theirs.get_weights() if listed else theirs.state
    bug = "misaligned_masks" if misaligned else None
    for dtype, tolerance in tolerances(heads * d_k):
        model = lsdefine.load(state, heads, mode=mode, faithful_to_bug=bug, dtype=dtype)
        assert largest_difference(trace(model, source, target), expected) <= tolerance


def test_a_source_of_padding_only_is_looked_at_as_theirs():
    theirs, (source, target) = oracle(), batch()
    expected = theirs.run(source.numpy(), target.numpy())
    found = trace(lsdefine.load(theirs.state, 2, dtype=torch.float64), source, target)
    assert np.abs(found["encoder.layers.0.self_attention"][3].sum(-1) - 1).max() < 1e-12
    # Beside -1e9, scores keep seven decimals; in float32 none.
    assert largest_difference(found, expected) < 1e-5
    found = trace(lsdefine.load(theirs.state, 2), source, target)
    assert np.abs(found["encoder.layers.0.self_attention"][3] - 1 / 6).max() < 1e-6


@modes
def test_names_of_an_hdf5_file_load_as_short_ones(mode):
    theirs, (source, target) = oracle(mode, first=4), batch()
    nested = {f"{name.partition('/')[0]}/{name}": array for name, array in reversed(theirs.state.items())}
    models = [lsdefine.load(state, 2, mode=mode) for state in (theirs.state, nested)]
    assert torch.equal(models[0](source, target), models[1](source, target))


def test_with_aligned_masks_a_sentence_does_not_know_its_batch():
    theirs, (source, target) = oracle(), batch()
    good = lsdefine.load(theirs.state, 2, dtype=torch.float64)
    bad = lsdefine.load(theirs.state, 2, faithful_to_bug="misaligned_masks", dtype=torch.float64)
    alone = good(source[1:2, :4], target[1:2, :2])
    assert torch.equal(alone, bad(source[1:2, :4], target[1:2, :2]))
    assert torch.allclose(good(source, target)[1:2, :2], alone, atol=1e-12)
    assert (bad(source, target)[1:2, :2] - alone).abs().max() > 1e-4


@modes
def test_cached_steps_are_the_parallel_pass(mode):
    theirs, (source, _) = oracle(mode), batch()
    model = lsdefine.load(theirs.state, 2, mode=mode, dtype=torch.float64)
    target = torch.tensor([[2, 5, 6, 7], [2, 10, 4, 4], [2, 8, 8, 1]])
    with torch.no_grad():
        parallel = model(source[:3], target)
    assert torch.allclose(steps(model, source[:3], target), parallel, atol=1e-12)


@modes
def test_it_translates_through_the_searches(mode):
    model = lsdefine.load(oracle(mode).get_weights(), 2, mode=mode, dtype=torch.float64)
    sources = [torch.tensor(row) for row in ([2, 5, 6, 7, 3], [2, 9, 3], [2, 4, 4, 10, 3])]
    check_searches(model, sources, bos=BOS, eos=EOS, pad=lsdefine.PAD)


def test_the_table_is_theirs_and_has_an_end():
    table = lsdefine.position_table(200, 14)
    assert np.abs(table.numpy() - position_table(200, 14)).max() < 1e-12
    model = lsdefine.build(11, 13, 6, 8, 6, 2, 1)
    source = torch.tensor([[2, 4, 4, 4, 3]])
    model(source, source)
    with pytest.raises(ModelError, match="at most 5 tokens"):
        model(torch.tensor([[2, 4, 4, 4, 4, 3]]), source)


def test_a_stored_table_is_kept_as_it_is():
    theirs, (source, target) = oracle(), batch()
    theirs.state["embedding_1/embeddings:0"] *= 0.5
    expected = theirs.run(source[:3].numpy(), target[:3].numpy())
    found = trace(lsdefine.load(theirs.state, 2, dtype=torch.float64), source[:3], target[:3])
    assert largest_difference(found, expected) < 1e-10


@modes
def test_a_fresh_model_starts_as_theirs(mode):
    model = lsdefine.build(300, 200, 20, 48, 96, 4, 1, 0.3, mode=mode)
    attention = model.encoder.layers[0].self_attention
    glorot = math.sqrt(6 / (48 + (48 if mode == 0 else 12)))
    for matrix in attention.projection.weight.split(48 if mode == 0 else 12):
        assert 0.9 * glorot < matrix.abs().max() <= glorot
    inner = model.encoder.layers[0].feed_forward.inner
    assert 0.95 * math.sqrt(6 / 144) < inner.weight.abs().max() <= math.sqrt(6 / 144)
    assert 0.95 * math.sqrt(6 / 248) < model.generator.weight.abs().max() <= math.sqrt(6 / 248)
    assert model.generator.bias is None
    assert attention.projection.bias is None
    for words in (model.source_embedding.tokens.weight, model.target_embedding.tokens.weight):
        assert 0.049 < words.abs().max() <= 0.05
    offsets = [p for name, p in model.named_parameters() if name.endswith(("bias", "beta"))]
    assert len(offsets) == 3 + 4 + 5
    assert all((offset == 0).all() for offset in offsets)
    # words, 3 attentions, 2 feed-forward blocks, 5 norms, output; the table is no parameter
    count = 500 * 48 + 3 * (4 * 48 * 48 + 48) + 2 * (2 * 48 * 96 + 96 + 48) + 5 * 96 + 200 * 48
    assert sum(p.numel() for p in model.parameters()) == count


def test_dropout_is_where_theirs_is():
    model = lsdefine.build(11, 13, 9, 8, 6, 2, 1, 0.3)
    rates = {name: module.p for name, module in model.named_modules() if isinstance(module, Dropout)}
    assert rates["source_embedding.dropout"] == 0.3
    assert rates["target_embedding.dropout"] == 0.0
    assert {rate for name, rate in rates.items() if "residual" in name} == {0.3}
    assert {rate for name, rate in rates.items() if "feed_forward." in name} == {0.0}
    assert {m.dropout for m in model.modules() if isinstance(m, MultiHeadAttention)} == {0.1}


def test_shared_words_are_one_table():
    model = lsdefine.build(13, 13, 9, 8, 6, 2, 1, share_word_emb=True)
    assert model.source_embedding.tokens is model.target_embedding.tokens


def test_what_does_not_fit_is_named():
    state = oracle().state
    state["conv1d_3/kernel:0"] = state["conv1d_3/kernel:0"][0]
    del state["layer_normalization_4/beta:0"]
    state["training/Adam/m_0:0"] = np.zeros(3)
    with pytest.raises(ModelError) as caught:
        lsdefine.load(state, 2)
    assert "conv1d_3/kernel:0: expected [1, 8, 6], found [8, 6]" in str(caught.value)
    assert "layer_normalization_3/beta: missing, expected [8]" in str(caught.value)
    assert "training/Adam/m_0:0: left over" in str(caught.value)


def test_names_that_are_not_of_keras_are_refused():
    with pytest.raises(ModelError, match="these are not the weights of lsdefine"):
        lsdefine.load({"weight": torch.ones(2)}, 4)


def test_a_list_that_does_not_fit_is_refused():
    arrays = oracle().get_weights()
    with pytest.raises(ModelError, match="33 arrays per layer"):
        lsdefine.load(arrays[:-1][:-1], 2)
    with pytest.raises(ModelError, match="mode 1"):
        lsdefine.load(arrays, 2, mode=1)
    arrays[3] = arrays[3][:5]
    with pytest.raises(ModelError, match=r"get_weights\(\)\[3\], dense_0/kernel: expected \[8, 8\], found \[5, 8\]"):
        lsdefine.load(arrays, 2)
    arrays[1] = arrays[1][0]
    with pytest.raises(ModelError, match=r"embedding_0/embeddings: expected \[rows, 8\], found \[8\]"):
        lsdefine.load(arrays, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_head": 3}, "n_head"),
        ({"share_word_emb": True}, "vocabulary"),
        ({"mode": 2}, "mode"),
        ({"faithful_to_bug": "post_eos"}, "bug"),
        ({"mode": 1, "faithful_to_bug": "misaligned_masks"}, "bug"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        lsdefine.build(11, 13, 9, 8, 6, **{"n_head": 2, **options})


def test_loss_and_accuracy_are_means_of_sentence_means():
    logits = torch.randn(2, 3, 5, dtype=torch.float64)
    labels = torch.tensor([[4, 2, 3], [1, 0, 0]])
    probabilities = (logits.exp() / logits.exp().sum(-1, keepdim=True)).numpy()
    first = -sum(math.log(probabilities[0, i, label]) for i, label in enumerate([4, 2, 3])) / 3
    second = -math.log(probabilities[1, 0, 1])
    assert lsdefine.loss(logits, labels).item() == pytest.approx((first + second) / 2, abs=1e-12)
    best = logits.argmax(-1)
    labels = torch.tensor([[int(best[0, 0]) or 1, 0, 0], [1 + int(best[1, 0]) % 4, 0, 0]])
    hits = [float(best[row, 0] == labels[row, 0]) for row in range(2)]
    assert lsdefine.accuracy(logits, labels).item() == sum(hits) / 2


def test_the_rate_of_an_update():
    assert lsdefine.learning_rate(1, 256) == pytest.approx(4000**-1.5 / 16)
    assert lsdefine.learning_rate(4000, 256) == pytest.approx(4000**-0.5 / 16)
    assert lsdefine.learning_rate(16000, 256) == pytest.approx(1 / (16 * math.sqrt(16000)))


def test_scores_of_their_beam():
    logits = torch.tensor([[0.0, math.log(3.0), -1000.0]], dtype=torch.float64)
    expected = [math.log(0.25 + 1e-8), math.log(0.75 + 1e-8), math.log(1e-8)]
    assert lsdefine.beam_log_probabilities(logits)[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert lsdefine.beam_score(-6.0, 2) == -2.0
    assert lsdefine.beam_score(-6.0, 3, 0.5) == -3.0
    assert lsdefine.beam_prunes(-10.1, -2.0)
    assert not lsdefine.beam_prunes(-9.9, -2.0)
    assert not lsdefine.beam_prunes(-4e5, None)
    assert lsdefine.beam_prunes(-6e5, None)


SOURCE = torch.tensor([[2, 9, 8, 7, 6, 3, 0], [2, 5, 6, 3, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0]])
misalignments = pytest.mark.parametrize("bug", [None, "misaligned_masks"])


@misalignments
def test_it_decodes_greedily_as_they_do(bug):
    lengths = set()
    for seed in range(12):
        theirs = oracle(layers=1, seed=seed)
        model = lsdefine.load(theirs.state, 2, faithful_to_bug=bug, dtype=torch.float64)
        expected = greedy(theirs, SOURCE.numpy(), BOS, EOS, LIMIT, bug is not None)
        assert lsdefine.decode_batch_greedy(model, SOURCE, max_len=LIMIT) == expected
        lengths |= {len(row) for row in expected}
    assert min(lengths) < LIMIT - 1 == max(lengths)


@misalignments
def test_it_searches_as_they_do(bug):
    counts = set()
    for seed in range(12):
        theirs, width, power = oracle(layers=1, seed=seed), 2 + seed % 3, (1.0, 0.3)[seed % 2]
        model = lsdefine.load(theirs.state, 2, faithful_to_bug=bug, dtype=torch.float64)
        expected = beam(theirs, SOURCE.numpy(), BOS, EOS, LIMIT, width, power, bug is not None)
        found = lsdefine.beam_search(model, SOURCE, width, power, max_len=LIMIT)
        assert [[ids for ids, _ in row] for row in found] == [[ids for ids, _ in row] for row in expected]
        scores = [score for row in found for _, score in row]
        assert scores == pytest.approx([score for row in expected for _, score in row], abs=1e-10)
        counts |= {len(row) for row in found}
    assert 0 in counts
    assert max(counts) > 2


def test_padding_that_was_said_has_a_position():
    theirs = oracle(layers=1)
    model = lsdefine.load(theirs.state, 2, dtype=torch.float64)
    prefixes = torch.tensor([[2, 0, 5], [2, 6, 0], [2, 0, 0]])
    expected = theirs.following(SOURCE.numpy(), prefixes.numpy())
    assert np.abs(steps(model, SOURCE, prefixes)[:, -1].numpy() - expected).max() < 1e-10


def test_the_optimiser_is_theirs_with_an_epsilon_of_its_own():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    ours, first, second = weight.detach().numpy().copy(), np.zeros(2), np.zeros(2)
    plain = torch.nn.Parameter(weight.detach().clone())
    optimizers = [torch.optim.Adam([p], betas=(0.9, 0.98), eps=1e-9) for p in (weight, plain)]
    for step in range(1, 30):
        gradient = np.array([1e-9, -3e-10]) * (step % 3 + 1)  # of the size of epsilon
        rate = lsdefine.learning_rate(step, 8, 5)
        first, second = 0.9 * first + 0.1 * gradient, 0.98 * second + 0.02 * gradient**2
        ours -= rate * math.sqrt(1 - 0.98**step) / (1 - 0.9**step) * first / (np.sqrt(second) + 1e-9)
        optimizers[0].param_groups[0]["eps"] = lsdefine.adam_epsilon(step)
        for optimizer, parameter in zip(optimizers, (weight, plain), strict=True):
            optimizer.param_groups[0]["lr"] = rate
            parameter.grad = torch.from_numpy(gradient)
            optimizer.step()
    assert np.abs(weight.detach().numpy() - ours).max() < 1e-12
    assert np.abs(plain.detach().numpy() - ours).max() > 1e-3
