"""Values held against types: what is certain is converted, all else is refused by name and in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.values import SHOWN, Before, Bounds, Like, Mistake, convert, in_words, shown, told

NOTHING = object()


def read(value: object, kind: Any) -> tuple[object, list[Mistake]]:
    mistakes: list[Mistake] = []
    return convert(value, kind, "x", mistakes), mistakes


def taken(value: object, kind: Any) -> object:
    found, mistakes = read(value, kind)
    return NOTHING if mistakes else found


# What can be converted


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_are_read_from_text_as_from_numbers(number: int) -> None:
    for text in (str(number), f" {number}\n", f"{number}.0", f"{number:_}", f"{number:+}"):
        assert taken(text, int) == number
    if abs(number) <= 2**53:
        assert taken(float(number), int) == number
        assert taken(number, float) == float(number)
    assert taken(np.int64(number % 2**60), int) == number % 2**60


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_back_from_their_text(number: float) -> None:
    assert taken(str(number), float) == number
    assert taken(f"\t{number} ", float) == number
    assert taken(np.float64(number), float) == number
    if number != int(number):
        assert taken(number, int) is NOTHING
        assert taken(str(number), int) is NOTHING


@pytest.mark.parametrize(
    "text",
    ["", "3.", "3.5", "1e3", "0x10", "0b1", "1__0", "_1", "- 3", "++1", "1 000", "３", "٣", "many", "9" * 5000, "nan"],
)
def test_what_is_not_certainly_a_whole_number_is_refused(text: str) -> None:
    assert taken(text, int) is NOTHING


@pytest.mark.parametrize(
    "value", ["inf", "-Infinity", "nan", "1e400", "３.5", "", "1__0", 10**400, float("nan"), 1j, b"3"]
)
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    assert taken(value, float) is NOTHING


def test_yes_and_no_have_several_words() -> None:
    yes = ("true", "T", "Yes", "y", "ON", "1", 1, 1.0, np.bool_(True), True)
    no = ("false", "F", "No", "n", "OFF", "0", 0, 0.0, np.bool_(False), False)
    assert [taken(word, bool) for word in yes] == [True] * len(yes)
    assert [taken(word, bool) for word in no] == [False] * len(no)
    assert [taken(word, bool) for word in ("", " true", "2", 2, 0.5, None, [], "oui")] == [NOTHING] * 8


@pytest.mark.parametrize("value", [b"a", 3, None, Path("a"), ["a"], "\udc80"])
def test_only_text_is_text(value: object) -> None:
    assert taken(value, str) is NOTHING
    assert taken("ä\n", str) == "ä\n"


@given(st.lists(st.integers()))
def test_any_sequence_may_stand_for_a_tuple(items: list[int]) -> None:
    for given_as in (items, tuple(items), iter(items), [str(item) for item in items]):
        assert taken(given_as, tuple[int, ...]) == tuple(items)


@pytest.mark.parametrize("value", ["12", {1: 2}, 3, None, [1, "x"], [[1]]])
def test_what_is_no_sequence_of_such_items_is_refused(value: object) -> None:
    assert taken(value, tuple[int, ...]) is NOTHING


def test_none_stands_where_it_may_and_nowhere_else() -> None:
    assert taken(None, int | None) is None
    assert taken("3", int | None) == 3
    assert taken(None, int) is NOTHING
    assert taken("none", int | None) is NOTHING


def test_words_are_one_of_those_there_are() -> None:
    assert taken("pre", Literal["pre", "post"]) == "pre"
    found = taken(np.str_("pre"), Literal["pre", "post"])
    assert (found, type(found)) == ("pre", str)
    for value in ("PRE", "", b"pre", None, ["pre"], 1j):
        assert taken(value, Literal["pre", "post"]) is NOTHING


def test_what_is_done_before_comes_before() -> None:
    def several(value: object) -> object:
        return [value] if isinstance(value, str) else value

    one_or_more = Annotated[tuple[str, ...], Before(several, "names")]
    assert taken("ab", one_or_more) == ("ab",)
    assert read(3, one_or_more)[1] == [Mistake("x", "expected names (found 3)")]


def test_text_may_have_to_look_like_something() -> None:
    digest = Annotated[str, Like("[0-9a-f]{4}", "four digits")]
    assert taken("0a1b", digest) == "0a1b"
    for value in ("0a1b\n", "0a1", "0A1B", 1000):
        assert read(value, digest)[1] == [Mistake("x", f"expected four digits (found {value!r})")]


def test_regular_expressions_are_compiled() -> None:
    found = taken("a+", re.Pattern[str])
    assert isinstance(found, re.Pattern)
    assert found.fullmatch("aa")
    assert taken("(", re.Pattern[str]) is NOTHING


# Bounds


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-7, 7))
def test_the_words_of_bounds_say_where_they_hold(low: int, high: int, value: int) -> None:
    bounds = Bounds(gt=low, lt=high)
    assert bounds.hold(value) == (low < value < high)
    assert in_words(Annotated[int, bounds]) == f"a whole number from {low + 1} to {high - 1}"
    assert (taken(value, Annotated[int, bounds]) == value) == bounds.hold(value)


def test_bounds_are_told_as_people_say_them() -> None:
    assert in_words(Annotated[int, Bounds(gt=0)]) == "a whole number of at least 1"
    assert in_words(Annotated[int, Bounds(le=2**20)]) == "a whole number of at most 1,048,576"
    assert in_words(Annotated[float, Bounds(gt=0, le=1)]) == "a number above 0 and at most 1"
    assert in_words(Annotated[float, Bounds(ge=0, lt=1)] | None) == "a number of at least 0 and below 1"
    assert in_words(tuple[Annotated[float, Bounds(ge=0, le=1)], ...]) == "a list, each item a number from 0 to 1"
    assert in_words(Literal["a", "b", "c"]) == "a, b or c"


# Tables


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, Bounds(ge=0)]
    name: str = "n"


@dataclass(frozen=True)
class Outer:
    one: Inner
    many: dict[str, tuple[Inner, ...]] = field(default_factory=dict)


def test_tables_become_dataclasses_at_any_depth() -> None:
    tree = {"one": {"size": "3"}, "many": {"a": [{"size": 1, "name": "m"}], "b": []}}
    assert taken(tree, Outer) == Outer(Inner(3), {"a": (Inner(1, "m"),), "b": ()})
    assert taken(Outer(Inner(3)), Outer) == Outer(Inner(3))


def test_every_mistake_of_a_table_is_told_with_its_place() -> None:
    tree = {"many": {"a": [{"size": -1}, 7], "b": [{"size": 1, "nam": 2}]}, "more": 1}
    assert list(map(str, read(tree, Outer)[1])) == [
        "x.many.a.0.size: expected a whole number of at least 0 (found -1)",
        "x.many.a.1: expected a table (found 7)",
        "x.many.b.0.nam: there is no such name here; did you mean 'name'? (found 2)",
        "x.one: must be given (a table)",
        "x.more: there is no such name here (found 1)",
    ]
    assert read([], dict[str, int])[1] == [Mistake("x", "expected a table (found [])")]


def test_what_is_shown_is_short_whatever_it_is() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 10**6, 10**5000, deep, list(range(10**5))):
        assert len(shown(value)) < 120
    assert shown("ä") == "'ä'"


def test_any_number_of_mistakes_is_told_briefly_and_at_once() -> None:
    tree = {"size": 1} | {f"sise{number}": number for number in range(20_000)} | {"x" * 10**6: 1}
    mistakes = read(tree, Inner)[1]
    assert len(mistakes) == 20_001
    rows = told(mistakes).split("\n")
    assert rows[1] == "  x.sise0: there is no such name here (found 0)"
    assert rows[-1] == f"  and {20_001 - SHOWN:,} more"
    assert len(told(mistakes)) < 100 * SHOWN
    assert len(str(mistakes[-1])) < 300
