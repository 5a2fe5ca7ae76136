"""Which engine runs a model, and why."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.config import ModelConfig, Placement
from dragoman.engines import ModuleEngine, NativeEngine, PackedEngine, choose_engine
from dragoman.engines.native import engine as native_engine
from dragoman.engines.native import load_library
from dragoman.errors import ConfigError
from dragoman.models import NotPlain, blueprint_of, build_model, read_blueprint
from dragoman.nn import SinusoidalPositions, Transformer

LIBRARY = load_library()
needs_library = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


def small(**changes: object) -> Transformer:
    sizes = {
        "source_vocab": 11, "target_vocab": 11, "d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1,
        "num_decoder_layers": 1,
    }  # fmt: skip
    model = build_model(ModelConfig.from_dict({**sizes, **changes}))
    assert isinstance(model, Transformer)
    return model


@needs_library
def test_the_native_engine_runs_what_it_can() -> None:
    engine, reason = choose_engine(small())
    assert isinstance(engine, NativeEngine)
    assert "compiled" in reason
    assert engine.precision in reason
    assert choose_engine(small(), Placement(precision="float32"))[0].precision == "float32"
    assert choose_engine(small(), Placement(engine="native", precision="int8"))[0].precision == "int8"


def test_without_a_library_the_same_runs_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "load_library", lambda: "it was left out")
    engine, reason = choose_engine(small())
    assert isinstance(engine, PackedEngine)
    assert "it was left out" in reason
    assert type(choose_engine(small(), Placement(precision="float32"))[0]) is ModuleEngine
    assert choose_engine(small(), Placement(engine="packed", precision="int8"))[0].precision == "int8"


def test_the_environment_can_leave_the_library_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_NO_NATIVE", "1")
    assert load_library.__wrapped__() == "DRAGOMAN_NO_NATIVE is set"


def test_a_missing_library_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from dragoman.engines.native import build

    monkeypatch.delenv("DRAGOMAN_NO_NATIVE", raising=False)
    monkeypatch.setattr(build, "library_path", lambda: tmp_path / "none.so")
    assert "python -m dragoman.engines.native.build" in str(load_library.__wrapped__())
    (tmp_path / "none.so").write_bytes(b"no library")
    assert "does not load" in str(load_library.__wrapped__())


def test_the_modules_run_when_asked_for() -> None:
    engine, reason = choose_engine(small(), Placement(engine="module"))
    assert (type(engine), reason) == (ModuleEngine, "asked for")


class Doubled(nn.LayerNorm):
    """A norm that no engine knows."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def strange_norm(model: Transformer) -> None:
    model.decoder.layers[0].feed_forward_residual.norm = Doubled(8)


def strange_activation(model: Transformer) -> None:
    model.encoder.layers[0].feed_forward.activation = torch.tanh


def strange_weights(model: Transformer) -> None:
    model.decoder.layers[0].cross_attention.weigh = lambda scores, mask: scores.softmax(-1)


def strange_type(model: Transformer) -> None:
    model.double()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (strange_norm, "a norm is a Doubled"),
        (strange_activation, "activation"),
        (strange_weights, "weighs in its own way"),
        (strange_type, "not float32"),
    ],
)
def test_parts_that_are_not_known_are_left_to_their_modules(spoil, told: str) -> None:
    model = small()
    spoil(model)
    with pytest.raises(NotPlain, match=told):
        read_blueprint(model)
    engine, reason = choose_engine(model)
    assert type(engine) is ModuleEngine
    assert told in reason
    with pytest.raises(ConfigError, match="cannot run this model"):
        choose_engine(model, Placement(engine="packed"))
    with pytest.raises(ConfigError, match="do not run in int8"):
        choose_engine(model, Placement(precision="int8"))


@pytest.mark.parametrize("engine", [NativeEngine, PackedEngine])
def test_an_engine_says_by_itself_what_it_runs(engine: type[ModuleEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "load_library", lambda: None)
    sizes = {"source_vocab": 9, "target_vocab": 9, "d_model": 8, "num_heads": 2, "d_ff": 8}
    told = {}
    for family in ("transformer", "causal", "masked"):
        for positions in ("interleaved", "concatenated", "marian", "fairseq", "rotary", "relative", "alibi"):
            config = ModelConfig.from_dict({**sizes, "family": family, "positions": positions})
            told[family, positions] = engine.supports(blueprint_of(config))
            assert ModuleEngine.supports(blueprint_of(config)) is None
    for (family, positions), why_not in told.items():
        assert (why_not is None) == (family != "masked" and positions != "relative")
    assert "without a decoder" in told["masked", "rotary"]
    assert "relative" in told["causal", "relative"]


@needs_library
def test_without_its_library_the_native_engine_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NativeEngine.supports(read_blueprint(small())) is None
    monkeypatch.setattr(native_engine, "load_library", lambda: "it was left out")
    assert "it was left out" in str(NativeEngine.supports(read_blueprint(small())))
    with pytest.raises(ConfigError, match=r"native engine cannot run this model: .* it was left out"):
        choose_engine(small(), Placement(engine="native"))


def test_what_relative_positions_add_to_scores_is_left_to_them() -> None:
    engine, reason = choose_engine(small(positions="relative"))
    assert type(engine) is ModuleEngine
    assert "relative" in reason or "no native engine" in reason
    with pytest.raises(NotPlain, match="relative"):
        PackedEngine(small(positions="relative"))


def test_layers_that_differ_in_their_positions_are_left_to_their_modules() -> None:
    rotary = small(positions="rotary")
    assert type(choose_engine(rotary)[0]) is not ModuleEngine
    rotary.decoder.layers[-1].self_attention.positions = None
    with pytest.raises(NotPlain, match="inside attention"):
        read_blueprint(rotary)
    across = small(positions="rotary-cross", num_decoder_layers=2)
    assert type(choose_engine(across)[0]) is not ModuleEngine
    across.decoder.layers[-1].cross_attention.positions = None
    with pytest.raises(NotPlain, match="inside attention"):
        read_blueprint(across)


@needs_library
def test_positions_in_places_that_the_library_does_not_know_are_left_to_others() -> None:
    across = small(positions="rotary-cross")
    for layer in (*across.encoder.layers, *across.decoder.layers):
        layer.self_attention.positions = None
    both = small(positions="rotary")
    both.source_embedding.positions = SinusoidalPositions(both.source_embedding.tokens.d_model)
    for model in (across, both):
        with pytest.raises(NotPlain, match=r"does not know these positions: .*rotary"):
            NativeEngine(model)
        assert type(choose_engine(model)[0]) is PackedEngine


class Halved(nn.Linear):
    """A linear map that is none."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) / 2


@pytest.mark.parametrize("part", ["self_attention.output", "feed_forward.inner"])
def test_a_part_of_a_part_of_its_own_kind_is_noticed(part: str) -> None:
    model = small()
    block, _, name = part.rpartition(".")
    owner = model.decoder.layers[0].get_submodule(block)
    like = owner.get_submodule(name)
    setattr(owner, name, Halved(like.in_features, like.out_features))
    with pytest.raises(NotPlain, match="a Halved is not one linear map"):
        read_blueprint(model)


def test_unknown_names_are_mistakes() -> None:
    with pytest.raises(ConfigError, match="no such precision"):
        PackedEngine(small(), "bfloat16")


@needs_library
def test_kernels_are_named() -> None:
    assert not isinstance(LIBRARY, str)
    assert LIBRARY.kernels[0].name == "plain"
    with pytest.raises(ConfigError, match="cannot run these kernels"):
        NativeEngine(small(), kernels="abacus")
    with pytest.raises(ConfigError, match="bfloat16"):
        NativeEngine(small(), "bfloat16", "plain")


@needs_library
def test_packed_weights_are_as_small_as_they_say() -> None:
    model = small(d_model=64, d_ff=256, source_vocab=500, target_vocab=500)
    float32, int8 = (NativeEngine(model, precision).bytes for precision in ("float32", "int8"))
    assert int8 <= float32
