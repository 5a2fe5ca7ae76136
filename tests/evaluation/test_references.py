from __future__ import annotations

import pytest

from dragoman.errors import DataError
from dragoman.evaluation import compare, group_references, score


def test_lines_with_one_source_are_grouped_in_order_without_repeats() -> None:
    sources = ["T O", "A N", "T O", "I T", "A N", "T O"]
    references = ["t uw", "ae n", "t ah", "ih t", "ae n", "t uw"]
    assert group_references(sources, references) == (["T O", "A N", "I T"], [("t uw", "t ah"), ("ae n",), ("ih t",)])


def test_grouping_refuses_unequal_counts() -> None:
    with pytest.raises(DataError, match=r"2 references(.|\n)*1 references"):
        group_references(["a", "b"], ["x"])


@pytest.mark.parametrize(
    ("hypotheses", "references", "complaint"),
    [
        (["a"], ["a", "b"], r"expected: 2 hypotheses(.|\n)*found:    1 hypotheses"),
        ([], [], "0 hypotheses, 0 references"),
        (["a", "b"], [["a"], []], r"line 2: no reference"),
        (["a", "b"], ["", " \t"], "2 lines without text"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_counts(
    hypotheses: list[str], references: list[str], complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        score(hypotheses, references, metrics=("exact",))


def test_each_system_of_a_comparison_is_checked() -> None:
    with pytest.raises(DataError, match="1 hypotheses"):
        compare(["a", "b"], ["a"], ["a", "b"])


def test_one_string_is_not_a_sequence_of_lines() -> None:
    with pytest.raises(TypeError, match="not one string"):
        score("abc", "abc")
