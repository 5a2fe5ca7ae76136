"""What a configuration builds: counted by hand, tied as asked, every size the paper's unless given."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.models import build_model, count_parameters
from dragoman.nn import CausalLM, MaskedLM, PostNorm, PreNorm, Transformer


def by_hand(c: ModelConfig) -> int:
    """The number of parameters, from the shapes in the paper."""
    d, h = c.d_model, c.num_heads
    d_k, d_v = c.d_k or d // h, c.d_v or d // h
    attention = 2 * d * h * d_k + d * h * d_v + h * d_v * d
    if c.bias:
        attention += 2 * h * d_k + h * d_v + d
    feed_forward = d * c.d_ff + c.d_ff + c.d_ff * d + d
    norm = 2 * d
    encoder = c.num_encoder_layers * (attention + feed_forward + 2 * norm)
    attentions = 2 if c.family == "transformer" else 1
    decoder = c.num_decoder_layers * (attentions * attention + feed_forward + (attentions + 1) * norm)
    last = norm if c.norm == "pre" else 0
    source, target = c.source_vocab * d, c.target_vocab * d
    generator = (0 if c.tie_embeddings != "none" else target) + (c.target_vocab if c.generator_bias else 0)
    if c.family == "causal":
        return target + decoder + last + generator
    if c.family == "masked":
        return target + encoder + last + generator
    embeddings = target if c.tie_embeddings == "all" else source + target
    decoders = 2 if c.right_to_left and c.right_to_left_decoder == "own" else 1
    return embeddings + encoder + last + decoders * (decoder + last) + generator


shapes = st.fixed_dictionaries(
    {
        "family": st.sampled_from(["transformer", "causal", "masked"]),
        "d_model": st.sampled_from([8, 12]),
        "num_heads": st.sampled_from([1, 2, 4]),
        "d_ff": st.integers(1, 20),
        "num_encoder_layers": st.integers(0, 3),
        "num_decoder_layers": st.integers(0, 3),
        "d_k": st.sampled_from([None, 3]),
        "d_v": st.sampled_from([None, 5]),
        "norm": st.sampled_from(["pre", "post"]),
        "tie_embeddings": st.sampled_from(["none", "decoder", "all"]),
        "bias": st.booleans(),
        "generator_bias": st.booleans(),
        "right_to_left_decoder": st.sampled_from(["shared", "own"]),
    }
)


@settings(max_examples=60)
@given(shapes)
def test_parameters_are_as_many_as_counted_by_hand(shape: dict[str, object]) -> None:
    sizes = {"source_vocab": 11, "target_vocab": 11 if shape["tie_embeddings"] == "all" else 13}
    ends = {"right_to_left": True} if shape["family"] == "transformer" else {"right_to_left_decoder": "shared"}
    config = ModelConfig.from_dict({**shape, **sizes, **ends})
    assert count_parameters(build_model(config)) == by_hand(config)


@pytest.mark.parametrize(("norm", "parameters"), [("post", 63_082_496), ("pre", 63_084_544)])
def test_the_papers_base_model_has_63_million(norm: str, parameters: int) -> None:
    config = ModelConfig(source_vocab=37_000, target_vocab=37_000, norm=norm, tie_embeddings="all")
    with torch.device("meta"):
        model = build_model(config)
    assert count_parameters(model) == by_hand(config.with_paper_defaults()) == parameters


def test_sizes_left_open_are_table_3_and_those_given_stay() -> None:
    filled = ModelConfig(source_vocab=9, target_vocab=9).with_paper_defaults()
    layers = (filled.num_encoder_layers, filled.num_decoder_layers)
    assert (filled.d_model, filled.num_heads, filled.d_ff, *layers, filled.dropout) == (512, 8, 2048, 6, 6, 0.1)
    assert filled.tie_embeddings == "none"
    some = ModelConfig(d_model=64, num_decoder_layers=0, dropout=0.0, tie_embeddings="decoder").with_paper_defaults()
    assert (some.d_model, some.num_decoder_layers, some.dropout, some.tie_embeddings) == (64, 0, 0.0, "decoder")
    assert some.d_ff == 2048


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_what_is_tied_is_one_parameter(tie: str) -> None:
    model = build_model(ModelConfig(**tiny(), tie_embeddings=tie))
    assert isinstance(model, Transformer)
    source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    assert (model.generator.weight is target) == (tie != "none")
    assert (source is target) == (tie == "all")
    model.generator.weight.data[5, 0] = 17.0
    assert (target[5, 0] == 17.0) == (tie != "none")
    assert (source[5, 0] == 17.0) == (tie == "all")


def tiny() -> dict[str, int]:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return {"source_vocab": 30, "target_vocab": 30, **sizes}


@pytest.mark.parametrize(("family", "kind"), [("transformer", Transformer), ("causal", CausalLM), ("masked", MaskedLM)])
def test_each_family_gives_logits_over_the_target_vocabulary(family: str, kind: type) -> None:
    model = build_model(ModelConfig(**{**tiny(), "source_vocab": 9, "target_vocab": 30}, family=family))
    assert isinstance(model, kind)
    ids = torch.randint(4, 9, (2, 5))
    logits = model(ids, ids[:, :3]) if family == "transformer" else model(ids)
    assert logits.shape == (2, 3 if family == "transformer" else 5, 30)


def test_norms_stand_where_they_were_asked_for() -> None:
    for norm, kind, last in (("pre", PreNorm, True), ("post", PostNorm, False)):
        model = build_model(ModelConfig(**tiny(), norm=norm, norm_eps=1e-3))
        assert isinstance(model, Transformer)
        residuals = [module for module in model.modules() if isinstance(module, (PreNorm, PostNorm))]
        assert {type(one) for one in residuals} == {kind}
        assert len(residuals) == 2 * 2 + 2 * 3
        assert all(one.norm.eps == 1e-3 for one in residuals)
        assert [isinstance(stack.norm, torch.nn.LayerNorm) for stack in (model.encoder, model.decoder)] == [last, last]


def test_matrices_start_xavier_uniform_and_biases_at_zero() -> None:
    config = ModelConfig(source_vocab=2000, target_vocab=2000, d_model=64, num_heads=4, d_ff=256, generator_bias=True)
    model = build_model(config)
    assert isinstance(model, Transformer)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.abs().max() == 0, name
    first = model.encoder.layers[0]
    for parameter in (first.feed_forward.inner.weight, *first.self_attention.projection.weight.split(64)):
        matrix = parameter.detach()
        bound = math.sqrt(6 / sum(matrix.shape))
        assert float(matrix.abs().max()) <= bound
        assert float(matrix.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
    table = model.source_embedding.tokens.weight.detach()
    assert float(table[1:].std()) == pytest.approx(1 / 8, rel=0.02)
    assert table[0].abs().max() == 0


def test_the_seed_decides_the_weights() -> None:
    def weights(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        return list(build_model(ModelConfig(**tiny())).state_dict().values())

    assert all(torch.equal(one, other) for one, other in zip(weights(1), weights(1), strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(weights(1), weights(2), strict=True))


@pytest.mark.parametrize(
    ("given_sizes", "missing"),
    [
        ({"source_vocab": 9}, "target_vocab"),
        ({"target_vocab": 9}, "source_vocab"),
        ({}, "source_vocab and target_vocab"),
        ({"family": "causal", "source_vocab": 9}, "target_vocab"),
    ],
)
def test_a_missing_vocabulary_is_named(given_sizes: dict[str, object], missing: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(ModelConfig.from_dict(given_sizes))
    assert caught.value.message == f"a model needs {missing}"


def test_depth_scaled_matrices_shrink_with_the_root_of_their_layers_number() -> None:
    plain = {"source_vocab": 9, "target_vocab": 9, "d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 4}
    models = []
    for init in ("xavier", "depth-scaled"):
        torch.manual_seed(3)
        models.append(dict(build_model(ModelConfig.from_dict({**plain, "init": init})).named_parameters()))
    for name, parameter in models[0].items():
        stack, _, rest = name.partition(".layers.")
        in_layer = stack in ("encoder", "decoder") and rest and parameter.dim() > 1
        factor = (1 + int(rest.split(".")[0])) ** -0.5 if in_layer else 1.0
        torch.testing.assert_close(models[1][name], factor * parameter)


@pytest.mark.parametrize(("init", "reaches"), [("xavier", False), ("depth-scaled", True)])
def test_the_gradient_reaches_the_first_of_many_post_norm_layers_when_depth_scaled(init: str, reaches: bool) -> None:
    torch.manual_seed(1)
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 2, "num_decoder_layers": 12}
    config = ModelConfig.from_dict(
        {"source_vocab": 50, "target_vocab": 50, "norm": "post", "init": init, "dropout": 0.0, **sizes}
    )
    model = build_model(config)
    assert isinstance(model, Transformer)
    source, target = (torch.randint(4, 50, (8, 10)) for _ in range(2))
    model(source, target).log_softmax(-1)[..., 7].sum().backward()
    first, last = (
        sum(float(part.grad.norm()) for part in layer.parameters() if part.grad is not None)
        for layer in (model.decoder.layers[0], model.decoder.layers[-1])
    )
    assert (first > 0.5 * last) is reaches
    assert (first < 0.1 * last) is not reaches
