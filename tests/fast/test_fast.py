"""Training's kernels against the modules, which are the oracle."""

from __future__ import annotations

from ctypes import byref
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.data import Batch, TextBatch
from dragoman.engines.native import build
from dragoman.fast import hidden as hidden_module
from dragoman.fast import module_hidden, training_hidden
from dragoman.fast.kernels import SETS, Drop, Kernels, draw_drop
from dragoman.losses.loss import _rows
from dragoman.losses.r_drop import _block as agreement_rows
from dragoman.models import blueprint_of, build_model, for_direction
from dragoman.nn import CausalLM, MaskedLM, MultiHeadAttention, Transformer
from dragoman.sequences import Direction, SourceBatch, TargetBatch
from forked import run as in_child

Model = Transformer | CausalLM | MaskedLM
LEFT, RIGHT = BOTH = tuple(Direction)


def usable() -> list[Kernels]:
    if not build.library_path().exists():
        return []
    found = []
    for kind in SETS:
        try:
            found.append(Kernels(build.library_path(), kind))
        except ValueError:
            continue
    return found


KERNELS = usable()
pytestmark = pytest.mark.skipif(not KERNELS, reason="the native library is not compiled")
each_kind = pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.kind)


@pytest.fixture(autouse=True)
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "kernels" in request.fixturenames:
        found = request.getfixturevalue("kernels")
        monkeypatch.setattr(hidden_module, "load_kernels", lambda: found)


def a_model(family: str = "transformer", **settings: object) -> Model:
    torch.manual_seed(1)
    sizes = {"d_model": 32, "num_heads": 2, "d_ff": 48, "num_encoder_layers": 2, "num_decoder_layers": 2}
    given = {"family": family, "source_vocab": 30, "target_vocab": 30, "dropout": 0.0, **sizes, **settings}
    model = build_model(ModelConfig(**given))
    for parameter in model.parameters():
        if parameter.dim() == 1:  # as they begin, biases are 0 and gains 1
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    return model.train()


def some_ids(*lengths: int) -> Tensor:
    draw = torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(4, 30, (len(lengths), max(lengths)), generator=draw)
    return torch.where(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], ids, 0)


def text_batch(ids: Tensor) -> TextBatch:
    return TextBatch(ids, ids != 0, ids, ids != 0, 0)


def pair_batch(source: Tensor, target: Tensor, directions: tuple[Direction, ...] = (LEFT,), many: int = 1) -> Batch:
    """Sources, and what decoders are given."""
    mask = nn.functional.pad(target != 0, (0, 1))  # a last place that only labels have
    targets = TargetBatch(nn.functional.pad(target, (0, 1)), mask, directions, many)
    return Batch(SourceBatch(source, source != 0), targets, 0, 0)


def inputs_of(model: Model) -> Batch | TextBatch:
    target = some_ids(9, 17, 1, 12)
    return pair_batch(some_ids(7, 1, 19, 8), target) if isinstance(model, Transformer) else text_batch(target)


def kept(batch: Batch | TextBatch) -> Tensor:
    """Where there are tokens that vectors are given for."""
    return batch.target.input_mask if isinstance(batch, Batch) else batch.mask


def learned(model: Model, hidden: object, batch: Batch | TextBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Vectors where there are tokens, and all gradients of a loss on them."""
    model.zero_grad()
    vectors, real = hidden(batch), kept(batch)[..., None]
    slope = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0)) * real
    (vectors * slope).sum().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "generator" not in name)
    grads = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return (vectors * real).detach(), {name: grad.clone() for name, grad in grads.items()}


@each_kind
@pytest.mark.parametrize(
    ("family", "norm", "bias", "positions"),
    [
        ("transformer", "post", True, "interleaved"), ("transformer", "pre", True, "concatenated"),
        ("transformer", "pre", True, "rotary"), ("transformer", "pre", True, "rotary-cross"),
        ("transformer", "post", False, "rotary-cross"), ("causal", "post", True, "interleaved"),
        ("causal", "pre", False, "rotary"), ("masked", "pre", False, "interleaved"),
        ("transformer", "pre", True, "alibi"), ("causal", "post", False, "alibi"), ("masked", "pre", True, "alibi"),
    ],
)  # fmt: skip
def test_vectors_and_gradients_are_the_modules(kernels, family, norm, bias, positions):
    tied = "all" if family == "transformer" else "none"
    model = a_model(family, norm=norm, bias=bias, positions=positions, tie_embeddings=tied)
    ids = inputs_of(model)
    assert hidden_module.is_plain(model)
    vectors, grads = learned(model, training_hidden(model), ids)
    expected, oracle = learned(model, partial(module_hidden, model), ids)
    assert grads.keys() == oracle.keys()
    assert_alike(vectors, grads, expected, oracle)


@each_kind
def test_slopes_of_any_number_of_heads_are_the_modules(kernels):
    model = a_model("causal", positions="alibi", d_model=48, num_heads=3)
    batch = text_batch(some_ids(70, 33, 4))  # scores fall over several vectors
    expected = learned(model, partial(module_hidden, model), batch)
    assert_alike(*learned(model, training_hidden(model), batch), *expected)


@each_kind
@pytest.mark.parametrize("positions", ["interleaved", "rotary-cross"])
@pytest.mark.parametrize("how", [{"directions": BOTH}, {"many": 2}], ids=str)
def test_several_targets_of_a_source_are_read_as_if_it_stood_there_for_each(kernels, positions, how):
    model = a_model(norm="pre", positions=positions)
    source, targets = some_ids(7, 1, 19), some_ids(9, 17, 1, 4, 12, 2)
    assert hidden_module.is_plain(model)
    modules = partial(module_hidden, model)
    expected, oracle = learned(model, modules, pair_batch(torch.cat([source, source]), targets))
    for hidden in (training_hidden(model), modules):
        assert_alike(*learned(model, hidden, pair_batch(source, targets, **how)), expected, oracle)


@each_kind
@pytest.mark.parametrize("many", [1, 2])
def test_a_decoder_of_its_own_reads_the_targets_from_right_to_left(kernels, many):
    model = a_model(norm="pre", right_to_left=True, right_to_left_decoder="own")
    source, targets = some_ids(7, 1, 19), some_ids(*(9, 17, 1, 4, 12, 2) * many)
    assert hidden_module.is_plain(model)

    def apart(batch: Batch) -> Tensor:
        ids, half = batch.target.inputs, 3 * many
        sources = batch.source.ids.repeat(many, 1)
        read = model.hidden(sources, ids[:half]), for_direction(model, RIGHT).hidden(sources, ids[half:])
        return torch.cat(read)

    batch = pair_batch(source, targets, BOTH, many)
    expected, oracle = learned(model, apart, batch)
    for hidden in (training_hidden(model), partial(module_hidden, model)):
        assert_alike(*learned(model, hidden, batch), expected, oracle)


@each_kind
@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_a_second_candidate_from_left_to_right_stays_from_left_to_right(kernels, decoder):
    model = a_model(norm="pre", right_to_left=True, right_to_left_decoder=decoder)
    source, targets = some_ids(7, 1, 19), some_ids(9, 17, 1, 4, 12, 2)
    each = [model.hidden(source, some) for some in targets.split(3)]
    batch = pair_batch(source, targets, many=2)
    for hidden in (training_hidden(model), partial(module_hidden, model)):
        apart = (hidden(batch) - torch.cat(each)) * kept(batch)[..., None]
        assert apart.abs().max() < 1e-5


@each_kind
def test_a_mask_says_what_is_padding_whatever_the_ids_are(kernels):
    model = a_model(norm="pre")
    plain = pair_batch(some_ids(7, 1, 19), some_ids(9, 17, 4))
    source, target = plain.source.ids.clone(), plain.target.ids.clone()
    source[2, 3], target[1, 5] = 0, 0  # tokens
    source[1, 1:], target[2, 4:] = 9, 9  # padding
    batch = replace(plain, source=replace(plain.source, ids=source), target=replace(plain.target, ids=target))
    expected, oracle = learned(model, partial(module_hidden, model), batch)
    assert_alike(*learned(model, training_hidden(model), batch), expected, oracle)
    assert not torch.allclose(expected, learned(model, training_hidden(model), plain)[0])


def assert_alike(vectors: Tensor, grads: dict[str, Tensor], expected: Tensor, oracle: dict[str, Tensor]) -> None:
    assert (vectors - expected).abs().max() < 1e-5
    for name, grad in grads.items():
        assert (grad - oracle[name]).abs().max() <= 2e-5 * oracle[name].abs().max() + 1e-6, name


@each_kind
@pytest.mark.parametrize("positions", ["interleaved", "rotary", "rotary-cross", "alibi"])
def test_in_bfloat16_vectors_and_gradients_stray_no_further_than_the_modules(kernels, positions):
    model = a_model(norm="pre", positions=positions, tie_embeddings="all", d_model=64, d_ff=128)
    ids = inputs_of(model)
    vectors, grads = learned(model, partial(module_hidden, model), ids)

    def strays(hidden: object) -> tuple[float, float]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            given, learned_here = learned(model, hidden, ids)
        assert given.dtype == torch.float32
        far = [(learned_here[name] - grad).norm() / (grad.norm() + 1e-3) for name, grad in grads.items()]
        return float((given - vectors).norm() / vectors.norm()), float(torch.stack(far).mean())

    ours, modules = strays(training_hidden(model)), strays(partial(module_hidden, model))
    assert 1e-4 < ours[0] < 1.2 * modules[0]
    assert 1e-4 < ours[1] < 1.2 * modules[1]


@each_kind
def test_the_loss_of_rows_is_the_one_in_pytorch(kernels):
    logits = 3 * torch.randn(9, 37, generator=torch.Generator().manual_seed(0))
    wanted = torch.randint(0, 37, (9, 1), generator=torch.Generator().manual_seed(1))
    wanted[:4] = logits[:4].argmax(1, keepdim=True)
    sums, slope = kernels.cross_entropy(logits.clone(), wanted, 0.1)
    expected, by_logits = _rows(logits.clone(), wanted, 0.1)
    assert sums == pytest.approx([float(one) for one in expected], rel=1e-6)
    assert (slope - by_logits).abs().max() < 1e-6


@each_kind
@pytest.mark.parametrize("vocabulary", [16, 37])
def test_the_loss_of_two_passes_is_r_drops_in_double_precision(kernels, vocabulary):
    draw = torch.Generator().manual_seed(0)
    both = [3 * torch.randn(9, vocabulary, generator=draw) + shift for shift in (40, -40)]
    wanted = torch.randint(0, vocabulary, (9, 1), generator=draw)
    wanted[:4] = both[0][:4].argmax(1, keepdim=True)
    sums, slopes = kernels.agreement(tuple(one.clone() for one in both), wanted, 0.1, 5.0)
    expected, by_logits = agreement_rows((both[0].double(), both[1].double()), wanted, 0.1, 5.0)
    assert sums == pytest.approx(expected.tolist(), rel=1e-5)
    assert sums[2] >= 4
    for slope, exact in zip(slopes, by_logits, strict=True):
        assert (slope - exact).abs().max() < 2e-5


@each_kind
def test_dropout_falls_on_its_share_evenly_and_the_gradient_on_the_same_places(kernels):
    rows, width, p = 400, 64, 0.25
    torch.manual_seed(0)
    drop = byref(draw_drop(p))
    h = torch.ones(rows, width)
    kernels.call("relu", h, torch.zeros(width), drop, rows, width)
    kept = h != 0
    assert h[kept].unique().tolist() == pytest.approx([1 / (1 - p)])
    assert abs(kept.float().mean() - (1 - p)) < 5 * (p * (1 - p) / h.numel()) ** 0.5
    for lag in (1, 7, width):  # neighbours do not share their fate
        both = (kept.flatten()[lag:] & kept.flatten()[:-lag]).float().mean()
        assert abs(both - (1 - p) ** 2) < 0.02
    z, x = torch.ones(rows, width), torch.zeros(rows, width)
    total, out = torch.empty(rows, width), torch.empty(rows, width)
    moments, sums = torch.empty(rows, 2), torch.empty(3, width)
    gain = torch.ones(width)
    kernels.call("add_norm", z, 0 * gain, x, gain, 0 * gain, 1e-5, drop, rows, width, total, out, moments)
    assert torch.equal(total != 0, kept)
    by_x, by_z, grad = torch.empty(rows, width), torch.empty(rows, width), torch.randn(rows, width)
    kernels.call("add_norm_back", grad, None, total, moments, gain, drop, rows, width, by_x, by_z, sums)
    assert torch.allclose(by_z, by_x * kept / (1 - p))


@each_kind
def test_the_same_seed_gives_the_same_update_whatever_the_number_of_threads(kernels, tmp_path):
    model = a_model(dropout=0.3, activation_dropout=0.2)

    def after(seed: int) -> tuple[Tensor, dict[str, Tensor]]:
        torch.manual_seed(seed)
        return learned(model, training_hidden(model), inputs_of(model))

    def with_three_threads() -> None:
        torch.set_num_threads(3)
        save_file({"output": after(1)[0].detach().contiguous()}, tmp_path / "wider.safetensors")

    first, again, other = after(1), after(1), after(2)
    # In a child: a process whose further threads have worked for PyTorch cannot be forked by later tests.
    assert in_child(with_three_threads) == 0
    wider = load_file(tmp_path / "wider.safetensors")["output"]
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(grad, again[1][name]) for name, grad in first[1].items())
    assert (first[0] - other[0]).abs().max() > 0.1
    assert torch.allclose(first[0], wider, atol=1e-5)


@each_kind
@pytest.mark.parametrize("dropout", [{"dropout": 0.3}, {"activation_dropout": 0.3}, {"word_dropout": 0.3}], ids=str)
def test_under_dropout_the_gradient_tells_how_the_same_draw_changes(kernels, dropout):
    model, step = a_model(**dropout), 1e-3
    ids, fast = inputs_of(model), training_hidden(model)
    slope = torch.randn(*kept(ids).shape, 32, generator=torch.Generator().manual_seed(0))

    def loss(seed: int = 5) -> Tensor:
        torch.manual_seed(seed)
        return (fast(ids) * slope).sum()

    assert abs(float((loss(6) - loss()).detach())) > 0.1, "another draw, another loss"
    loss().backward()
    parts = [(one, one.grad) for one in model.parameters() if one.grad is not None]
    steepness = torch.stack([grad.norm() for _, grad in parts]).norm()

    def moved(far: float) -> float:
        with torch.no_grad():
            for one, grad in parts:
                one += far / steepness * grad
        return float(loss().detach())

    up, down = moved(step), moved(-2 * step)
    assert (up - down) / (2 * step) == pytest.approx(float(steepness), rel=0.02)


@each_kind
def test_evaluation_drops_nothing(kernels):
    model = a_model(dropout=0.5).eval()
    ids = inputs_of(model)
    assert (training_hidden(model)(ids) - module_hidden(model, ids))[kept(ids)].abs().max() < 1e-5


@pytest.mark.parametrize(
    "settings",
    [{"activation": "gelu"}, {"positions": "relative"}, {"attention_dropout": 0.1}, {"d_model": 24}, {"d_v": 32}],
    ids=str,
)
def test_other_parts_are_left_to_the_modules(settings, monkeypatch):
    model = a_model(**settings)
    assert hidden_module.is_plain(model) == ("attention_dropout" in settings), "dropout may be switched off"
    ids = inputs_of(model)
    modules = torch.zeros(1)
    monkeypatch.setattr(hidden_module, "module_hidden", lambda *given: modules)
    assert training_hidden(model)(ids) is modules


@pytest.mark.parametrize("family", ["transformer", "causal", "masked"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_blueprint_tells_without_a_model_whether_there_are_kernels(family, norm):
    sizes = {"d_model": 32, "num_heads": 2, "d_ff": 48, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = ModelConfig(family=family, norm=norm, source_vocab=9, target_vocab=9, **sizes)
    assert hidden_module.supports(blueprint_of(config)) is None
    for changes, told in (
        ({"activation": "silu"}, "silu"), ({"positions": "relative"}, "positions"), ({"d_ff": 40}, "multiples of 16"),
        ({"d_k": 8, "d_v": 8}, "multiples of 16"), ({"d_v": 32}, "as wide as keys"),
        ({"num_encoder_layers": 0, "num_decoder_layers": 0}, "without layers"),
    ):  # fmt: skip
        assert told in str(hidden_module.supports(blueprint_of(config.replace(changes))))


def test_observers_no_gradients_other_precisions_and_long_sequences_are_left_to_the_modules(monkeypatch):
    model = a_model("causal")
    ids = text_batch(some_ids(3, 5))
    modules = torch.zeros(1)
    monkeypatch.setattr(hidden_module, "module_hidden", lambda *given: modules)
    fast = training_hidden(model)
    assert fast(ids) is not modules
    with torch.no_grad():
        assert fast(ids) is modules
    with torch.autocast("cpu", dtype=torch.float16):
        assert fast(ids) is modules
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast(ids) is not modules
    assert fast(text_batch(some_ids(hidden_module.LONGEST + 1))) is modules
    attention = next(part for part in model.modules() if isinstance(part, MultiHeadAttention))
    forget = attention.observe(lambda record: None)
    assert fast(ids) is modules
    forget()
    assert fast(ids) is not modules
    assert model.double() is model
    assert fast(ids) is modules


def test_padding_between_tokens_is_nobody_and_an_empty_sentence_gives_zeros():
    model = a_model()
    source, target = some_ids(7, 4), some_ids(5, 6)
    source[0, 2], target[0, 2] = 0, 0
    batch = pair_batch(source, target)
    vectors, oracle = training_hidden(model)(batch), module_hidden(model, batch)
    assert (vectors - oracle)[target != 0].abs().max() < 1e-5
    source[1] = 0
    assert training_hidden(model)(pair_batch(source, target)).isfinite().all()
    assert (vectors[target == 0] == 0).all()


def test_no_probability_draws_nothing():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert draw_drop(0.0).limit == 0
    assert torch.equal(state, torch.get_rng_state())
    assert isinstance(draw_drop(0.1), Drop)
    assert not torch.equal(state, torch.get_rng_state())
