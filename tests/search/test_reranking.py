"""Outputs ranked by both directions: the mean of what the model says in either direction, against a slow oracle."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import DecodingConfig, Placement
from dragoman.engines import NativeEngine
from dragoman.engines.native import load_library
from dragoman.engines.native.searching import NativeSearcher
from dragoman.errors import ConfigError
from dragoman.models import for_direction
from dragoman.nn import Transformer
from dragoman.search.hypothesis import added_up, make_hypothesis
from dragoman.search.reranking import reranked, right_to_left_share
from dragoman.sequences import Direction, sources_of
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator
from dragoman.translation.torch_backend import TorchBackend
from end_to_end import small


def reader(weight: float | None = None, members: int = 1, decoder: str = "shared") -> Translator:
    """A translator over random models that say they learned both directions."""
    directions = {"right_to_left": True, "right_to_left_decoder": decoder}
    made = small.translator(small.word_pair(), members=members, **directions)
    options = made.options({"right_to_left_weight": weight})
    return Translator(made.transformers, made.tokenizers, options, right_to_left=True)


def right_to_left_score(model: Transformer, source: list[int], output: tuple[int, ...]) -> float:
    """The log-probability of an output from its end to its beginning, one whole pass over it."""
    framed = torch.tensor([[EOS, *output[::-1], BOS]])
    with torch.no_grad():
        log_probs = for_direction(model, Direction.RIGHT_TO_LEFT)(
            torch.tensor([[*source, EOS]]), framed[:, :-1]
        ).log_softmax(-1)
    return float(log_probs[0].gather(1, framed[0, 1:, None]).sum())


@pytest.mark.parametrize("weight", [0.3, 0.9, None])
@pytest.mark.parametrize("penalty", [0.0, 1.4])
@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_outputs_are_ranked_by_the_mean_of_both_directions(weight: float | None, penalty: float, decoder: str) -> None:
    translator, texts = reader(weight, decoder=decoder), small.sentences(30)
    options = translator.options({"beam_size": 5, "n_best": 5, "length_penalty": penalty})
    forwards = translator.translate_with(texts, options.replace({"right_to_left_weight": 0.0}))
    found = translator.translate_with(texts, options)
    share, changed = 0.5 if weight is None else weight, 0
    for text, plain, ranked in zip(texts, forwards, found, strict=True):
        ids, target = translator.tokenizers.source.encode(text), translator.tokenizers.target
        expected, backwards = {}, {}
        for one in plain.alternatives:
            assert one.right_to_left is None
            backwards[one.text] = value = right_to_left_score(
                translator.transformers[0], ids, tuple(target.encode(one.text))
            )
            both = (1 - share) * one.log_probability + share * value
            expected[one.text] = both / ((5 + len(one.tokens) + 1) / 6) ** penalty
        scores = {one.text: one.score for one in ranked.alternatives}
        assert scores == pytest.approx(expected, abs=1e-9)
        assert {one.text: one.right_to_left for one in ranked.alternatives} == pytest.approx(backwards, abs=1e-9)
        assert ranked.right_to_left == ranked.alternatives[0].right_to_left
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        assert ranked.text == max(expected, key=lambda one: expected[one])
        # What an output's tokens are worth is still said from left to right.
        by_text = {one.text: one.token_scores for one in plain.alternatives}
        assert all(by_text[one.text] == one.token_scores for one in ranked.alternatives)
        changed += ranked.text != plain.text
    assert changed > 3


def test_one_output_is_the_best_of_the_whole_beam() -> None:
    translator, texts = reader(), small.sentences(20)
    best = translator.translate(texts, beam_size=4)
    ranked = translator.translate(texts, beam_size=4, n_best=4)
    assert [one.text for one in best] == [one.text for one in ranked]
    assert all(len(one.alternatives) == 1 for one in best)


def test_batch_mates_change_nothing() -> None:
    translator, texts = reader(), small.sentences(20)
    together = translator.translate(texts, beam_size=4, n_best=3)
    for text, expected in zip(texts, together, strict=True):
        alone = translator.translate([text], beam_size=4, n_best=3)[0]
        assert [one.text for one in alone.alternatives] == [one.text for one in expected.alternatives]
        assert alone.score == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_an_ensemble_reads_backwards_together(decoder: str) -> None:
    translator = reader(0.7, members=2, decoder=decoder)
    text = small.sentences(3)[2]
    ids, target = translator.tokenizers.source.encode(text), translator.tokenizers.target
    found = translator.translate([text], beam_size=4, n_best=4, length_penalty=0.0)[0]
    for one in found.alternatives:
        output = target.encode(one.text)
        framed = torch.tensor([[EOS, *output[::-1], BOS]])
        with torch.no_grad():
            models = [for_direction(model, Direction.RIGHT_TO_LEFT) for model in translator.transformers]
            each = [model(torch.tensor([[*ids, EOS]]), framed[:, :-1]).softmax(-1) for model in models]
        value = float(torch.stack(each).mean(0).log()[0].gather(1, framed[0, 1:, None]).sum())
        assert one.score == pytest.approx(0.3 * one.log_probability + 0.7 * value, abs=1e-9)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"sampling": True}])
def test_where_nothing_is_ranked_nothing_is_read_right_to_left(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> list[list[float]]:
        raise AssertionError

    translator = reader()
    monkeypatch.setattr(translator.backend, "force", never)
    assert translator.translate_with(small.sentences(3), translator.options(options))
    with pytest.raises(AssertionError):
        translator.translate(small.sentences(3), beam_size=2)
    assert right_to_left_share(DecodingConfig.from_dict(options), True) == 0
    assert right_to_left_share(DecodingConfig(), False) == 0
    assert right_to_left_share(DecodingConfig(), True) == 0.5


def test_a_model_that_did_not_learn_it_is_not_asked() -> None:
    translator = small.translator(small.word_pair())
    options = translator.options({"right_to_left_weight": 0.5})
    with pytest.raises(ConfigError, match="did not learn to read from right to left"):
        translator.translate_with(["ba ce"], options)
    assert translator.translate_with(["ba ce"], translator.options({"right_to_left_weight": 0.0}))[0].text


def test_equal_outputs_keep_the_order_of_the_search() -> None:
    options = DecodingConfig(beam_size=3, n_best=2)
    found = [make_hypothesis([token], [-1.0, -1.0], options) for token in (7, 5, 9)]
    assert [one.tokens for one in reranked(found, [-2.0, -2.0, -1.0], 0.5, options)] == [(9,), (7,)]


@pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))
@pytest.mark.parametrize("outputs", [[[(5, 6, 7), (8,), ()], [(9, 9)]], [[], [(4,)]]])
@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_the_native_engine_reads_as_the_modules_do(outputs: list[list[tuple[int, ...]]], decoder: str) -> None:
    directions = {"right_to_left": True, "right_to_left_decoder": decoder}
    model = small.model(small.shape(small.word_pair(), **directions)).float()
    assert isinstance(model, Transformer)
    sources, direction = sources_of([[4, 5, 6], [7]]), Direction.RIGHT_TO_LEFT
    other = NativeEngine(for_direction(model, direction)).native
    whole = NativeSearcher(NativeEngine(model).native, lambda: other).force(sources, outputs, direction)
    engines = [
        TorchBackend([model], Placement(engine=engine, precision="float32"))
        for engine in ("native", "packed", "module")
    ]
    runs = [engine.force(sources, outputs, DecodingConfig(), direction) for engine in engines]
    for row, some in enumerate(outputs):
        expected = [right_to_left_score(model, list(sources[row].ids), one) for one in some]
        for found in (whole, *runs):
            assert list(map(added_up, found[row])) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_pairs_are_scored_by_both_directions(decoder: str, members: int) -> None:
    translator, sources, targets = (
        reader(members=members, decoder=decoder),
        small.sentences(9),
        small.sentences(9, seed=3),
    )
    models, tokenizers = translator.transformers, translator.tokenizers
    targets[4] = ""
    for one in translator.score(sources, targets):
        ids, output = tokenizers.source.encode(one.source), tokenizers.target.encode(one.target)
        framed = torch.tensor([[EOS, *output[::-1], BOS]])
        with torch.no_grad():
            each = [
                for_direction(model, Direction.RIGHT_TO_LEFT)(torch.tensor([[*ids, EOS]]), framed[:, :-1]).softmax(-1)
                for model in models
            ]
        log_probs = torch.stack(each).mean(0).log()[0].gather(1, framed[0, 1:, None])
        assert one.right_to_left == pytest.approx(float(log_probs.sum()), abs=1e-9)
    (alone,) = Translator(models, tokenizers).score(sources[:1], targets[:1])
    assert alone.right_to_left is None


@pytest.mark.parametrize("changes", [{}, {"beam_size": 1}, {"right_to_left_weight": 0.0}, {"sampling": True}])
def test_it_is_told_whether_a_search_asks_the_other_direction(changes: dict) -> None:
    translator = reader()
    assert translator.aids(translator.options(changes)) == (() if changes else ("right to left",))
