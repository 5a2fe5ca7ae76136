from __future__ import annotations

import pytest

from dragoman.evaluation import count_words, split_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  a  b\tc\n", ["a", "b", "c"]),
        ("Stop, (please)!", ["Stop", ",", "(", "please", ")!"]),
        ("it's a T-shirt ...", ["it's", "a", "T-shirt", "..."]),
        ("猫吃fish。", ["猫", "吃", "fish", "。"]),
        ("いぬ と ネコ", ["い", "ぬ", "と", "ネ", "コ"]),
        ("मैं ही हूँ", ["मैं", "ही", "हूँ"]),
        ("I_TURN_LEFT @-@ 3.5", ["I_TURN_LEFT", "@-@", "3.5"]),
    ],
)
def test_lines_are_taken_apart_into_words(line: str, words: list[str]) -> None:
    assert split_words(line) == words


def test_nothing_but_white_space_is_lost() -> None:
    line = "«Ein Haus», sagte 他们, 'ist (k)ein Haus!'"
    assert "".join(split_words(line)) == "".join(line.split())


def test_words_are_counted_over_lines_and_with_their_case_unless_told_otherwise() -> None:
    lines = ["The cat, the cat", "the dog"]
    assert count_words(lines) == {"The": 1, "the": 2, "cat": 2, "dog": 1, ",": 1}
    assert count_words(lines, lowercase=True) == {"the": 3, "cat": 2, "dog": 1, ",": 1}
