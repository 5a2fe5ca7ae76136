"""Settings that would do nothing are refused, with what they need; what is off, or at its default, asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.config import DecodingConfig, TrainConfig, all_settings, make_config
from dragoman.config.effects import check_effects
from dragoman.errors import ConfigError
from dragoman.search.request import changed_options
from dragoman.text.corpus import Pair
from dragoman.text.tokenizer_pair import TokenizerPair

# What is asked for; what makes it do something.
SEARCHES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 2.0}, {"sampling": True}),
    ({"top_k": 5}, {"sampling": True}),
    ({"top_p": 0.5}, {"sampling": True}),
    ({"sampling_seed": 7}, {"sampling": True}),
    ({"beam_size": 8, "sampling": True}, {"sampling": False}),
    ({"length_penalty": 3.0, "sampling": True}, {"sampling": False}),
    ({"length_penalty": 3.0, "beam_size": 1}, {"beam_size": 2}),
    ({"length_penalty_formula": "power", "beam_size": 1}, {"beam_size": 2}),
    ({"right_to_left_weight": 0.3, "beam_size": 1}, {"beam_size": 2}),
    ({"max_length_factor": 2.0, "max_length": 9}, {"max_length": None}),
    ({"max_length_offset": 9, "max_length": 9}, {"max_length": None}),
    ({"loop_guard": 4, "max_length": 9}, {"max_length": None}),
    ({"loop_guard": 4, "no_repeat_ngram": 3}, {"no_repeat_ngram": 0}),
    ({"knn_neighbours": 8, "knn_weight": 0.0}, {"knn_weight": 0.2}),
]
TRAININGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"training.muon_momentum": 0.9, "training.optimizer": "adam"}, {"training.optimizer": "muon"}),
    ({"training.muon_rate_factor": 2.0, "training.optimizer": "adamw"}, {"training.optimizer": "muon"}),
    ({"training.sampled_sides": "source"}, {"training.bpe_dropout": 0.1}),
    ({"training.sampled_sides": "source"}, {"training.unigram_alpha": 0.1}),
    ({"model.relative_distance": 8, "model.positions": "rotary"}, {"model.positions": "relative"}),
    ({"data.long_lines": "drop"}, {"model.family": "causal"}),
    ({"data.max_source_tokens": 9, "model.family": "causal"}, {"model.family": "transformer"}),
    ({"data.max_length_ratio": 9.0, "model.family": "causal"}, {"model.family": "transformer"}),
    ({"data.source_language": "de", "model.family": "causal"}, {"model.family": "transformer"}),
    ({"tokenizer.joint": True, "model.family": "causal"}, {"model.family": "transformer"}),
    ({"tokenizer.min_count": 5, "tokenizer.kind": "bpe"}, {"tokenizer.target_kind": "word"}),
    ({"tokenizer.character_coverage": 0.9, "tokenizer.kind": "word"}, {"tokenizer.kind": "unigram"}),
    ({"validation.search": "beam", "decoding.beam_size": 1}, {"decoding.beam_size": 2}),
]


def tree(values: dict[str, Any]) -> TrainConfig:
    made: dict[str, Any] = {"out": "run"}
    for dotted, value in values.items():
        section, name = dotted.split(".")
        made.setdefault(section, {})[name] = value
    return make_config(made)


@pytest.mark.parametrize(("asked", "mended"), SEARCHES)
def test_options_of_a_search_need_what_they_are_for(asked: dict[str, Any], mended: dict[str, Any]) -> None:
    own = DecodingConfig()
    first = next(iter(asked))
    with pytest.raises(
        ConfigError, match=f"would do nothing: decoding.{first} = .* needs decoding.{next(iter(mended))}"
    ):
        changed_options(own, asked)
    changed = changed_options(own, {**asked, **mended})
    assert getattr(changed, first) == asked[first]


@pytest.mark.parametrize(("asked", "mended"), TRAININGS)
def test_settings_of_training_need_what_they_are_for(asked: dict[str, Any], mended: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(asked))) as caught:
        check_effects(tree(asked))
    assert all(dotted in str(caught.value) for dotted in mended)
    check_effects(tree({**asked, **mended}))


def test_what_the_model_has_by_itself_is_not_asked_for() -> None:
    stored = DecodingConfig.from_dict({"length_penalty": 1.0, "temperature": 0.7, "max_length_offset": 90})
    assert changed_options(stored, {"beam_size": 1}).length_penalty == 1.0
    assert changed_options(stored, {"max_length": 5}).max_length == 5
    assert changed_options(stored, {"n_best": 3, "sampling": True}).n_best == 3


def test_defaults_and_what_is_off_may_be_said() -> None:
    defaults = {one.dotted: one.default for one in all_settings() if one.section and one.default is not ...}
    check_effects(tree({dotted: value for dotted, value in defaults.items() if value is not None}))
    changed_options(DecodingConfig(), {"length_penalty": 0.0, "beam_size": 1, "temperature": 1.0, "loop_guard": 0})


def test_what_is_chosen_later_counts_then() -> None:
    given = tree({"training.muon_momentum": 0.9})
    check_effects(given)
    check_effects(given.replace({"training": {"muon_momentum": 0.9, "optimizer": "muon"}}), given)
    with pytest.raises(ConfigError, match="muon_momentum"):
        check_effects(given.replace({"training": {"muon_momentum": 0.9, "optimizer": "adam"}}), given)


def test_a_chosen_value_is_no_mistake_of_the_user() -> None:
    given = tree({"training.optimizer": "adam"})
    check_effects(given.replace({"training": {"optimizer": "adam", "muon_rate_factor": 2.0}}), given)


@pytest.mark.parametrize(("name", "value", "kind"), [("min_count", 3, "bpe"), ("character_coverage", 0.9, "word")])
def test_a_kind_of_vocabulary_that_was_chosen_counts(name: str, value: object, kind: str) -> None:
    words = [Pair("a b a", "x y x", "f", number) for number in range(9)]
    text = [Pair("It is late, isn't it?", "Es ist spät, oder?", "f", number) for number in range(9)]
    config = tree({f"tokenizer.{name}": value}).tokenizer
    pairs = text if kind == "bpe" else words
    with pytest.raises(ConfigError, match=f"tokenizer.{name} has no effect"):
        TokenizerPair.train(pairs, config)


def test_all_needs_name_settings() -> None:
    known = {one.dotted: one for one in all_settings()}
    for one in known.values():
        for need in one.needs:
            assert need.keys() <= known.keys(), one.dotted
            assert one.section != "decoding" or all(name.startswith("decoding.") for name in need)
