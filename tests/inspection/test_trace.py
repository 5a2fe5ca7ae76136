"""A trace holds the model's own numbers: recomputed from their formulas, and equal by every way to them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.inspection import Trace, explain
from dragoman.inspection.agreement import serial_logits
from dragoman.language import Completer, Filler
from dragoman.nn import MultiHeadAttention
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator
from end_to_end import small
from inspection.systems import SYSTEMS, founding_system

TEXT, TARGET = "ba ce di fo gu", "ri pa ne mu"
SHAPES = {
    "pre": {},
    "post": {"norm": "post", "tie_embeddings": "decoder"},
    "wide": {"d_k": 5, "d_v": 3, "num_heads": 3, "bias": False, "tie_embeddings": "all", "num_decoder_layers": 1},
    "gelu": {"activation": "gelu", "positions": "concatenated", "norm": "post", "num_encoder_layers": 3},
}


@pytest.fixture(scope="module", params=SHAPES)
def translator(request: pytest.FixtureRequest) -> Translator:
    return small.translator(small.word_pair(), **SHAPES[request.param])


@pytest.fixture(scope="module")
def trace(translator: Translator) -> Trace:
    return explain(translator, TEXT)


@pytest.fixture(scope="module")
def usual() -> Trace:
    return explain(small.translator(small.word_pair()), TEXT, TARGET)


def numbers(trace: Trace, name: str) -> Tensor:
    values = trace.stage(name).values
    assert values is not None
    return values


def attentions(trace: Trace) -> list[str]:
    return [name.removesuffix(".weights") for name in trace.stage_names if name.endswith(".weights")]


def test_the_output_is_what_the_translator_says(trace: Trace, translator: Translator) -> None:
    [expected] = translator.translate([TEXT], beam_size=1)
    assert trace.output.text == expected.text
    assert trace.output.pieces == (*expected.tokens, "</s>")
    assert tuple(step.chosen.piece for step in trace.steps) == trace.output.pieces
    assert [math.log(step.chosen.probability) for step in trace.steps] == pytest.approx(expected.token_scores)
    assert trace.source is not None
    assert trace.source.ids[-1] == EOS


def test_each_stage_has_the_shape_it_says(trace: Trace) -> None:
    assert len(set(trace.stage_names)) == len(trace.stages)
    for stage in trace.stages:
        assert len(stage.dims) == len(stage.shape)
        if stage.values is not None:
            assert tuple(stage.values.shape) == stage.shape
        if stage.rows:
            assert len(stage.rows) == stage.shape[-2]
        if stage.columns:
            assert len(stage.columns) == stage.shape[-1]
        for dim, size in zip(stage.dims, stage.shape, strict=True):
            known = {**trace.sizes, "heads": trace.sizes["num_heads"]}
            assert size == known.get(dim, size)


def test_sum_is_row_times_root_plus_position(trace: Trace, translator: Translator) -> None:
    [model] = translator.transformers
    for side, text in (("source", trace.source), ("target", trace.target)):
        assert text is not None
        table = model.get_parameter(f"{side}_embedding.tokens.weight")
        home = f"{side}_embedding"
        hot = F.one_hot(torch.tensor([trace.stage(f"{home}.one_hot").picked]), len(table)).double()
        assert trace.stage(f"{home}.one_hot").picked == text.ids
        torch.testing.assert_close(hot @ table, numbers(trace, f"{home}.rows"))
        scaled = numbers(trace, f"{home}.rows") * math.sqrt(table.shape[1])
        torch.testing.assert_close(scaled, numbers(trace, f"{home}.tokens"))
        total = numbers(trace, f"{home}.tokens") + numbers(trace, f"{home}.position_rows")
        assert torch.equal(total, numbers(trace, f"{home}.positions"))


def test_attention_adds_up(trace: Trace) -> None:
    assert len(attentions(trace)) == trace.sizes["num_encoder_layers"] + 2 * trace.sizes["num_decoder_layers"]
    for name in attentions(trace):
        query, key, value, scores, mask, weights, mixed = (
            numbers(trace, f"{name}.{part}") for part in ("query", "key", "value", "scores", "mask", "weights", "mixed")
        )
        torch.testing.assert_close(scores, torch.einsum("bhqd,bhkd->bhqk", query, key) / trace.sizes["d_k"] ** 0.5)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert bool((weights[~mask.expand_as(weights)] == 0).all())
        assert bool((weights[mask.expand_as(weights)] > 0).all())
        torch.testing.assert_close(mixed, torch.einsum("bhqk,bhkd->bhqd", weights, value))
    own = numbers(trace, "decoder.layers.0.self_attention.mask")[0, 0]
    assert torch.equal(own, torch.ones_like(own).tril())


def test_residuals_norms_and_feed_forward_add_up(trace: Trace, translator: Translator) -> None:
    [model] = translator.transformers
    layer = model.encoder.layers[0]
    name = "encoder.layers.0"
    before, out = numbers(trace, "source_embedding.positions"), numbers(trace, f"{name}.self_attention.output")
    after = numbers(trace, f"{name}.self_attention_residual")
    width = (before.shape[-1],)
    if f"{name}.self_attention_residual.sum" in trace.stage_names:
        torch.testing.assert_close(before + out, numbers(trace, f"{name}.self_attention_residual.sum"))
        torch.testing.assert_close(F.layer_norm(before + out, width), after)
        given = after
    else:
        torch.testing.assert_close(F.layer_norm(before, width), numbers(trace, f"{name}.self_attention_residual.norm"))
        torch.testing.assert_close(before + out, after)
        given = numbers(trace, f"{name}.feed_forward_residual.norm")
    feed = layer.feed_forward
    inner, activated = numbers(trace, f"{name}.feed_forward.inner"), numbers(trace, f"{name}.feed_forward.activated")
    torch.testing.assert_close(given @ feed.inner.weight.t() + feed.inner.bias, inner)
    assert torch.equal(feed.activation(inner), activated)
    outer = activated @ feed.outer.weight.t() + feed.outer.bias
    torch.testing.assert_close(outer, numbers(trace, f"{name}.feed_forward.outer"))


def test_what_is_shown_is_what_the_model_computes_unobserved(trace: Trace, translator: Translator) -> None:
    [model] = translator.transformers
    assert trace.source is not None
    assert trace.target is not None
    source, inputs = torch.tensor([trace.source.ids]), torch.tensor([trace.target.ids])
    with torch.no_grad():
        torch.testing.assert_close(model(source, inputs), numbers(trace, "generator"), rtol=0, atol=1e-10)
        torch.testing.assert_close(model.encode(source)[0], numbers(trace, "memory"), rtol=0, atol=1e-10)
    assert all(check.difference < 1e-10 for check in trace.checks)
    assert {check.name for check in trace.checks} == {"sum", "observed", "padded", "parallel"}
    assert not any(part._observers for part in model.modules() if isinstance(part, MultiHeadAttention))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_row_t_of_the_decoder_is_step_t(trace: Trace, translator: Translator) -> None:
    [model] = translator.transformers
    assert trace.source is not None
    assert trace.target is not None
    serial = serial_logits(model, torch.tensor([trace.source.ids]), torch.tensor([trace.target.ids]))
    torch.testing.assert_close(serial, numbers(trace, "generator"), rtol=0, atol=1e-10)
    for row, step in enumerate(trace.steps):
        probabilities = numbers(trace, "probabilities")[0, row]
        assert step.given == trace.target.pieces[: row + 1]
        assert [chance.id for chance in step.top] == probabilities.topk(5).indices.tolist()
        assert [chance.probability for chance in step.top] == pytest.approx(probabilities.topk(5).values.tolist())
        # The search never writes <pad>, <s> or <unk>, and ends at the longest length.
        ruled = step.number == len(trace.steps) or step.top[0].piece in ("<pad>", "<s>", "<unk>")
        assert step.chosen == step.top[0] or ruled


def test_float32_agrees_too_and_is_proved_in_float64() -> None:
    translator = small.translator(small.word_pair())
    translator.transformers[0].float()
    found = explain(translator, TEXT)
    kinds = {(check.name, check.dtype): check.difference for check in found.checks}
    assert kinds["parallel", "float64"] < 1e-12
    assert kinds["observed", "float32"] < 1e-4
    assert kinds["parallel", "float32"] < 1e-4
    shown = numbers(found, "probabilities")
    with torch.no_grad():
        ids = [torch.tensor([text.ids]) for text in (found.source, found.target) if text is not None]
        plain = translator.transformers[0](*ids).softmax(-1)
    torch.testing.assert_close(plain, shown, rtol=1e-5, atol=0)


def test_a_target_gives_the_training_view(usual: Trace) -> None:
    translator = small.translator(small.word_pair())
    [scored] = translator.score([TEXT], [TARGET])
    assert [math.log(one.parallel) for one in usual.training] == pytest.approx(scored.token_scores)
    assert [one.serial for one in usual.training] == pytest.approx([one.parallel for one in usual.training], abs=1e-12)
    assert [one.given for one in usual.training] == ["<s>", *TARGET.split()]
    assert [one.label for one in usual.training] == [*TARGET.split(), "</s>"]
    probabilities = numbers(usual, "probabilities")[0]
    for row, one in zip(probabilities, usual.training, strict=True):
        assert one.likeliest.id == int(row.argmax())
        assert one.rank == 1 + int((row > one.parallel + 1e-12).sum())
    assert usual.output.text == translator.translate([TEXT], beam_size=1)[0].text


def test_masks_show_padding(usual: Trace) -> None:
    padding = usual.stage("masks.padding")
    assert padding.columns == (*TEXT.split(), "</s>", "<pad>", "<pad>")
    assert padding.values is not None
    assert padding.values.flatten().tolist() == [True] * 6 + [False] * 2
    causal, combined = numbers(usual, "masks.causal")[0, 0], numbers(usual, "masks.combined")[0, 0]
    assert torch.equal(causal, torch.ones_like(causal).tril())
    assert torch.equal(combined, causal & torch.tensor([True] * 5 + [False] * 2))


def test_a_beam_gives_its_best_hypothesis() -> None:
    for seed in range(8):
        translator = small.translator(small.word_pair(), seed)
        found = explain(translator, TEXT, beam_size=4)
        [expected] = translator.translate([TEXT], beam_size=4)
        assert found.output.text == expected.text
        if any(step.chosen.rank > 1 for step in found.steps):
            return
    pytest.fail("no beam chose anything but the likeliest piece")


def test_a_beam_ranked_in_both_directions_gives_what_translate_gives() -> None:
    changed = 0
    for seed in range(8):
        plain = small.translator(small.word_pair(), seed)
        both = Translator(plain.transformers, plain.tokenizers, plain.decoding, right_to_left=True)
        found = explain(both, TEXT, beam_size=4)
        assert found.output.text == both.translate([TEXT], beam_size=4)[0].text
        assert any("both directions" in note for note in found.notes)
        assert not any("both directions" in note for note in explain(both, TEXT).notes)
        changed += found.output.text != plain.translate([TEXT], beam_size=4)[0].text
    assert changed


def test_a_selection_holds_what_was_asked_for(usual: Trace) -> None:
    assert usual.select("memory").stage_names == ("memory",)
    begun = usual.select("decoder.layers.0.cross").stage_names
    assert begun == tuple(name for name in usual.stage_names if name.startswith("decoder.layers.0.cross_attention"))
    encoder = usual.select("encoder.layers.1")
    assert encoder.stage_names
    assert all(name.startswith("encoder.layers.1.") for name in encoder.stage_names)
    assert all(name.endswith(".weights") for name in usual.select("*.weights").stage_names)
    assert len(usual.select("*.weights").stages) == 6
    layer = usual.select(layer=1)
    assert {stage.layer for stage in layer.stages} == {1}
    one = usual.select("decoder", layer=0, head=1).stage("decoder.layers.0.cross_attention.weights")
    assert one.values is not None
    assert torch.equal(one.values, numbers(usual, "decoder.layers.0.cross_attention.weights")[:, 1:2])
    assert one.size == "[batch=1, head=1, tgt=5, src=6]"
    assert usual.select("steps").stages == ()
    assert usual.select("steps").parts == ("steps",)
    assert usual.select() is usual


@pytest.mark.parametrize(
    ("names", "choices", "message"),
    [
        (("encoder.layers.0.self_atention",), {}, "did you mean 'encoder.layers.0.self_attention'"),
        (("encoder.layers.7",), {}, "memory\n"),
        ((), {"layer": 2}, "0 to 1, counted from 0"),
        ((), {"layer": -1}, "0 to 1"),
        ((), {"head": 2}, "0 to 1, counted from 0"),
        (("memory",), {"head": 1}, "no part in head 1"),
    ],
)
def test_what_is_not_there_is_refused(
    usual: Trace, names: tuple[str, ...], choices: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=r"there is no|no part") as caught:
        usual.select(*names, **choices)
    assert message in str(caught.value)


def test_no_training_view_without_a_target(trace: Trace) -> None:
    with pytest.raises(ConfigError, match="--target"):
        trace.select("training")


@pytest.mark.parametrize("text", ["", " ", "ba " * 257])
def test_texts_that_cannot_be_explained(text: str) -> None:
    with pytest.raises(DataError, match=r"nothing to explain|at most 256 pieces"):
        explain(small.translator(small.word_pair()), text)


def test_an_ensemble_is_refused() -> None:
    with pytest.raises(ConfigError, match="ensemble"):
        explain(small.translator(small.word_pair(), members=2), TEXT)


def test_nan_is_refused() -> None:
    translator = small.translator(small.word_pair())
    with torch.no_grad():
        translator.transformers[0].generator.weight[5] = float("nan")
    with pytest.raises(ModelError, match="NaN"):
        explain(translator, TEXT)


# Models that other systems trained


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_founding_systems_are_explained_too(system: str) -> None:
    model = founding_system(system).double()
    found = explain(Translator([model], small.word_pair()), TEXT, TARGET, max_length=5)
    assert all(check.difference < 1e-10 for check in found.checks)
    assert len(attentions(found)) == 3
    for name in attentions(found):
        query, key = (numbers(found, f"{name}.{part}") for part in ("query", "key"))
        torch.testing.assert_close(query @ key.mT / query.shape[-1] ** 0.5, numbers(found, f"{name}.scores"))
    scaled = numbers(found, "source_embedding.tokens") / numbers(found, "source_embedding.rows")
    assert ("√d_model" in found.stage("source_embedding.tokens").what) == bool((scaled - 4).abs().max() < 1e-6)
    assert found.lines()


# The other families


def test_a_causal_model_continues(tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "model", small.word_pair(), "causal")
    found = explain(folder, "ba ce", max_length=6)
    completer = Completer.from_pretrained(folder)
    [[expected]] = completer.complete(["ba ce"], completer.options({"beam_size": 1, "max_length": 6}))
    assert found.output.text == expected.text
    assert found.steps[0].given == ("<s>", "ba", "ce")
    assert tuple(step.chosen.piece for step in found.steps) == (*expected.tokens[2:], "</s>")
    assert found.source is None
    assert not [
        name for name in found.stage_names if "memory" in name or "cross" in name or "encoder" in name.split(".")
    ]
    assert found.target is not None
    assert found.target.ids[0] == BOS
    assert all(check.difference < 1e-10 for check in found.checks)
    assert numbers(found, "decoder.layers.1.self_attention.weights").shape[-1] == len(found.target.ids)


def test_a_masked_model_fills(tmp_path: Path) -> None:
    folder = small.masked(tmp_path / "model", 3)
    text = "ba <mask> di <mask>"
    found = explain(folder, text)
    [[expected]] = Filler.from_pretrained(folder).fill([text])
    assert found.output.text == expected.text
    by_place = sorted(found.steps, key=lambda step: step.place or 0)
    assert tuple(step.chosen.piece for step in by_place) == expected.pieces
    assert found.steps[0].given == ("ba", "<mask>", "di", "<mask>", "</s>")
    assert found.steps[1].given.count("<mask>") == 1
    assert found.source is not None
    assert found.output.pieces[:4] == tuple(expected.text.split())
    assert numbers(found, "encoder.layers.0.self_attention.mask").all()
    assert all(check.difference < 1e-4 for check in found.checks)


def test_a_masked_model_without_a_gap_shows_its_stages(tmp_path: Path) -> None:
    found = explain(small.masked(tmp_path / "model", 3), "ba ce")
    assert found.steps == ()
    assert found.output.text == "ba ce"
    assert "nothing to fill" in found.notes[0]
    assert numbers(found, "probabilities").shape == (1, 3, 17)


def test_options_that_a_family_does_not_have(tmp_path: Path) -> None:
    causal = small.saved(tmp_path / "causal", small.word_pair(), "causal")
    with pytest.raises(ConfigError, match="target"):
        explain(causal, "ba", "ce")
    with pytest.raises(ConfigError, match="without a search"):
        explain(small.masked(tmp_path / "masked", 3), "ba <mask>", beam_size=2)
