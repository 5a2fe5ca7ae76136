"""What is told after a translation: once for all lines, with counts and the first numbers."""

from __future__ import annotations

import random

import pytest

from dragoman.config import DecodingConfig
from dragoman.text.lines import LineNumbers
from dragoman.translation.notes import Notes
from dragoman.translation.results import Translation


def result(
    text: str, pieces: int = 4, unknown: int = 0, *, finished: bool = True, truncated: bool = False
) -> Translation:
    return Translation(
        "out", -1.0, -1.0, (), (), source=text, source_tokens=("x",) * pieces, alternatives=(), unknown=unknown,
        finished=finished, truncated=truncated,
    )  # fmt: skip


def test_nothing_is_told_of_what_went_well() -> None:
    notes = Notes(DecodingConfig(), "en")
    for number in range(1, 9):
        notes.add(number, result("It rains."))
    notes.add(9, result("", 0))
    assert list(notes.lines()) == []


@pytest.mark.parametrize("seed", range(4))
def test_each_thing_is_counted_and_told_once(seed: int) -> None:
    draw, notes = random.Random(seed), Notes(DecodingConfig(max_source_length=7), "en")
    rows = [(draw.randrange(3), draw.random() < 0.5, draw.random() < 0.5) for _ in range(30)]
    for number, (unknown, cut, truncated) in enumerate(rows, 1):
        notes.add(number, result("It rains.", 5, unknown, finished=not cut, truncated=truncated))
    told = list(notes.lines())
    assert len(told) == 3
    assert f": {sum(truncated for *_, truncated in rows)} of 30 (lines " in told[0]
    assert f"(source tokens + 50): {sum(cut for _, cut, _ in rows)} of 30 (lines " in told[1]
    unknown = [row[0] for row in rows]
    assert f": {sum(unknown)} of 150, in {sum(map(bool, unknown))} of 30 (lines " in told[2]
    notes.clear()
    assert list(notes.lines()) == []


def test_the_limit_that_was_set_is_named() -> None:
    notes = Notes(DecodingConfig(max_length=5))
    notes.add(3, result("a", finished=False))
    assert list(notes.lines()) == [
        "outputs that the model did not end, cut at the limit (5 tokens): 1 of 1 (line 3); "
        "--set max_length=N allows more"
    ]


def test_another_script_or_mostly_unknown_text_is_told() -> None:
    notes = Notes(DecodingConfig(), "zh")
    notes.add(1, result("The cat sat there", 4, 0))
    [line] = notes.lines()
    assert "hardly a letter in Chinese script" in line
    assert "(line 1)" in line
    unsure = Notes(DecodingConfig(), None)
    unsure.add(1, result("The cat sat there", 4, 3))
    assert "is this the language" in list(unsure.lines())[-1]


@pytest.mark.parametrize("count", [1, 2, 10, 11, 5000])
def test_ten_numbers_are_shown(count: int) -> None:
    numbers = LineNumbers()
    for number in range(count):
        numbers.add(number)
    shown = str(numbers)
    assert shown.startswith("line 0" if count == 1 else "lines 0, 1")
    assert shown.endswith(f" and {count - 10:,} more") == (count > 10)
