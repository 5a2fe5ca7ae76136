"""The metric that fits the references, and what a number that means little says of itself."""

from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman.evaluation import Metric, compare, contrast, doubt_size, fitting_metric, score, worst_sentences
from dragoman.evaluation.breakdown import break_down
from dragoman.evaluation.report import breakdown_tables, contrast_tables

LONG = "It rained all day long."


@pytest.mark.parametrize(
    ("references", "language", "name"),
    [
        ([LONG] * 3, None, "bleu"),
        ([LONG, LONG, "Yes."], None, "bleu"),
        ([LONG, "Yes.", "No."], None, "chrf"),
        (["Anna Karenina", "Jane Eyre"], None, "chrf"),
        (["cats", "dogs", ""], None, "exact"),
        (["猫吃鱼了", "狗喝水了"], "zh", "bleu"),
        (["猫吃", "狗喝"], "zh", "chrf"),
        (["猫", "狗"], "zh", "exact"),
        (["猫吃鱼了", "狗喝水了"], None, "chrf"),
    ],
)
def test_bleu_is_for_references_of_four_of_its_tokens(references, language, name) -> None:
    metric, why = fitting_metric(references, Metric("bleu", language))
    assert metric.name == name
    assert why


@pytest.mark.parametrize("references", [["x y", "z w"], ["one", "two"], [LONG, "one", "two"]])
def test_a_bleu_without_four_grams_has_a_note_and_others_have_none(references: list[str]) -> None:
    bleu, exact = score(references, references, metrics=("bleu", "exact"), bootstrap=0)
    assert "4" in str(bleu.note)
    assert str(bleu.note) in str(bleu)
    assert bleu.to_dict()["note"] == bleu.note
    assert exact.note is None
    [whole] = score([LONG] * 3, [LONG] * 3, metrics=("bleu",), bootstrap=0)
    assert (whole.note, whole.value, whole.smoothed) == (None, 100.0, False)


def test_a_bleu_from_smoothing_ranks_nothing() -> None:
    [found] = score(["It rained much yesterday"], [LONG], metrics=("bleu",), bootstrap=0)
    assert found.smoothed
    assert found.rank == 0.0 < found.value


def test_short_references_are_compared_by_what_tells_them_apart() -> None:
    references = [f"word{number}" for number in range(50)]
    found = compare(references, ["x"] * 50, references, samples=50)
    assert (found.a.name, found.a.value, found.b.value) == ("exact", 100.0, 0.0)
    by_bleu = compare(references, ["x"] * 50, references, "bleu", samples=50)
    assert by_bleu.notes
    assert by_bleu.notes[0] in str(by_bleu)


def test_a_tokenizer_is_for_bleu_alone() -> None:
    for name in ("chrf", "exact", "ter"):
        with pytest.raises(ConfigError, match="tokenizer"):
            Metric(name, tokenize="zh").check()


def test_small_sets_say_what_they_can_tell() -> None:
    assert "22 points" in str(doubt_size(20))
    assert "1 pair is" in str(doubt_size(1))
    assert doubt_size(500) is None


def test_blank_for_blank_is_no_sentence_to_read_and_text_for_blank_is() -> None:
    references = [LONG, "", "Yes."]
    for metric in ("chrf", "bleu", "exact", "ter"):
        rows = [one.line for one in worst_sentences([LONG, "", "No."], references, metric=metric).sentences]
        assert rows == [3, 1]
        worse = worst_sentences([LONG, "Boo", "Yes."], references, metric=metric).sentences
        assert worse[0].line == 2
        found = contrast([LONG, "", "Yes."], [LONG, "Boo", "Yes."], references, metric=metric, samples=10)
        assert [one.line for one in found.better_a] == [2]
        assert not found.better_b
        assert found.faults[1].invented == (2,)


def test_rows_of_blank_references_have_no_number_but_that_of_whole_lines() -> None:
    lines = [LONG, ""]
    found = break_down(lines, lines, metrics=("bleu", "chrf", "exact", "wer"), bootstrap=20)
    blank = next(row for row in breakdown_tables(found)[0].rows if row[0] == "0")
    assert list(blank[2:]) == ["–", "–", "100.00", "–"]
    assert found.by_length[0].to_dict()["scores"]["bleu"] == {"value": None, "low": None, "high": None}
    both = contrast(lines, [LONG, "Boo"], lines, metric="bleu", samples=20)
    assert "–" in contrast_tables(both)[0].to_text()
    assert both.to_dict()["by_length"][0]["difference"] is None


def test_text_for_a_blank_reference_is_told_where_chrf_does_not_count_it() -> None:
    references = [LONG, ""]
    assert "blank" in str(score([LONG, "Boo"], references, metrics=("chrf",), bootstrap=0)[0].note)
    assert score([LONG, ""], references, metrics=("chrf",), bootstrap=0)[0].note is None
