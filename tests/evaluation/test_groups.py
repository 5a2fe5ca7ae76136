from __future__ import annotations

import random

from dragoman.evaluation.groups import GROUPS, group_by_length, group_by_unknown


def test_every_line_is_in_one_group_and_groups_are_of_like_size() -> None:
    draw = random.Random(0)
    texts = ["w " * draw.randint(3, 40) for _ in range(1000)]
    unit, groups = group_by_length(texts)
    assert (unit, len(groups)) == ("words", GROUPS)
    assert sorted(row for group in groups for row in group.rows) == list(range(1000))
    assert all(150 <= len(group.rows) <= 250 for group in groups)
    for group in groups:
        low, high = map(int, group.label.split("-"))
        assert {len(texts[row].split()) for row in group.rows} <= set(range(low, high + 1))


def test_lines_of_one_length_stay_together() -> None:
    _, groups = group_by_length(["a b"] * 90 + ["a b c d"] * 10)
    assert [(group.label, len(group.rows)) for group in groups] == [("2", 90), ("3-4", 10)]
    _, groups = group_by_length(["a b c"])
    assert [(group.label, group.rows) for group in groups] == [("3", (0,))]


def test_single_words_are_measured_in_characters() -> None:
    unit, groups = group_by_length(["cat", "house", "dog", "a cat"])
    assert unit == "characters"
    assert groups[0].rows == (0, 2)
    assert groups[0].label == "3"


def test_what_is_unknown_makes_up_to_three_groups() -> None:
    groups = group_by_unknown([0, 3, 1, 0, 2])
    assert [(group.label, group.rows) for group in groups] == [("none", (0, 3)), ("1", (2,)), ("2 or more", (1, 4))]
    assert [group.label for group in group_by_unknown([0, 0])] == ["none"]
