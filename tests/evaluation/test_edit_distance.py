from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation import edit_distance
from dragoman.evaluation.edit_distance import edit_kinds

symbols = st.lists(st.integers(0, 3), max_size=9).map(tuple)


@cache
def obvious(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """The definition, taken literally."""
    if not left or not right:
        return len(left) + len(right)
    substituted = obvious(left[1:], right[1:]) + (left[0] != right[0])
    return min(substituted, obvious(left[1:], right) + 1, obvious(left, right[1:]) + 1)


@given(symbols, symbols)
def test_equals_the_definition(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    assert edit_distance(left, right) == obvious(left, right)


@given(st.text(max_size=150), st.text(max_size=150))
def test_is_symmetric_and_bounded_beyond_a_machine_word(left: str, right: str) -> None:
    distance = edit_distance(left, right)
    assert distance == edit_distance(right, left)
    assert abs(len(left) - len(right)) <= distance <= max(len(left), len(right))
    assert (distance == 0) == (left == right)


@given(st.text("ab", max_size=80), st.text("ab", max_size=80), st.text("ab", max_size=80))
def test_obeys_the_triangle_inequality(first: str, second: str, third: str) -> None:
    assert edit_distance(first, third) <= edit_distance(first, second) + edit_distance(second, third)


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        ("kitten", "sitting", 3),
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("猫吃鱼", "猫爱吃鱼", 1),
        ("ab" * 70, "ba" * 70, 2),
    ],
)
def test_known_distances(left: str, right: str, distance: int) -> None:
    assert edit_distance(left, right) == distance


def test_is_right_beyond_a_machine_word() -> None:
    assert edit_distance("ab" * 70, "ba" * 70) == 2


def test_takes_words_as_well_as_characters() -> None:
    assert edit_distance(["the", "cat", "sat"], ["the", "bat", "sat", "down"]) == 2


@given(symbols, symbols)
def test_kinds_of_edits_add_up(found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    kinds = edit_kinds(found, expected)
    assert sum(kinds) == obvious(found, expected)
    assert kinds.insertions - kinds.deletions == len(found) - len(expected)
    assert min(kinds) >= 0
    back = edit_kinds(expected, found)
    assert (back.insertions, back.deletions) == (kinds.deletions, kinds.insertions)


def test_kinds_of_edits_by_hand() -> None:
    assert edit_kinds(["show", "me", "files"], ["show", "me", "my", "files", "please"]) == (0, 2, 0)
    assert edit_kinds(["show", "me", "my", "my", "files"], ["show", "me", "your", "files"]) == (1, 0, 1)
    assert edit_kinds([], ["a"]) == (0, 1, 0)
