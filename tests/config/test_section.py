"""Sections: what is taken at once is what pydantic would make of it, and nothing else is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import SECTIONS, DataConfig, DecodingConfig, ModelConfig, Section, TrainConfig, section
from dragoman.config.checking import checked
from dragoman.errors import ConfigError

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


@given(st.sampled_from(list(SECTIONS.values())).flatmap(lambda kind: st.tuples(st.just(kind), trees(kind))))
def test_a_section_is_what_pydantic_makes_of_it(case: tuple[type[Section], dict[str, Any]]) -> None:
    kind, tree = case
    assert told(kind.from_dict, tree) == told(checked, kind, tree)


@given(whole)
def test_so_are_sections_in_sections(tree: dict[str, Any]) -> None:
    assert told(TrainConfig.from_dict, tree) == told(checked, TrainConfig, tree)


@given(trees(DecodingConfig), trees(DecodingConfig))
def test_a_changed_copy_is_one_of_all_that_was_given(first: dict[str, Any], second: dict[str, Any]) -> None:
    try:
        start = DecodingConfig.from_dict(first)
    except ConfigError:
        return
    assert told(start.replace, second) == told(DecodingConfig.from_dict, {**start.to_dict(unset=False), **second})


def test_every_default_is_of_its_type_and_they_hold_together() -> None:
    for kind in SECTIONS.values():
        assert checked(kind, kind().to_dict()) == kind()


def test_what_was_written_here_needs_no_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.config.checking.checked", None)
    config = TrainConfig(out=Path("r"), data=DataConfig(source="a", target=[Path("b")]), model={"d_model": 8})
    assert (config.out, config.data.target, config.model) == ("r", ("b",), ModelConfig(d_model=8))
    assert TrainConfig.from_dict(config.to_dict()) == config
    assert TrainConfig(out="r") == TrainConfig.from_dict({"out": "r", "data": {}})
    for kind in SECTIONS.values():
        assert kind.from_dict(kind().to_dict()) == kind()
    with pytest.raises(TypeError):
        DecodingConfig(beam_size="4")


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


def test_bounds_hold_at_their_ends() -> None:
    bounds = section.Bounds(gt=0, le=1)
    assert [bounds.hold(value) for value in (0, 0.5, 1, 1.1)] == [False, True, True, False]
    bounds = section.Bounds(ge=0, lt=1)
    assert [bounds.hold(value) for value in (-1, 0, 0.9, 1)] == [False, True, True, False]
