"""Settings are found by their names, by what they mean and by what others call them, and all is told of each."""

from __future__ import annotations

import inspect

import pytest

import dragoman
from dragoman.config import SECTIONS, all_settings
from dragoman.errors import ConfigError


def names(word: str) -> list[str]:
    return [one.dotted for one in dragoman.settings(word)]


def test_without_a_word_all_are_listed_once() -> None:
    assert names("") == [one.dotted for one in all_settings()]
    text = repr(dragoman.settings())
    for one in all_settings():
        assert text.count(f"\n  {one.dotted} = ") == 1


@pytest.mark.parametrize("one", tuple(all_settings()), ids=lambda one: one.dotted)
def test_each_is_found_by_every_name_it_has_and_told_in_full(one: dragoman.config.Setting) -> None:
    for name in (one.dotted, one.name, one.dotted.upper(), *one.elsewhere):
        assert one.dotted in names(name), name
    told = " ".join(repr(dragoman.settings(one.dotted)).split())
    for part in (one.description, one.expected, one.flag, one.shown_default):
        assert " ".join(part.split()) in told


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_listed_whole(section: str) -> None:
    assert names(section) == [one.dotted for one in all_settings() if one.section == section]


def test_words_of_the_meaning_and_answers_are_found() -> None:
    assert "training.label_smoothing" in names("spread over")
    assert "training.tensorboard" in names("TensorBoard")
    assert {"decoding.beam_size", "decoding.n_best"} <= set(names("beam")) | set(names("outputs"))
    found = dragoman.settings("fp16")
    assert [one.dotted for one in found] == ["training.precision"]
    assert str(found.answer) in " ".join(repr(found).split())


def test_what_is_nowhere_is_refused_and_a_slip_answered() -> None:
    with pytest.raises(ConfigError) as caught:
        dragoman.settings("xyzzy")
    assert caught.value.hint == "`dragoman settings` lists all settings"
    with pytest.raises(ConfigError) as caught:
        dragoman.settings("lerning_rate")
    assert caught.value.hint == "did you mean 'learning_rate'?"


def test_a_setting_without_a_default_says_how_it_is_chosen() -> None:
    """Or is off, or nothing, unless it is given: then its description does without the word `unset`."""
    off = {"data.prepared", "data.max_length_ratio", "training.unigram_alpha", "training.max_minutes",
           "training.init_from", "training.license", "training.max_epochs", "data.mixing_temperature",
           "training.add_tokens"}  # fmt: skip
    assert {one.dotted for one in all_settings() if one.default is None and not one.chosen} == off
    assert [one.dotted for one in all_settings() if one.chosen and one.default is not None] == []


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_are_as_wide_as_was_asked_for(width: int) -> None:
    lines = dragoman.settings().to_text(width=width).split("\n")
    assert [line for line in lines if line.startswith("      ") and len(line) > width and " " in line.strip()] == []


@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS)
def test_help_tells_of_every_setting(section: type[dragoman.config.Section]) -> None:
    told = inspect.getdoc(section) or ""
    for name, one in section.settings.items():
        assert f"{name} = {one.shown_default}: {one.description}" in told
