"""Shape arithmetic equals what built models are, weigh and compute."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.inspection import Plan, explain_config, read_model_config
from dragoman.inspection.agreement import parallel_logits
from dragoman.models import build_model, count_parameters
from dragoman.nn import CausalLM, Transformer
from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides
from end_to_end import small

SMALL = {"source_vocab": 30, "target_vocab": 30, "d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 2}
CONFIGS = {
    "pre": {"num_decoder_layers": 3},
    "post, tied": {"norm": "post", "tie_embeddings": "all", "num_decoder_layers": 1, "generator_bias": True},
    "d_k and d_v": {"d_k": 7, "d_v": 5, "num_heads": 3, "bias": False, "tie_embeddings": "decoder"},
    "causal": {"family": "causal", "num_decoder_layers": 2, "tie_embeddings": "decoder"},
    "masked": {"family": "masked", "norm": "post"},
    "no layers": {"num_encoder_layers": 0, "num_decoder_layers": 0},
}
BATCH, SRC, TGT = 2, 5, 4


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    return ModelConfig.from_dict({**SMALL, **CONFIGS[request.param]}).with_paper_defaults()


@pytest.fixture
def plan(config: ModelConfig) -> Plan:
    return explain_config(config, src=SRC, tgt=TGT, batch=BATCH)


def test_parameters_are_those_of_the_built_model(config: ModelConfig, plan: Plan) -> None:
    model = build_model(config)
    assert plan.total == count_parameters(model)
    assert plan.memory["weights, float32"] == 4 * plan.total
    names = dict(model.named_parameters())
    for one in plan.parameters:
        assert tuple(names[one.name.replace(".layers.*.", ".layers.0.")].shape) == one.shape
        sizes = {**plan.sizes, "heads": plan.sizes["num_heads"]}
        sizes |= {"heads·d_v": sizes["heads"] * sizes["d_v"], "vocab": 30}
        sizes["heads·(2·d_k+d_v)"] = sizes["heads"] * (2 * sizes["d_k"] + sizes["d_v"])
        assert tuple(sizes[dim] for dim in one.dims) == one.shape
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert set(plan.tied) == every - names.keys()


def test_shapes_are_those_of_a_real_pass(config: ModelConfig, plan: Plan) -> None:
    model = build_model(config).eval()
    source, target = torch.ones(BATCH, SRC, dtype=torch.long), torch.ones(BATCH, TGT, dtype=torch.long)
    with torch.no_grad(), captured(model) as calls:
        if isinstance(model, Transformer):
            model(source, target)
        else:
            model(target if isinstance(model, CausalLM) else source)
    sides = Sides(config.family, tuple("abcde"), tuple("fghi"))
    expected = [(stage.name, stage.size) for stage in find_stages(model, calls, sides)]
    assert [(stage.name, stage.size) for stage in plan.stages] == expected


def test_multiply_adds_are_those_that_pytorch_counts(config: ModelConfig, plan: Plan) -> None:
    model = build_model(config).eval()
    source, target = torch.ones(BATCH, SRC, dtype=torch.long), torch.ones(BATCH, TGT, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, captured(model):  # observed: plain products instead of a kernel
        if isinstance(model, Transformer):
            model(source, target)
        else:
            model(target if isinstance(model, CausalLM) else source)
    assert 2 * sum(cost.count for cost in plan.costs) == counter.get_total_flops()
    if plan.step is None:
        return
    assert isinstance(model, (Transformer, CausalLM))
    with torch.no_grad():
        state = model.start(source) if isinstance(model, Transformer) else model.start()
        for _ in range(TGT - 1):
            model.step(state, target[:, 0])
        with FlopCounterMode(display=False) as counter, captured(model):
            model.step(state, target[:, 0])
    assert 2 * plan.step == counter.get_total_flops()


def test_the_cache_is_as_large_as_it_is() -> None:
    config = ModelConfig.from_dict({**SMALL, "num_decoder_layers": 3, "d_k": 6, "d_v": 4})
    model = build_model(config)
    assert isinstance(model, Transformer)
    state = model.eval().start(torch.ones(BATCH, SRC, dtype=torch.long))
    bytes_ = sum(4 * (layer.cross.key.numel() + layer.cross.value.numel()) for layer in state.layers if layer.cross)
    memory = explain_config(config, src=SRC, tgt=TGT, batch=BATCH).memory
    assert memory["cache: keys and values of the memory, float32"] == bytes_
    assert memory["cache: keys and values of each target position, float32"] * SRC == bytes_
    maps = 4 * BATCH * 2 * (2 * SRC * SRC + 3 * TGT * TGT + 3 * TGT * SRC)
    assert memory["attention maps of all layers and heads, float32"] == maps


def test_the_papers_models() -> None:
    base, big = (explain_config(read_model_config([name])) for name in ("base", "big"))
    with torch.device("meta"):
        assert base.total == count_parameters(build_model(base.config))
    # Table 3 says 65 and 213 million; it counts a vocabulary of which the paper says "about 37,000".
    assert base.total == pytest.approx(65e6, rel=0.05)
    assert big.total == pytest.approx(213e6, rel=0.05)
    assert (big.sizes["d_model"], big.sizes["num_heads"], big.sizes["d_ff"]) == (1024, 16, 4096)


def test_a_second_decoder_is_counted_and_told() -> None:
    both = {"right_to_left": True, "right_to_left_decoder": "own"}
    one, two = (explain_config(ModelConfig.from_dict({**SMALL, **ends})) for ends in ({}, both))
    decoder = sum(part.count for part in one.parameters if part.name.startswith("decoder."))
    assert two.total - one.total == decoder > 0
    assert (two.costs, two.stages, two.step) == (one.costs, one.stages, one.step)
    assert ("the right-to-left decoder" in " ".join(two.notes), one.notes) == (True, ())


def test_large_sizes_cost_nothing() -> None:
    plan = explain_config(
        ModelConfig(d_model=16384, source_vocab=500_000, target_vocab=500_000), src=100_000, tgt=100_000
    )
    scores = next(stage for stage in plan.stages if stage.name.endswith("self_attention.scores"))
    assert scores.size == "[batch=1, heads=8, src=100000, src=100000]"


@pytest.mark.parametrize(
    ("positions", "part", "told"),
    [("interleaved", "scores", ""), ("rotary", "query", "rotated"), ("relative", "scores", "vector of each distance"),
     ("alibi", "scores", "distance times minus the slope")],
)  # fmt: skip
def test_what_attention_does_about_positions_is_told(positions: str, part: str, told: str) -> None:
    plain, plan = (explain_config(ModelConfig.from_dict({**SMALL, "positions": p})) for p in ("interleaved", positions))
    for side in ("encoder", "decoder"):
        name = f"{side}.layers.0.self_attention.{part}"
        what, without = (
            next(stage.what for stage in one.stages if stage.name == name) for one in (plan, plain)
        )  # the sentence in question, and the one without
        assert told in what
        assert (what == without) == (positions == "interleaved")


def test_configurations_from_their_parts(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("[model]\nd_model = 32\nnum_heads = 4\n[training]\nmax_steps = 5\n", encoding="utf-8")
    found = read_model_config([str(file), "num_heads=2", "family=masked"])
    assert (found.d_model, found.num_heads, found.family) == (32, 2, "masked")
    assert read_model_config(["big", "norm=pre"]).norm == "pre"
    folder = small.saved(tmp_path / "model", small.word_pair())
    assert read_model_config([str(folder)]).d_model == 16
    assert "the paper's 37,000" in explain_config(ModelConfig(d_model=64, num_heads=2)).notes[0]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["bse"], "no such configuration"),
        (["d_modl=3"], "did you mean 'model.d_model'"),
        (["hidden_size=3"], "'hidden_size' is called 'model.d_model' here"),
        (["max_steps=3"], "only settings of the model"),
        (["d_model=10", "num_heads=3"], "does not divide"),
    ],
)
def test_wrong_configurations(items: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_model_config(items)
    assert message in str(caught.value)


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        explain_config(ModelConfig(), src=0)
    with pytest.raises(ConfigError, match="at most 65,536"):
        explain_config(ModelConfig(d_model=10**9, num_heads=1))
    with pytest.raises(ConfigError, match="Markov"):
        explain_config(ModelConfig(family="first-order"))


def test_lines_tell_sizes_totals_and_ties(plan: Plan) -> None:
    text = "\n".join(plan.lines())
    assert f"{plan.total:,} parameters" in text
    assert "batch=2" in text
    for other in plan.tied:
        assert f"{other} is " in text
    assert plan.to_dict()["parameters"]["total"] == plan.total
    ids = parallel_logits(build_model(plan.config).eval(), *(torch.ones(1, 2, dtype=torch.long) for _ in "ab"))
    assert ids.shape[-1] == 30
