from __future__ import annotations

import pytest

from dragoman.evaluation import score, worst_sentences


def test_the_worst_come_first_with_all_that_belongs_to_them() -> None:
    outputs = ["the cat sat", "xx", "the dog ran off", "yy"]
    references = [("the cat sat", "a cat sat"), ("the bird",), ("the dog ran",), ("the fish",)]
    found = worst_sentences(outputs, references, ["s1", "s2", "s3", "s4"], metric="bleu", count=3)
    assert found.label == "chrF2"
    assert [one.line for one in found.sentences] == [2, 4, 3]
    worst = found.sentences[0]
    assert (worst.source, worst.hypothesis, worst.references, worst.value) == ("s2", "xx", ("the bird",), 0.0)
    assert [one["line"] for one in found.to_dict()["sentences"]] == [2, 4, 3]
    assert "source" not in worst_sentences(outputs, references, count=1).to_dict()["sentences"][0]


@pytest.mark.parametrize(("metric", "label"), [("word_error", "WER"), ("exact", "CER"), ("per", "PER"), ("ter", "TER")])
def test_where_lower_is_better_the_highest_come_first(metric: str, label: str) -> None:
    found = worst_sentences(["k ae t", "d ao", "b"], ["k ae t", "d ao g", "k aw"], metric=metric, count=9)
    assert (found.label, [one.line for one in found.sentences]) == (label, [3, 2, 1])


def test_a_sentence_has_the_score_of_a_corpus_of_its_own() -> None:
    outputs, references = ["a small cat sat", "dogs ran"], ["a cat sat", "the dogs ran"]
    for one in worst_sentences(outputs, references, metric="chrf").sentences:
        [alone] = score([one.hypothesis], [one.references], metrics=["chrf"], bootstrap=0)
        assert one.value == pytest.approx(alone.value)
