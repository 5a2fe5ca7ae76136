from __future__ import annotations

import json
import random

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Metric, break_down, score


def made(lines: int = 100) -> tuple[list[str], list[str], list[str]]:
    """Sources of 2 to 21 words; outputs right on the shorter half, without the last word on the rest."""
    draw = random.Random(0)
    references = [" ".join(draw.choices(["ba", "ce", "di", "fo", "gu"], k=2 + row % 20)) for row in range(lines)]
    outputs = [line if row % 20 < 10 else line.rpartition(" ")[0] for row, line in enumerate(references)]
    return [line.upper() for line in references], outputs, references


def test_a_group_has_the_scores_of_its_lines_alone() -> None:
    sources, outputs, references = made()
    found = break_down(outputs, references, sources, metrics=["exact", "chrf"], bootstrap=100)
    assert (found.length_of, found.length_unit, sum(one.lines for one in found.by_length)) == ("source", "words", 100)
    for group in found.by_length:
        low, high = map(int, group.label.split("-"))
        rows = [row for row, source in enumerate(sources) if low <= len(source.split()) <= high]
        alone = score([outputs[row] for row in rows], [references[row] for row in rows], metrics=["exact", "chrf"],
                      bootstrap=100)  # fmt: skip
        assert list(group.scores) == alone
    assert [found.by_length[place].scores[0].value for place in (0, -1)] == [100.0, 0.0]


def test_unknown_pieces_and_training_words_are_used_where_they_are_known() -> None:
    sources, outputs, references = made(40)
    plain = break_down(outputs, references, metrics=["exact"], bootstrap=0)
    assert (plain.length_of, plain.by_unknown, plain.frequencies_of) == ("reference", (), "references")
    assert plain.by_length[0].scores[0].low is None
    unknown = [int(row >= 30) for row in range(40)]
    full = break_down(outputs, references, sources, metrics=["exact"], bootstrap=0, unknown=unknown,
                      frequencies={"ba": 3}, cut=[7])  # fmt: skip
    assert [(one.label, one.lines) for one in full.by_unknown] == [("none", 30), ("1", 10)]
    assert (full.frequencies_of, [one.label for one in full.words]) == ("training targets", ["0", "2-9"])
    assert (full.faults.cut, plain.faults.cut) == ((7,), None)
    tree = json.loads(json.dumps(full.to_dict()))
    assert tree["by_unknown"][1]["scores"]["exact"]["value"] == full.by_unknown[1].scores[0].value
    assert tree["faults"]["cut"] == [7]
    assert {"recall", "precision", "f1", "label"} <= tree["words"][0].keys()


def test_what_does_not_fit_together_is_refused() -> None:
    sources, outputs, references = made(4)
    with pytest.raises(DataError, match="differ in number"):
        break_down(outputs, references, sources[1:], bootstrap=0)
    with pytest.raises(ConfigError, match="no metric"):
        break_down(outputs, references, metrics=["blue"])
    with pytest.raises(ConfigError, match="out of range"):
        break_down(outputs, references, bootstrap=-1)


def test_one_metric_in_two_ways_is_two_columns_and_words_ignore_case_where_all_do() -> None:
    strict, loose = Metric("exact"), Metric("exact", lowercase=True)
    found = break_down(["A b", "c d"], ["a b", "c d"], metrics=[strict, loose], bootstrap=0)
    assert [[one.value for one in group.scores] for group in found.by_length] == [[50.0, 100.0]]
    matched = [
        sum(one.matched for one in break_down(["A b"], ["a b"], metrics=metrics, bootstrap=0).words)
        for metrics in ([strict], [strict, loose], [loose])
    ]
    assert matched == [1, 1, 2]
