from __future__ import annotations

import random

import pytest

from dragoman.errors import DataError
from dragoman.evaluation import find_faults
from dragoman.evaluation.faults import longest_repeat


def repeat_by_hand(words: list[int]) -> tuple[int, int]:
    """The definition: try every place, size and number of times."""
    best = (0, 1)
    for size in range(1, len(words) + 1):
        for first in range(len(words)):
            times = 1
            while words[first + times * size : first + (times + 1) * size] == words[first : first + size]:
                times += 1
                if first + (times + 1) * size > len(words):
                    break
            if first + times * size <= len(words) and times > best[1]:
                best = (size, times)
    return best


def test_the_longest_repeat_is_that_of_the_definition() -> None:
    draw = random.Random(0)
    for _ in range(300):
        words = draw.choices(range(2), k=draw.randint(0, 14))
        assert tuple(longest_repeat(words)) == repeat_by_hand(words)


def test_each_fault_is_found_on_its_line_only() -> None:
    lines = [
        ("das ist gut", "this is good", "this is good"),
        ("leer", "", "empty"),
        ("ein Haus", "Ein  haus", "a house"),
        ("er sagte", "he said he said he said", "he said so to them"),
        ("kurz", "no", "this one is not short at all"),
        ("lang", "this one goes on for much longer than it should", "long, it is"),
        ("", "", ""),
        ("NATO", "NATO", "NATO"),
        ("ja ja ja ja", "yes yes yes yes", "yes yes yes yes"),
    ]
    sources, outputs, references = map(list, zip(*lines, strict=True))
    found = find_faults(outputs, references, sources, cut=[9, 4])
    assert (found.empty, found.copied, found.looping) == ((2,), (3,), (4,))
    assert (found.short, found.long, found.cut) == ((5,), (6,), (4, 9))
    assert found.lines == (2, 3, 4, 5, 6, 9)


@pytest.mark.parametrize(
    ("output", "looping"),
    [("no no no", False), ("no no no no", True), ("a b a b", False), ("a b a b a b", True), ("猫猫猫猫", True)],
)
def test_a_loop_needs_three_times_and_three_more_words(output: str, looping: bool) -> None:
    assert bool(find_faults([output], ["x y z x"]).looping) == looping


def test_what_any_reference_does_too_is_no_fault() -> None:
    assert find_faults(["go go go go"], [("leave", "go go go go")]).lines == ()
    assert find_faults(["go go go go go"], [("leave", "go go go go")]).looping == (1,)
    assert find_faults([""], [("", "x")]).empty == ()
    assert find_faults(["x" * 30], [("y" * 60, "z")]).lines == ()


def test_what_is_not_known_is_not_said_to_be_absent() -> None:
    found = find_faults(["a"], ["a"])
    assert (found.copied, found.cut) == (None, None)
    assert find_faults(["a"], ["a"], ["b"], cut=()).copied == ()


def test_counts_must_agree() -> None:
    with pytest.raises(DataError, match="differ in number"):
        find_faults(["a"], ["a", "b"])
