"""Positions inside attention: the formulas, the kernels, and what depends on distances only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.models import build_model, load_pretrained, save_pretrained
from dragoman.nn import (
    AlibiPositions,
    AttentionPositions,
    AttentionRecord,
    GrowingCache,
    MultiHeadAttention,
    RelativePositions,
    RotaryPositions,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from dragoman.nn.positions import make_positions
from oracle.positions import alibi_scores, alibi_slope, relative_scores, rotary_scores, rotated, weighed

PAD = 0
KINDS = ["rotary", "relative", "alibi"]
TELLING = ["rotary", "relative"]  # left from right
SIZES = {"d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0}


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def make(kind: str, d_k: int = 4, distance: int = 3, heads: int = 3) -> AttentionPositions:
    made = make_positions(kind, heads=heads, d_k=d_k, distance=distance)
    assert made is not None
    return made.double()


def attention(kind: str, **options: float) -> MultiHeadAttention:
    # An odd number of values per row: what a rotation must be able to read.
    return MultiHeadAttention(7, 3, d_k=4, d_v=5, positions=make(kind), **options).double()


def build(positions: str, family: str = "transformer", **options: object):
    torch.manual_seed(0)
    tree = {"family": family, "source_vocab": 20, "target_vocab": 20, "positions": positions, "relative_distance": 3}
    return build_model(ModelConfig.from_dict({**SIZES, **tree, **options})).double().eval()


def ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, 20, (rows, length))


def slow_scores(positions: AttentionPositions, query: torch.Tensor, key: torch.Tensor) -> np.ndarray:
    """Of every head of every row; the vectors before anything is done about positions."""
    if isinstance(positions, RelativePositions):
        rows = positions.key.detach().numpy()
        heads = [relative_scores(q, k, rows) for q, k in zip(flat(query), flat(key), strict=True)]
    elif isinstance(positions, AlibiPositions):
        slopes = [alibi_slope(head, query.shape[1]) for head in range(query.shape[1])] * len(query)
        heads = [alibi_scores(*one) for one in zip(flat(query), flat(key), slopes, strict=True)]
    else:
        heads = [rotary_scores(q, k) for q, k in zip(flat(query), flat(key), strict=True)]
    return np.stack(heads).reshape(*query.shape[:2], query.shape[2], key.shape[2])


def flat(x: torch.Tensor) -> np.ndarray:
    return x.detach().flatten(0, 1).numpy()


def projected(module: MultiHeadAttention, x: torch.Tensor) -> list[torch.Tensor]:
    parts = module.projection(x).split(module.widths, dim=-1)
    return [part.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for part in parts]


# The formulas


@given(st.integers(1, 6), st.integers(0, 5000), st.sampled_from([2, 6, 8]))
def test_a_rotation_is_the_formula_at_any_position(length, start, d_k):
    torch.manual_seed(length)
    query, key = random(2, 3, length, d_k), random(2, 3, length, d_k)
    positions = make("rotary", d_k)
    for plain in (query, key):
        result = positions.place(plain, start)
        slow = [rotated(row, start + i % length) for i, row in enumerate(plain.flatten(0, 2).numpy())]
        np.testing.assert_allclose(result.flatten(0, 2).numpy(), np.stack(slow), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(length=st.integers(1, 9), seed=st.integers(0, 1000), grad=st.booleans())
def test_attention_is_the_formula_and_its_record_too(kind, length, seed, grad):
    torch.manual_seed(seed)
    module, x = attention(kind), random(2, length, 7)
    mask = torch.rand(2, 1, length, length) < 0.7  # some rows are masked altogether
    records: list[AttentionRecord] = []
    with torch.set_grad_enabled(grad):  # the explicit products and the fused kernel
        result = module(x, mask=mask)
        stop = module.observe(records.append)
        module(x, mask=mask)
        stop()
    query, key, value = projected(module, x)
    scores = slow_scores(module.positions, query, key)
    weights = np.stack([weighed(scores[b, h], mask[b, 0].numpy()) for b in range(2) for h in range(3)])
    mixed = torch.tensor(weights @ flat(value)).unflatten(0, (2, 3)).transpose(1, 2).flatten(2)
    expected = module.output(mixed)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    (record,) = records
    np.testing.assert_allclose(record.scores.detach().numpy(), scores, atol=1e-12)
    np.testing.assert_allclose(record.weights.detach().flatten(0, 1).numpy(), weights, atol=1e-12)
    assert (record.weights[~mask.expand_as(record.weights)] == 0).all()
    torch.testing.assert_close(record.output, expected, rtol=0, atol=1e-12)


def test_the_distance_of_a_key_is_counted_from_the_query():
    rows = RelativePositions(4, 2).rows(2, 6)
    assert rows.tolist() == [[0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 1, 2]]  # the last two of six positions look


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    module, x = attention(kind), random(1, 5, 7).requires_grad_()
    mask = causal_mask(5)
    assert torch.autograd.gradcheck(lambda *_: module(x, mask=mask), (x, *module.parameters()))


# The kernels


@pytest.mark.parametrize("length", [5, 100])
def test_a_bias_is_added_by_kernel_and_products_alike(length):
    query, key, value = (random(2, 3, length, 4) for _ in range(3))
    bias, mask = random(2, 3, length, length), torch.rand(2, 1, length, length) < 0.6
    mask[0, 0, 2] = False  # a row without a key
    for hidden in (mask, None):
        plain = scaled_dot_product_attention(query, key, value, hidden, bias=bias)
        with torch.no_grad():
            fused = scaled_dot_product_attention(query, key, value, hidden, bias=bias)
        torch.testing.assert_close(plain, fused, rtol=0, atol=1e-12)
        if hidden is not None:
            assert (plain[0, :, 2] == 0).all()
            assert (fused[0, :, 2] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fully_masked_row_is_zero_and_so_is_its_gradient(kind):
    module = MultiHeadAttention(8, 2, positions=make(kind, heads=2), bias=False).double()
    x = random(1, 3, 8).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False], [True, True, False]])
    result = module(x, mask=mask)
    assert (result[0, 1] == 0).all()
    result[0, 1].sum().backward()
    for tensor in (x, *module.parameters()):
        assert tensor.grad is not None
        assert (tensor.grad == 0).all()


def test_rotary_turns_in_float32_what_is_narrower():
    positions = RotaryPositions(8)
    query = torch.randn(1, 1, 700, 8, dtype=torch.bfloat16)
    narrow, wide = positions.place(query, 300), positions.place(query.float(), 300)
    assert narrow.dtype == torch.bfloat16
    assert torch.equal(narrow, wide.bfloat16())


@settings(max_examples=30)
@given(queries=st.integers(1, 6), keys=st.integers(1, 6), seed=st.integers(0, 1000), grad=st.booleans())
def test_between_two_sequences_each_is_turned_by_its_own_places(queries, keys, seed, grad):
    torch.manual_seed(seed)
    module, x, memory = attention("rotary"), random(2, queries, 7), random(2, keys, 7)
    mask = torch.rand(2, 1, queries, keys) < 0.7
    query, (_, key, value) = projected(module, x)[0], projected(module, memory)
    scores = slow_scores(module.positions, query, key)
    weights = np.stack([weighed(scores[b, h], mask[b, 0].numpy()) for b in range(2) for h in range(3)])
    mixed = torch.tensor(weights @ flat(value)).unflatten(0, (2, 3)).transpose(1, 2).flatten(2)
    with torch.set_grad_enabled(grad):
        result = module(x, memory, mask=mask)
    torch.testing.assert_close(result, module.output(mixed), rtol=0, atol=1e-12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_chunks_that_look_at_a_memory_are_the_whole(chunks):
    module, x, memory = attention("rotary"), random(2, sum(chunks), 7), random(2, 5, 7)
    cache, whole = module.project_memory(memory), module(x, memory)
    parts = [module(chunk, cache=cache) for chunk in x.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)
    assert cache.length == sum(chunks)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_of_weights_acts_in_training_only(kind):
    module, x = attention(kind, dropout=0.5), random(2, 6, 7)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


# Distances


@given(st.integers(0, 300), st.integers(0, 1000))
def test_rotary_scores_depend_on_the_distance_only(start, seed):
    torch.manual_seed(seed)
    positions, query, key = make("rotary", 8), random(1, 2, 7, 8), random(1, 2, 7, 8)
    one, other = (positions.place(query, where) @ positions.place(key, where).mT for where in (0, start))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_one_query_and_one_key_meet_the_same_at_each_distance(kind):
    module = MultiHeadAttention(8, 2, positions=make(kind, heads=2)).double()
    records: list[AttentionRecord] = []
    module.observe(records.append)
    module(random(1, 1, 8).expand(1, 9, 8))  # the same vector everywhere
    scores = records[0].scores[0, 0].detach()
    found = [scores.diagonal(distance) for distance in range(-8, 9)]
    for diagonal in found:
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-12)
    distinct = {round(float(diagonal[0]), 9) for diagonal in found}
    # Those beyond -3 … 3 like the last; as far to the left as to the right.
    assert len(distinct) == {"relative": 7, "alibi": 9, "rotary": 17}[kind]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(1, 40))
def test_attention_does_not_see_how_far_from_the_start_it_is(kind, shift):
    module, x = attention(kind), random(2, 5, 7)
    later = torch.cat([random(2, shift, 7), x], dim=1)
    seen = torch.arange(shift + 5) >= shift
    torch.testing.assert_close(module(later, mask=seen)[:, shift:], module(x), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", [*KINDS, "interleaved"])
@pytest.mark.parametrize("family", ["transformer", "masked"])
def test_only_sinusoids_tell_a_shifted_source_from_the_source(kind, family):
    model, source, target = build(kind, family), ids(2, 6), ids(2, 4)
    shifted = torch.cat([torch.full((2, 9), PAD), source], dim=1)
    if family == "masked":
        difference = (model(shifted)[:, 9:] - model(source)).abs().max()
    else:
        difference = (model(shifted, target) - model(source, target)).abs().max()
    assert difference > 1e-3 if kind == "interleaved" else difference < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_source_counts(kind):
    model, source = build(kind, "masked"), torch.tensor([[4, 5, 6, 7, 8]])
    swapped = torch.tensor([1, 0, 2, 3, 4])
    assert (model(source) - model(source[:, swapped])[:, swapped]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_only_distances_without_direction_do_not_tell_a_source_from_its_mirror(kind):
    model, source = build(kind, "masked"), torch.tensor([[4, 5, 6, 7, 8]])
    difference = (model(source) - model(source.flip(1)).flip(1)).abs().max()
    assert difference < 1e-10 if kind == "alibi" else difference > 1e-3


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 16])
def test_slopes_are_those_of_the_article(heads):
    assert AlibiPositions(heads).slopes == pytest.approx([alibi_slope(head, heads) for head in range(heads)])
    if heads == 8:
        assert AlibiPositions(heads).slopes == [2.0**-n for n in range(1, 9)]


def test_a_narrow_bias_is_the_wide_one_rounded():
    query = torch.zeros(2, 6, 3, 4)
    wide, narrow = (AlibiPositions(6).bias(query.to(kind), 300) for kind in (torch.float32, torch.bfloat16))
    assert narrow.dtype == torch.bfloat16
    assert torch.equal(narrow, wide.bfloat16())


def test_cross_attention_with_positions_tells_where_the_source_stands():
    source, target = ids(2, 6), ids(2, 4)
    shifted = torch.cat([torch.full((2, 9), PAD), source], dim=1)
    moved = {
        kind: (model(shifted, target) - model(source, target)).abs().max()
        for kind, model in ((kind, build(kind)) for kind in ("rotary", "rotary-cross"))
    }
    assert moved["rotary"] < 1e-10 < 1e-3 < moved["rotary-cross"]


# Caches and lengths


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_chunks_with_a_cache_are_the_whole(kind, chunks):
    module, cache, end = attention(kind), GrowingCache(), 0
    x = random(2, sum(chunks), 7)
    whole = module(x, mask=causal_mask(x.shape[1]))
    with torch.no_grad():
        for chunk in chunks:
            start, end = end, end + chunk
            part = module(x[:, start:end], mask=causal_mask(chunk, end), cache=cache)
            assert (part - whole[:, start:end]).abs().max() <= 1e-12


@pytest.mark.parametrize("family", ["transformer", "causal", "masked"])
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_longest_length(kind, family):
    model = build(kind, family, num_encoder_layers=1, num_decoder_layers=1)
    short, long = ids(1, 9), ids(1, 700)
    long[:, :9] = short
    with torch.no_grad():
        model(*[short] * (2 if family == "transformer" else 1))  # tables are built for short texts first
        if family == "masked":
            assert model(long).isfinite().all()
            return
        whole = model(short, long) if family == "transformer" else model(long)
        start = model(short, short) if family == "transformer" else model(short)
    assert whole.isfinite().all()
    torch.testing.assert_close(whole[:, :9], start, rtol=0, atol=1e-12)


# The parts of a model


def test_rotary_and_alibi_add_no_weights_and_relative_one_matrix_a_self_attention():
    kinds = [*KINDS, "rotary-cross", "interleaved"]
    names = {kind: {k: tuple(v.shape) for k, v in build(kind).state_dict().items()} for kind in kinds}
    assert names["rotary"] == names["interleaved"] == names["rotary-cross"] == names["alibi"]
    new = names["relative"].keys() - names["interleaved"].keys()
    layers = [f"{stack}.layers.{i}.self_attention.positions.key" for stack in ("encoder", "decoder") for i in range(2)]
    assert sorted(new) == sorted(layers)
    assert {names["relative"][name] for name in new} == {(7, 6)}


@pytest.mark.parametrize("kind", [*KINDS, "rotary-cross", "interleaved"])
def test_positions_are_in_attention_or_in_the_embedding_never_both(kind):
    model = build(kind)
    inside = kind != "interleaved"
    ends = ("self_attention", "cross_attention") if kind == "rotary-cross" else "self_attention"
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            assert (module.positions is not None) == (inside and name.endswith(ends)), name
    for embedding in (model.source_embedding, model.target_embedding):
        assert (embedding.positions is None) == inside


def test_the_largest_distance_is_a_setting_and_16_by_default():
    config = ModelConfig.from_dict({**SIZES, "target_vocab": 9, "family": "causal", "positions": "relative"})
    for distance in (16, 2):
        model = build_model(config if distance == 16 else config.replace({"relative_distance": 2}))
        rows = model.get_parameter("decoder.layers.0.self_attention.positions.key")
        assert rows.shape == (2 * distance + 1, 6)
        bound = (6 / sum(rows.shape)) ** 0.5
        assert 0.7 * bound < rows.abs().max() <= bound  # Xavier-uniform, as every matrix


def test_a_configuration_without_the_new_settings_is_the_old_model():
    old = ModelConfig.from_dict({**SIZES, "source_vocab": 9, "target_vocab": 9})
    assert (old.with_paper_defaults().positions, old.relative_distance) == ("interleaved", 16)
    assert not [name for name in build_model(old).state_dict() if "positions" in name]


@pytest.mark.parametrize("kind", [*KINDS, "rotary-cross"])
def test_a_saved_model_is_the_same_again(kind, tmp_path: Path):
    tree = {**SIZES, "source_vocab": 20, "target_vocab": 20, "positions": kind, "relative_distance": 3}
    config = ModelConfig.from_dict(tree)
    model = build_model(config).eval()
    save_pretrained(tmp_path, model, config)
    source, target = ids(2, 5), ids(2, 4)
    assert torch.equal(load_pretrained(tmp_path).model(source, target), model(source, target))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="even, got 3"):
        RotaryPositions(3)
    with pytest.raises(ValueError, match="at least 1"):
        RelativePositions(4, 0)
    with pytest.raises(ConfigError, match="even, not 3"):
        ModelConfig(d_model=12, num_heads=2).replace({"positions": "rotary", "d_k": 3})
    with pytest.raises(ConfigError, match="even, not 3"):
        ModelConfig(d_model=12, num_heads=2).replace({"positions": "rotary-cross", "d_k": 3})
    with pytest.raises(ConfigError, match="causal model has no cross-attention"):
        ModelConfig(family="causal").replace({"positions": "rotary-cross"})
    for kind, name in (("relative", "RelativePositions"), ("alibi", "AlibiPositions")):
        with pytest.raises(ValueError, match=f"{name} are for self-attention"):
            attention(kind)(random(1, 2, 7), random(1, 3, 7))


@pytest.mark.parametrize(
    ("kind", "family", "heads", "least"),
    # ALiBi's scores fall slowly: what is before is told from what is before that by several heads together.
    [*((kind, "masked", 2, 0.97) for kind in TELLING), ("alibi", "causal", 8, 0.8)],
)
def test_an_order_that_a_bag_of_words_hides_is_learned(kind, family, heads, least):
    """Each label is the token before: what no model without positions can know."""
    torch.manual_seed(0)
    sizes = {"target_vocab": 12, "num_heads": heads, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0}
    sizes |= {"d_model": max(16, 4 * heads), "d_ff": 2 * max(16, 4 * heads)}
    model = build_model(ModelConfig.from_dict({**sizes, "family": family, "positions": kind}))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        x = torch.randint(4, 12, (32, 8))
        loss = torch.nn.functional.cross_entropy(model(x)[:, 1:].flatten(0, 1), x[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x = torch.randint(4, 12, (64, 24))  # three times as long as those it learned from
    right = (model(x)[:, 1:].argmax(-1) == x[:, :-1]).double().mean()
    assert right > least


def test_padding_behind_a_text_changes_nothing():
    for kind in KINDS:
        module, x = attention(kind), random(2, 6, 7)
        mask = padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6]), pad=0)
        together = module(x, mask=mask)
        assert (together[:1, :4] - module(x[:1, :4])).abs().max() <= 1e-12
