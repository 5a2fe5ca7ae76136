"""The blueprint of a configuration and that of the module built from it are one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.models import NotPlain, blueprint_of, build_model, count_parameters, read_blueprint
from dragoman.models.blueprint import count_numbers, halves, parameters, places
from dragoman.models.reading import describe
from dragoman.nn import CausalLM, MaskedLM, Transformer
from dragoman.profiles.parts import ScaledEmbedding

SIZES = {"source_vocab": 11, "target_vocab": 11, "d_model": 8, "num_heads": 2, "d_ff": 12}


@st.composite
def configs(draw: st.DrawFn) -> dict[str, object]:
    """Plain values: the check of types, which runs while a configuration is made, draws lots too."""
    family = draw(st.sampled_from(["transformer", "causal", "masked"]))
    pairs = family == "transformer"
    kinds = ["interleaved", "concatenated", "rotary", "relative", "alibi", *(["rotary-cross"] if pairs else [])]
    two = pairs and draw(st.booleans())
    return {
        **SIZES, "family": family, "norm": draw(st.sampled_from(["pre", "post"])),
        "tie_embeddings": draw(st.sampled_from(["none", "decoder", "all"])),
        "positions": draw(st.sampled_from(kinds)), "bias": draw(st.booleans()), "generator_bias": draw(st.booleans()),
        "d_k": draw(st.sampled_from([None, 6])), "d_v": draw(st.sampled_from([None, 3])),
        "num_encoder_layers": draw(st.integers(1, 2)), "num_decoder_layers": draw(st.integers(1, 2)),
        "activation": draw(st.sampled_from(["relu", "gelu", "silu"])), "relative_distance": draw(st.integers(1, 4)),
        "norm_eps": draw(st.sampled_from([1e-5, 1e-3])), "right_to_left": two or None,
        "right_to_left_decoder": "own" if two else None,
    }  # fmt: skip


@settings(max_examples=60)
@given(drawn=configs())
def test_the_module_has_exactly_what_its_configuration_says(drawn: dict[str, object]) -> None:
    config = ModelConfig.from_dict(drawn)
    model, blueprint = build_model(config), blueprint_of(config)
    named = {name: tuple(one.shape) for name, one in model.named_parameters(remove_duplicate=False)}
    assert [(place.name, place.shape) for place in places(blueprint)] == list(named.items())
    assert [place.name for place in parameters(blueprint)] == [name for name, _ in model.named_parameters()]
    assert count_numbers(blueprint) == count_parameters(model)
    assert set(blueprint.tied) == named.keys() - {name for name, _ in model.named_parameters()}
    assert all(len(place.dims) == len(place.shape) for place in places(blueprint))
    for stack in ("encoder", "decoder"):
        if hasattr(model, stack):
            assert count_numbers(blueprint, stack) == count_parameters(getattr(model, stack))


@settings(max_examples=60)
@given(drawn=configs())
def test_the_module_tells_the_same_blueprint(drawn: dict[str, object]) -> None:
    config = ModelConfig.from_dict(drawn)
    model, planned = build_model(config), blueprint_of(config)
    found = describe(model)
    assert places(found) == places(planned)
    assert (found.shape, found.scheme, found.tied) == (planned.shape, planned.scheme, planned.tied)
    assert [one.scale for one in found.embeddings] == [one.scale for one in planned.embeddings]
    for one, other in zip(found.stacks, planned.stacks, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert [norm.eps for norm in one.norms()] == [norm.eps for norm in other.norms()]


@settings(max_examples=30)
@given(drawn=configs())
def test_weights_are_those_of_the_module_not_copies(drawn: dict[str, object]) -> None:
    config = ModelConfig.from_dict(drawn)
    model = build_model(config)
    filled = read_blueprint(model)
    weights = dict(model.named_parameters(remove_duplicate=False))
    assert filled.generator.weight.data_ptr() == weights["generator.weight"].data_ptr()
    for name, stack in (("encoder", filled.encoder), ("decoder", filled.decoder)):
        for i, layer in enumerate(stack.layers if stack else ()):
            whole = weights[f"{name}.layers.{i}.self_attention.projection.weight"]
            queries = filled.shape.heads * filled.shape.d_k
            first, rest = halves(layer.self_attention.projection, queries)
            assert torch.equal(torch.cat([first.weight, rest.weight]), whole)
            assert first.weight.shape[0] == queries
            assert first.weight.data_ptr() == whole.data_ptr()


def test_what_reads_from_the_right_is_another_decoder_or_the_model_itself() -> None:
    one = blueprint_of(ModelConfig.from_dict({**SIZES, "right_to_left": True}))
    assert one.from_the_right() is one
    two = blueprint_of(ModelConfig.from_dict({**SIZES, "right_to_left": True, "right_to_left_decoder": "own"}))
    other = two.from_the_right()
    assert other.right_to_left is None
    assert other.decoder is two.right_to_left
    names = [place.name.removeprefix("right_to_left_") for place in places(other)]
    assert sorted(names) == sorted(place.name for place in places(one))


def test_weights_that_do_not_fit_are_told_by_name() -> None:
    blueprint = blueprint_of(ModelConfig.from_dict({**SIZES, "tie_embeddings": "all", "num_encoder_layers": 1}))
    same = torch.zeros(11, 8)
    whole = {place.name: torch.zeros(place.shape) for place in places(blueprint)}
    whole |= dict.fromkeys((*blueprint.tied, *blueprint.tied.values()), same)
    assert blueprint.with_weights(whole).source.rows is same
    name = "encoder.layers.0.feed_forward.inner.bias"
    for spoilt, told in (
        ({key: one for key, one in whole.items() if key != name}, f"there is no {name}"),
        ({**whole, name: torch.zeros(3)}, rf"{name} has the shape \(3,\), not \(12,\)"),
        ({**whole, "more": torch.zeros(3)}, "more has no place"),
        ({**whole, "generator.weight": torch.zeros(11, 8)}, "generator.weight is not source_embedding.tokens.weight"),
    ):
        with pytest.raises(NotPlain, match=told):
            blueprint.with_weights(spoilt)


def test_models_that_are_counted_or_have_no_vocabulary_have_none() -> None:
    with pytest.raises(ConfigError, match="a Markov model has no layers"):
        blueprint_of(ModelConfig(family="first-order"))
    with pytest.raises(ConfigError, match="needs source_vocab and target_vocab"):
        blueprint_of(ModelConfig())


def small(**changes: object) -> Transformer | CausalLM | MaskedLM:
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_model(ModelConfig.from_dict({**SIZES, **layers, **changes}))


def test_factors_of_another_system_are_in_its_blueprint() -> None:
    model = small()
    assert isinstance(model, Transformer)
    model.source_embedding.tokens = ScaledEmbedding(11, 8, 3.0, 0)
    assert [one.scale for one in describe(model).embeddings] == [3.0, 8**0.5]


def test_a_norm_without_weights_is_one() -> None:
    model = small(norm="pre")
    model.decoder.norm = nn.LayerNorm(8, 1e-3, elementwise_affine=False)
    end = read_blueprint(model).decoder.end
    assert (end.weight, end.bias, end.eps) == (None, None, 1e-3)


def test_it_needs_no_pytorch() -> None:
    script = (
        "import sys; from dragoman.config import ModelConfig; from dragoman.models import blueprint_of\n"
        "from dragoman.models.blueprint import count_numbers\n"
        "print(count_numbers(blueprint_of(ModelConfig(source_vocab=9, target_vocab=9))))\n"
        "print([name for name in ('torch', 'numpy', 'jaxtyping') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    with torch.device("meta"):
        expected = count_parameters(build_model(ModelConfig(source_vocab=9, target_vocab=9)))
    assert done.stdout.splitlines() == [str(expected), "[]"]
