"""The `jadore` profile against the formulas of jadore801120's repository."""

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
from dragoman.profiles import jadore
from oracle.jadore import Jadore

SRC_PAD, TRG_PAD, BOS, EOS, VOCAB = 1, 0, 2, 3, 13
SOURCE, TARGET, GENERATOR = "encoder.src_word_emb.weight", "decoder.trg_word_emb.weight", "trg_word_prj.weight"
PADS = {"src_pad_idx": SRC_PAD, "trg_pad_idx": TRG_PAD}
SMALL = {"d_model": 12, "d_inner": 18, "n_layers": 2, "n_head": 3, "d_k": 3, "d_v": 5}
VARIANTS = ["repository", "article", "early_2020"]
variants = pytest.mark.parametrize("variant", VARIANTS)
shapes = st.fixed_dictionaries(
    {
        "d_model": st.sampled_from([3, 8, 24]),
        "d_inner": st.integers(1, 20),
        "n_layers": st.integers(1, 2),
        "n_head": st.integers(1, 3),
        "d_k": st.integers(1, 5),
        "d_v": st.integers(1, 5),
        "variant": st.sampled_from(VARIANTS),
    }
)


def trained(tied=True, shared=False, **shape):
    """Weights in that system's names, none of them at its start; with tables of positions, as its checkpoints have."""
    state = jadore.initial_weights(VOCAB if shared else VOCAB + 2, VOCAB, **shape)
    for name, tensor in state.items():
        spread = 0.3 if tensor.dim() == 1 else tensor.shape[1] ** -0.5
        tensor.copy_(torch.randn_like(tensor) * spread + name.endswith("layer_norm.weight"))
    if tied:
        state[GENERATOR] = state[TARGET].clone()
    if shared:
        state[SOURCE] = state[TARGET].clone()
    for stack in ("encoder", "decoder"):
        state[f"{stack}.position_enc.pos_table"] = jadore.position_table(30, shape["d_model"])[None]
    return state


def loaded(state, **options):
    return jadore.load(state, **{"n_head": 3, "dtype": torch.float64, **PADS, **options}).eval()


def batch():
    """Every kind of padding: none, some, a row of nothing else, and a target that begins with it."""
    source, target = torch.randint(2, VOCAB, (4, 6)), torch.randint(2, VOCAB, (4, 5))
    target[:, 0] = BOS
    source[1, 4:], target[1, 3:] = SRC_PAD, TRG_PAD
    source[0, 3], target[0, 2] = TRG_PAD, SRC_PAD  # words, on this side
    source[2] = SRC_PAD
    target[3, 0] = TRG_PAD
    return source, target


def oracle(state, n_head, variant="repository", embedding_scale=1.0, logit_scale=1.0):
    arrays = {name: tensor.double().numpy() for name, tensor in state.items()}
    return Jadore(
        arrays,
        n_head,
        (SRC_PAD, TRG_PAD),
        variant=variant,
        embedding_scale=embedding_scale,
        logit_scale=logit_scale,
    )


def scales(d_model, tied, option, variant):
    """What embeddings and logits are multiplied by."""
    if not tied or variant == "article":
        return 1.0, 1.0
    option = "prj" if variant == "early_2020" else option
    return {"emb": (math.sqrt(d_model), 1.0), "prj": (1.0, 1 / math.sqrt(d_model)), "none": (1.0, 1.0)}[option]


@settings(max_examples=20)
@given(shapes, st.booleans(), st.booleans(), st.sampled_from(["emb", "prj", "none"]), st.integers(0, 1000))
def test_every_number_on_the_way_is_theirs(shape, tied, shared, option, seed):
    torch.manual_seed(seed)
    state, (source, target) = trained(tied, shared, **shape), batch()
    variant, n_head = shape["variant"], shape["n_head"]
    reference = oracle(state, n_head, variant, *scales(shape["d_model"], tied, option, variant))
    expected = reference.run(source.numpy(), target.numpy())
    for dtype, tolerance in tolerances(shape["d_model"]):
        model = loaded(state, n_head=n_head, scale_emb_or_prj=option, variant=variant, dtype=dtype)
        assert largest_difference(trace(model, source, target), expected) <= tolerance


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("option", ["emb", "prj", "none"])
def test_each_scale_is_theirs(option, tied):
    state, (source, target) = trained(tied, **SMALL), batch()
    expected = oracle(state, 3, "repository", *scales(12, tied, option, "repository"))
    found = trace(loaded(state, scale_emb_or_prj=option), source, target)
    assert largest_difference(found, expected.run(source.numpy(), target.numpy())) <= 1e-10


def test_arrays_load_as_tensors_do():
    state, (source, target) = trained(**SMALL), batch()
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    models = [loaded(weights) for weights in (state, arrays)]
    assert torch.equal(models[0](source, target), models[1](source, target))


@variants
def test_cached_steps_are_the_parallel_pass(variant):
    model = jadore.load(
        trained(**SMALL, variant=variant), n_head=3, variant=variant, dtype=torch.float64, **PADS
    ).eval()
    source, target = batch()
    # What is hidden in training is seen when decoding: padding inside or before the target.
    rows = slice(None) if variant == "article" else slice(0, 3)
    real = (target != TRG_PAD)[rows] | (variant == "article")
    difference = (steps(model, source, target) - model(source, target))[rows][real]
    assert difference.abs().max() <= 1e-10


@variants
def test_it_translates_through_the_searches(variant):
    model = jadore.load(
        trained(**SMALL, variant=variant), n_head=3, variant=variant, dtype=torch.float64, **PADS
    ).eval()
    sources = [torch.randint(4, VOCAB, (length,)) for length in (6, 2, 4)]
    hides = variant != "article"
    # The searches pad with the source's id; it is never put out either.
    check_searches(model, sources, bos=BOS, eos=EOS, pad=SRC_PAD, hides_padding=hides)


def test_the_states_of_2020_and_2021_differ_under_the_same_names():
    state, (source, target) = trained(**SMALL), batch()
    old, new = (loaded(state, variant=variant) for variant in ("early_2020", "repository"))
    assert sum(p.numel() for p in old.parameters()) == sum(p.numel() for p in new.parameters())
    assert (old(source, target) - new(source, target)).abs().max() > 0.01
    # It had no such option.
    assert torch.equal(loaded(state, variant="early_2020", scale_emb_or_prj="emb")(source, target), old(source, target))


def test_the_article_hides_padding_nowhere():
    state, (source, target) = trained(**SMALL, variant="article"), batch()
    seen = trace(loaded(state, variant="article"), source, target)
    assert (seen["encoder.layers.0.self_attention"] > 0).all()
    assert (seen["decoder.layers.0.cross_attention"] > 0).all()
    assert ((seen["decoder.layers.0.self_attention"] > 0) == np.tril(np.ones((5, 5), bool))).all()


def test_positions_are_built_in_double_precision():
    table = jadore.position_table(200, 64)
    position, pair = np.arange(200)[:, None], np.arange(0, 64, 2)
    exact = np.zeros((200, 64))
    exact[:, 0::2], exact[:, 1::2] = (f(position / 10000 ** (pair / 64)) for f in (np.sin, np.cos))
    assert table.dtype == torch.float32
    # Half the distance between two numbers below 1.
    assert np.abs(table.numpy() - exact).max() <= 2.0**-25 * (1 + 1e-6)


def test_a_checkpoint_without_its_tables_gets_them():
    state, (source, target) = trained(**SMALL), batch()
    whole = loaded(state)
    bare = {name: tensor for name, tensor in state.items() if not name.endswith("pos_table")}
    model = loaded(bare, n_position=9)
    assert torch.equal(whole(source, target), model(source, target))
    with pytest.raises(ModelError, match="at most 9 tokens"):
        model(torch.randint(4, VOCAB, (1, 10)), target[:1])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_tables_that_were_one_are_one_again(tied, shared):
    model = loaded(trained(tied, shared, **SMALL))
    target = model.target_embedding.tokens.weight
    assert (model.generator.weight is target) == tied
    assert (model.source_embedding.tokens.weight is target) == shared


@variants
def test_a_fresh_model_starts_as_theirs(variant):
    torch.manual_seed(5)
    # Drawn in their order: encoder, decoder, projection; then every matrix again.
    nn.Embedding(9, 12), [nn.Linear(*widths, bias=False) for widths in ((12, 9), (12, 9), (12, 15), (15, 12))]
    w_1, w_2 = nn.Linear(12, 18), nn.Linear(18, 12)
    torch.manual_seed(5)
    sizes = {"d_word_vec": 12, "d_model": 12, "d_inner": 18, "n_layers": 1, "n_head": 3, "d_k": 3, "d_v": 5}
    model = jadore.build(9, 9, 1, 1, **sizes, variant=variant)
    (encoder,), (decoder,) = model.encoder.layers, model.decoder.layers
    assert torch.equal(encoder.feed_forward.inner.bias, w_1.bias)
    assert torch.equal(encoder.feed_forward.outer.bias, w_2.bias)
    assert not torch.equal(encoder.feed_forward.inner.bias, decoder.feed_forward.inner.bias)
    for matrix in (*encoder.self_attention.projection.weight.split([9, 9, 15]), encoder.feed_forward.inner.weight):
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.85 * bound < matrix.abs().max() <= bound
    assert model.target_embedding.tokens.weight[1].abs().max() > 0, "the row of padding is drawn again"
    assert model.generator.weight is model.source_embedding.tokens.weight
    attentions = 3 * (12 * (9 + 9 + 15) + 15 * 12 + 24)
    feed_forwards = 2 * (12 * 18 + 18 + 18 * 12 + 12 + 24)
    norms = 0 if variant == "article" else 2 * 24
    assert sum(p.numel() for p in model.parameters()) == 9 * 12 + attentions + feed_forwards + norms


def test_dropout_of_attention_does_not_follow_the_models():
    model = jadore.build(9, 9, 1, 1, 12, 12, 18, 1, 3, 3, 5, dropout=0.4)
    assert {m.dropout for m in model.modules() if isinstance(m, MultiHeadAttention)} == {0.1}
    feed_forwards = {layer.feed_forward.dropout.p for layer in (*model.encoder.layers, *model.decoder.layers)}
    assert feed_forwards == {0.0}
    assert {m.p for m in model.modules() if isinstance(m, Dropout)} == {0.0, 0.4}


def test_what_does_not_fit_is_named():
    state = trained(**SMALL)
    del state["decoder.layer_stack.1.enc_attn.layer_norm.bias"]
    state["encoder.layer_stack.0.slf_attn.fc.weight"] = torch.zeros(5)
    state["settings"] = torch.zeros(1)
    with pytest.raises(ModelError) as error:
        loaded(state)
    assert "decoder.layer_stack.1.enc_attn.layer_norm.bias: missing, expected [12]" in str(error.value)
    assert "encoder.layer_stack.0.slf_attn.fc.weight: expected [12, 15], found [5]" in str(error.value)
    assert "settings: left over" in str(error.value)
    assert len(str(error.value).splitlines()) == 4


def test_the_norms_on_embeddings_tell_the_variants_apart():
    with pytest.raises(ModelError, match=r"encoder.layer_norm.weight: missing"):
        jadore.load(trained(**SMALL, variant="article"), n_head=3)
    with pytest.raises(ModelError, match=r"decoder.layer_norm.bias: left over"):
        jadore.load(trained(**SMALL), n_head=3, variant="article")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_head": 4}, "n_head divides 9 and 15"),
        ({"variant": "book"}, "repository or article"),
        ({"scale_emb_or_prj": "both"}, "emb or prj or none"),
        ({"faithful_to_bug": "typo"}, "unscaled_translation"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        jadore.load(trained(**SMALL), **{"n_head": 3, **wrong})


def test_sizes_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="equal vocabularies"):
        jadore.build(9, 8, 1, 1, 12, 12)
    with pytest.raises(ConfigError, match="vectors of words"):
        jadore.build(9, 9, 1, 1, 12, 16)


@settings(max_examples=30)
@given(st.integers(4, 9), st.booleans(), st.integers(0, 1000))
def test_the_loss_is_a_sum_over_real_labels(size, smoothing, seed):
    torch.manual_seed(seed)
    logits, labels = torch.randn(2, 3, size, dtype=torch.float64), torch.randint(0, size, (2, 3))
    labels[0, 0], labels[1, 2] = 3, TRG_PAD
    expected = 0.0
    for row, label in zip(logits.flatten(0, 1).log_softmax(-1).tolist(), labels.flatten().tolist(), strict=True):
        if label != TRG_PAD:
            others = 0.1 / (size - 1) if smoothing else 0.0
            wanted = [(0.9 if smoothing else 1.0) if token == label else others for token in range(size)]
            expected -= sum(share * log for share, log in zip(wanted, row, strict=True))
    assert float(jadore.cal_loss(logits, labels, TRG_PAD, smoothing)) == pytest.approx(expected, abs=1e-12)


def test_the_rate_counts_updates_from_one():
    assert jadore.learning_rate(1) == pytest.approx(2 * 512**-0.5 * 4000**-1.5)
    assert jadore.learning_rate(4000) == pytest.approx(2 * 512**-0.5 * 4000**-0.5)
    assert jadore.learning_rate(9, lr_mul=0.5, d_model=64, n_warmup_steps=4) == pytest.approx(0.5 / 8 / 3)


@pytest.mark.parametrize("option", ["emb", "prj"])
def test_the_bug_leaves_out_every_scale(option):
    state, (source, target) = trained(**SMALL), batch()
    faulty = loaded(state, scale_emb_or_prj=option, faithful_to_bug="unscaled_translation")
    expected = oracle(state, 3).run(source.numpy(), target.numpy())
    assert largest_difference(trace(faulty, source, target), expected) <= 1e-10
    right = loaded(state, scale_emb_or_prj=option)
    assert (right(source, target) - faulty(source, target)).abs().max() > 0.1


def test_it_searches_as_they_do():
    ways_out = set()
    for seed in range(32):
        torch.manual_seed(seed)
        state, source = trained(tied=False, **SMALL | {"n_layers": 1}), batch()[0][seed // 2 % 2, None]
        state[GENERATOR][EOS] += seed // 4 % 4 * torch.randn(12)
        beam, alpha = 2 + seed % 3, (0.7, 4.0)[seed % 2]  # a high power makes every place of an end count
        expected, ended = oracle(state, 3).translate(source[0].numpy(), BOS, EOS, beam, 8, alpha)
        assert jadore.translate_sentence(loaded(state), source, beam_size=beam, max_seq_len=8, alpha=alpha) == expected
        ways_out.add((ended, len(expected) > 3))
    assert {(True, True), (True, False), (False, True)} <= ways_out


def test_the_score_counts_the_start_and_the_first_end():
    hypotheses = torch.tensor([[BOS, EOS, 5, EOS], [BOS, 4, 5, EOS]])
    scores = jadore.beam_score(torch.tensor([-3.0, -3.0]), hypotheses, EOS)
    assert scores.tolist() == pytest.approx([-3 / 2**0.7, -3 / 4**0.7])
