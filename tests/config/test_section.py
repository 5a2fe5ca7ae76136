"""Sections: what was given is checked, kept and told apart; every setting is known in full."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import (
    SECTIONS,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    Section,
    Setting,
    TrainConfig,
    TrainingConfig,
    all_settings,
)
from dragoman.config.values import Bounds
from dragoman.errors import ConfigError

SETTINGS = [one for one in all_settings() if one.section]
numbers = [0, 1, 2, 8, -1, 10**18, 2**53 + 1, 10**400, 0.0, 0.5, 1.0, -0.5, 1e300, float("nan"), float("inf"), True]
words = ["", "auto", "3", "0.5", "true", "post", "all", "rotary", "causal", "bpe", "power", "ä", "\udc80", b"x"]
others = [None, [], {}, ["a", "b"], ("a",), [1, 2], [None], {"d_model": 8}, Path("p"), [Path("q"), "r"], 1j]
values = st.sampled_from([*numbers, *words, *others])


def trees(kind: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*kind.settings, "nonsense"]), values, max_size=4)


# Dicts of a few settings, right or wrong; and now and then something else in a section's place.
whole = st.fixed_dictionaries(
    {"out": st.just("r")}, optional={name: trees(kind) | values for name, kind in SECTIONS.items()}
)


def told(make: Any, *args: Any) -> tuple[object, ...]:
    """What came out, with which of it was given; or what was said."""
    try:
        made = make(*args)
    except ConfigError as error:
        return ("refused", str(error))
    return (repr(made), repr(made.to_dict(unset=False)))


# Values


@given(whole)
def test_what_was_taken_is_taken_again_and_what_was_not_is_named(tree: dict[str, Any]) -> None:
    try:
        config = TrainConfig.from_dict(tree)
    except ConfigError as error:
        first, *rows = error.message.split("\n")
        assert first == "the settings do not hold together:"
        assert rows
        for row in rows:
            place = row.strip().partition(": ")[0]
            named = place.partition(".")[0] in tree or place.startswith("r_drop_after") or place == "out"
            assert named or " " in place  # two that contradict each other are told by what they say
        return
    assert TrainConfig.from_dict(config.to_dict()) == config
    assert TrainConfig.from_dict(config.to_dict(unset=False)).to_dict(unset=False) == config.to_dict(unset=False)
    for name, kind in SECTIONS.items():
        assert kind.from_dict(getattr(config, name).to_dict()) == getattr(config, name)
        assert getattr(config, name).replace({}) == getattr(config, name)


@given(trees(DecodingConfig), trees(DecodingConfig))
def test_a_changed_copy_is_one_of_all_that_was_given(first: dict[str, Any], second: dict[str, Any]) -> None:
    try:
        start = DecodingConfig.from_dict(first)
    except ConfigError:
        return
    assert told(start.replace, second) == told(DecodingConfig.from_dict, {**start.to_dict(unset=False), **second})


def test_every_default_is_of_its_type_and_they_hold_together() -> None:
    for kind in SECTIONS.values():
        assert kind.from_dict(kind().to_dict()) == kind()


def outside(kind: Any) -> list[object]:
    """Values that a type does not take: just beyond each bound, and what is of no such type."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if get_origin(kind) is Literal:
        return ["nonsense", 3, None, ["auto"]]
    if get_origin(kind) is Annotated and (bounds := [part for part in parts if isinstance(part, Bounds)]):
        (one,) = bounds
        step = 1 if parts[0] is int else 1e-9
        beyond = [one.gt, one.lt]
        beyond += [None if one.ge is None else one.ge - step, None if one.le is None else one.le * (1 + 1e-9) + step]
        return [value for value in beyond if value is not None] + ["many", [], 1j]
    if get_origin(kind) is Annotated:
        return [3, 1j, {}]
    if get_origin(kind) is tuple:
        return [[value] for value in outside(parts[0])] + ["many", 3]
    if parts:  # or None
        return [value for value in outside(parts[0]) if value is not None]
    return {bool: ["many", 2, []], int: ["many", 0.5], str: [3, []]}[kind]


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.dotted)
def test_each_setting_refuses_what_is_outside_and_names_itself(one: Setting) -> None:
    wrong = outside(one.kind)
    assert wrong
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            TrainConfig.from_dict({"out": "r", one.section: {one.name: value}})
        row = caught.value.message.split("\n")[1]
        assert row.startswith(f"  {one.dotted}")
        assert row.endswith(")")
        assert "expected " in row
        with pytest.raises(ConfigError, match=rf"  {one.dotted}[.:]"):
            SECTIONS[one.section].from_dict({one.name: value})


@pytest.mark.parametrize(
    "name", ["max_length", "min_length", "max_length_offset", "max_source_length", "no_repeat_ngram", "loop_guard"]
)
def test_lengths_fit_the_native_library(name: str) -> None:
    assert getattr(DecodingConfig.from_dict({name: 2**20}), name) == 2**20
    for value in (2**20 + 1, 2**31 - 1, 2**31, 2**32 + 5):
        with pytest.raises(ConfigError, match=rf"decoding\.{name}: expected a whole number from [01] to 1,048,576"):
            DecodingConfig.from_dict({name: value})


def test_threads_are_no_more_than_a_machine_bears() -> None:
    assert TrainingConfig(threads=1024).threads == 1024
    with pytest.raises(ConfigError, match=r"training\.threads: expected a whole number from 1 to 1,024"):
        TrainingConfig(threads=1025)


def test_text_of_the_command_line_is_converted() -> None:
    config = TrainConfig(out=Path("r"), data=DataConfig(source="a", target=[Path("b")]), model={"d_model": "8"})
    assert (config.out, config.data.target, config.model) == ("r", ("b",), ModelConfig(d_model=8))
    assert TrainConfig(out="r") == TrainConfig.from_dict({"out": "r", "data": {}})
    assert DecodingConfig.from_dict({"beam_size": "4", "sampling": "yes"}) == DecodingConfig(sampling=True)


def test_names_that_others_use_are_answered() -> None:
    with pytest.raises(ConfigError, match=r"'num_beams' is called 'decoding.beam_size' here"):
        DecodingConfig.from_dict({"num_beams": 3})
    with pytest.raises(ConfigError, match=r"beam_sise: .* did you mean 'beam_size'"):
        DecodingConfig().replace({"beam_sise": 3})


# What is known of each


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.dotted)
def test_each_setting_is_known_in_full(one: Setting) -> None:
    assert one.description[:1].isupper()
    assert one.description.endswith(".")
    assert "\n" not in one.description
    assert one.expected != "a table"
    assert SECTIONS[one.section].settings[one.name] is one
    assert not (one.changeable and one.content)
    if one.content:
        assert "run" in one.content
    # What a setting did before it was there is what it can be told to do now.
    if one.before not in (..., None):
        assert getattr(SECTIONS[one.section].from_dict({one.name: one.before}), one.name) == one.before


def test_all_settings_are_those_of_the_tree() -> None:
    names = [one.dotted for one in all_settings()]
    tree = TrainConfig(out="r").to_dict()
    assert names == ["out", *(f"{name}.{key}" for name in SECTIONS for key in tree[name])]


def test_nothing_of_the_work_may_change_when_a_run_is_resumed() -> None:
    free = {one.dotted for one in all_settings() if one.changeable}
    assert {"out", "data.source", "training.max_steps", "decoding.beam_size", "validation.every"} <= free
    assert not free & {"training.seed", "training.learning_rate", "model.d_model", "tokenizer.kind", "data.repeat"}


# Sections


def test_a_section_of_another_kind_is_not_taken_for_one() -> None:
    with pytest.raises(ConfigError, match="data: "):
        TrainConfig.from_dict({"out": "r", "data": ModelConfig()})
    tree = {"out": "r", "data": DataConfig(source=("a",)), "model": {"d_model": "wide"}}
    with pytest.raises(ConfigError, match=r"model\.d_model") as caught:
        TrainConfig.from_dict(tree)
    assert "data" not in str(caught.value)
    assert TrainConfig.from_dict({**tree, "model": {"d_model": "8"}}).to_dict(unset=False) == {
        "out": "r", "data": {"source": ("a",)}, "model": {"d_model": 8},
    }  # fmt: skip


def test_what_was_given_is_known_though_it_is_the_default() -> None:
    config = TrainConfig(out="r", decoding=DecodingConfig(beam_size=4))
    assert (config.given, config.decoding.given) == ({"out", "decoding"}, {"beam_size"})
    assert config == TrainConfig(out="r")
    assert hash(config) == hash(TrainConfig(out="r"))
    assert config.to_dict(unset=False) == {"out": "r", "decoding": {"beam_size": 4}}
    assert "d_model" not in config.to_dict(none=False)["model"]
    for same in (copy.copy(config), copy.deepcopy(config)):
        assert (same, same.decoding.given, repr(same)) == (config, config.decoding.given, repr(config))


def test_it_cannot_be_changed_in_place() -> None:
    config = DecodingConfig()
    with pytest.raises(AttributeError, match="frozen"):
        config.beam_size = 3
    with pytest.raises(AttributeError, match="frozen"):
        del config.beam_size
    assert config == DecodingConfig()
