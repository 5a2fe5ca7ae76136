"""The three families: masks, caches and teacher forcing, in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import ModelConfig
from dragoman.models import build_model

PAD = 0
shapes = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["pre", "post"]),
        "activation": st.sampled_from(["relu", "gelu", "silu"]),
        "tie_embeddings": st.sampled_from(["none", "decoder", "all"]),
        "positions": st.sampled_from(["interleaved", "concatenated", "rotary", "rotary-cross", "relative", "alibi"]),
        "relative_distance": st.sampled_from([1, 3, 16]),
        "num_encoder_layers": st.integers(1, 2),
        "num_decoder_layers": st.integers(1, 2),
        "d_k": st.sampled_from([None, 3, 4]),
        "d_v": st.sampled_from([None, 5]),
        "bias": st.booleans(),
        "generator_bias": st.booleans(),
    }
).filter(lambda shape: not shape["positions"].startswith("rotary") or shape["d_k"] != 3)
inside = pytest.mark.parametrize("positions", ["interleaved", "rotary", "relative", "alibi"])


def build(family: str = "transformer", **settings):
    torch.manual_seed(settings.pop("seed", 0))
    config = ModelConfig.from_dict(
        {
            "family": family,
            "source_vocab": 20,
            "target_vocab": 20,
            "d_model": 12,
            "num_heads": 2,
            "d_ff": 16,
            **settings,
        }
    )
    return build_model(config.with_paper_defaults()).double().eval()


def ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, 20, (rows, length))


@settings(max_examples=30)
@given(shapes, st.integers(0, 1000))
def test_parallel_teacher_forcing_equals_cached_steps(shape, seed):
    model = build(seed=seed, **shape)
    source, target = ids(3, 6), ids(3, 20)
    source[1, 3:] = PAD
    parallel = model(source, target).log_softmax(-1)
    with torch.no_grad():
        state = model.start(source)
        serial = torch.stack([model.step(state, target[:, i]).log_softmax(-1) for i in range(20)], dim=1)
    assert (parallel - serial).abs().max() <= 1e-10


@inside
def test_a_decoder_only_model_steps_as_it_was_trained(positions):
    model = build("causal", num_decoder_layers=2, positions=positions, relative_distance=4)
    target = ids(2, 20)
    with torch.no_grad():
        state = model.start()
        serial = torch.stack([model.step(state, target[:, i]) for i in range(20)], dim=1)
    assert (model(target) - serial).abs().max() <= 1e-10


@inside
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_reordered_state_goes_on_as_the_rows_it_kept(norm, positions):
    model = build(norm=norm, num_encoder_layers=1, num_decoder_layers=2, positions=positions, relative_distance=2)
    source, target = ids(3, 5), ids(3, 7)
    source[2, 2:] = PAD
    keep = torch.tensor([2, 0, 2, 2])
    with torch.no_grad():
        state = model.start(source)
        for i in range(3):
            model.step(state, target[:, i])
        state = state.reorder(keep)
        for i in range(3, 7):
            logits = model.step(state, target[keep, i])
    assert (logits - model(source, target)[keep, -1]).abs().max() <= 1e-10


@settings(max_examples=20)
@given(shapes, st.integers(1, 8))
def test_a_future_token_changes_nothing_before_it(shape, place):
    model = build(**shape)
    source, target = ids(2, 5), ids(2, 9)
    changed = target.clone()
    changed[:, place] = (changed[:, place] - 4 + 1) % 16 + 4
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place:], after[:, place:]), "the changed token itself must count"


@settings(max_examples=20)
@given(shapes)
def test_padding_and_batch_mates_change_nothing(shape):
    model = build(**shape)
    source, target = ids(3, 8), ids(3, 6)
    source[0, 4:], target[0, 3:] = PAD, PAD
    together = model(source, target)[0, :3]
    alone = model(source[:1, :4], target[:1, :3])[0]
    assert (together - alone).abs().max() <= 1e-12


@inside
def test_a_masked_model_sees_both_sides_but_no_padding(positions):
    model = build("masked", num_encoder_layers=2, positions=positions)
    source = ids(2, 6)
    source[0, 4:] = PAD
    assert (model(source)[0, :4] - model(source[:1, :4])[0]).abs().max() <= 1e-12
    changed = source.clone()
    changed[1, 5] = (changed[1, 5] - 4 + 1) % 16 + 4
    assert not torch.equal(model(source)[1, 0], model(changed)[1, 0])


def test_three_way_tying_leaves_one_matrix():
    tied = build(tie_embeddings="all", num_encoder_layers=1, num_decoder_layers=1)
    assert tied.generator.weight is tied.target_embedding.tokens.weight is tied.source_embedding.tokens.weight
    free = build(tie_embeddings="none", num_encoder_layers=1, num_decoder_layers=1)
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, free)]
    assert count[1] - count[0] == 2 * 20 * 12


def test_shapes_are_checked_in_tests():
    model = build()
    with pytest.raises(Exception, match=r"(?i)type"):
        model(ids(2, 5), ids(2, 5)[0])
    with pytest.raises(Exception, match=r"(?i)type"):
        model(ids(2, 5), ids(2, 5), torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize("targets", [1, 3, 4])
def test_each_source_has_one_target(targets):
    model = build()
    with pytest.raises(ValueError, match=f"each source needs a target, got 2 sources and {targets} targets"):
        model.hidden(ids(2, 5), ids(targets, 5))


@settings(max_examples=20)
@given(shapes)
def test_masks_given_are_masks_derived(shape):
    model = build(**shape)
    source, target = ids(3, 8), ids(3, 6)
    source[0, 4:], target[0, 3:] = PAD, PAD
    masks = source != PAD, target != PAD
    assert torch.equal(model(source, target, *masks), model(source, target))
    assert torch.equal(model.encode(source, masks[0])[0], model.encode(source)[0])
    states = model.start(source, masks[0]), model.start(source)
    assert torch.equal(*(model.step(state, target[:, 0]) for state in states))


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_a_mask_given_to_a_model_of_one_text_is_the_one_derived(family):
    model, text = build(family), ids(3, 8)
    text[0, 4:] = PAD
    assert torch.equal(model(text, text != PAD), model(text))


def test_a_mask_says_what_is_padding_whatever_the_ids_are():
    model = build()
    source, target = ids(2, 8), ids(2, 6)
    source[:, 2], target[:, 3] = PAD, PAD  # in the middle: a token of a vocabulary that pads with another id
    source[1, 5:], target[1, 5:] = 7, 7  # what that one pads with
    masks = torch.ones(2, 8, dtype=torch.bool), torch.ones(2, 6, dtype=torch.bool)
    masks[0][1, 5:], masks[1][1, 5:] = False, False
    found = model(source, target, *masks)
    alone = model(source[1:, :5], target[1:, :5], masks[0][1:, :5], masks[1][1:, :5])
    assert (found[1:, :5] - alone).abs().max() <= 1e-12
    changed = source.clone()
    changed[:, 2] = 9
    assert not torch.allclose(model(changed, target, *masks), found), "the token with that id is read"
    assert not torch.allclose(model(source, target), found)
