from __future__ import annotations

import pytest

from dragoman.evaluation import WordClass
from dragoman.evaluation.word_classes import word_classes


def test_words_are_matched_once_and_counted_by_their_frequency_in_training() -> None:
    frequencies = {"the": 5000, "cat": 50, "ocelot": 1}
    references = [("the the ocelot sleeps",), ("the cat",)]
    outputs = ["the the the cat sleeps", "the cat cat"]
    found = word_classes(outputs, references, frequencies=frequencies)
    assert found == [
        WordClass("0", in_references=1, in_outputs=1, matched=1),
        WordClass("1", in_references=1, in_outputs=0, matched=0),
        WordClass("10-99", in_references=1, in_outputs=3, matched=1),
        WordClass("1000 or more", in_references=3, in_outputs=4, matched=3),
    ]
    rates = found[2]
    assert (rates.recall, rates.precision, rates.f1) == pytest.approx((100.0, 100 / 3, 50.0))
    assert (found[1].recall, found[1].precision, found[1].f1) == (0.0, 0.0, 0.0)


def test_without_training_words_the_references_tell_what_is_rare() -> None:
    references = [("a rare bird",), ("a cat",), ("a cat",), ("a dog",)]
    perfect = word_classes([one for (one,) in references], references)
    assert [(one.label, one.in_references) for one in perfect] == [("1", 3), ("2-3", 2), ("4-9", 4)]
    assert all(one.f1 == 100.0 for one in perfect)
    # What no reference has is in the rarest class: it lowers precision there, nothing else.
    noisy = word_classes(["a rare bird xx", "a cat", "a cat", "a dog yy"], references)
    assert noisy[0] == WordClass("1", in_references=3, in_outputs=5, matched=3)
    assert noisy[1:] == perfect[1:]


def test_the_nearest_reference_counts_and_classes_do_not_depend_on_the_output() -> None:
    references = [("one two three", "four five"), ("six", "seven eight")]
    first = word_classes(["four five", "seven"], references)
    other = word_classes(["one three", ""], references)
    assert [one.label for one in first] == [one.label for one in other] == ["1"]
    assert (first[0].in_references, first[0].matched) == (4, 3)
    assert (other[0].matched, other[0].in_outputs) == (2, 2)


def test_case_can_be_ignored() -> None:
    (exact,) = word_classes(["the CAT"], [("The cat",)])
    (loose,) = word_classes(["the CAT"], [("The cat",)], lowercase=True)
    assert (exact.matched, loose.matched) == (0, 2)
