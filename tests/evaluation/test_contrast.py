from __future__ import annotations

import json

import pytest

from dragoman.errors import DataError
from dragoman.evaluation import compare, contrast

REFERENCES = [" ".join(["word"] * (2 + row % 10)) + f" w{row}" for row in range(60)]
# A loses the last word of long lines, B the last of short ones, and lines 1 and 2 are wrong in one of them alone.
A = [line if row % 10 < 5 else line.rpartition(" ")[0] for row, line in enumerate(REFERENCES)]
B = [line if row % 10 >= 5 else line.rpartition(" ")[0] for row, line in enumerate(REFERENCES)]
A[0], B[1] = "", ""


def test_each_group_is_a_comparison_of_its_lines_alone() -> None:
    found = contrast(A, B, REFERENCES, metric="exact", samples=100)
    assert found.length_of == "reference"
    for label, test in found.by_length:
        low, high = map(int, label.split("-")) if "-" in label else (int(label),) * 2
        rows = [row for row, line in enumerate(REFERENCES) if low <= len(line.split()) <= high]
        one, other, right = ([lines[row] for row in rows] for lines in (A, B, REFERENCES))
        assert test == compare(one, other, right, "exact", samples=100)
    assert found.by_length[0][1].difference < -90
    assert found.by_length[-1][1].difference == 100.0


def test_a_and_b_exchanged_mirror_everything() -> None:
    one = contrast(A, B, REFERENCES, samples=50, count=3)
    other = contrast(B, A, REFERENCES, samples=50, count=3)
    assert [line.line for line in one.better_a] == [line.line for line in other.better_b]
    assert [line.line for line in one.better_b] == [line.line for line in other.better_a]
    assert [pair[::-1] for pair in one.words] == list(other.words)
    assert one.faults[::-1] == other.faults
    assert (one.faults[0].empty, one.faults[1].empty) == ((1,), (2,))


@pytest.mark.parametrize("metric", ["bleu", "wer"])
def test_the_furthest_ahead_come_first_whichever_way_the_metric_goes(metric: str) -> None:
    found = contrast(A, B, REFERENCES, [f"source {row}" for row in range(60)], metric, samples=10, count=2)
    assert (found.better_a[0].line, found.better_b[0].line) == (2, 1)
    lead = found.better_b[0]
    assert (lead.hypothesis_a, lead.source, lead.references) == ("", "source 0", (REFERENCES[0],))
    assert (len(found.better_a), len(found.better_b)) == (2, 2)


def test_equal_systems_have_no_lead_and_it_all_goes_into_json() -> None:
    found = contrast(A, A, REFERENCES, samples=10)
    assert found.better_a == found.better_b == ()
    tree = json.loads(json.dumps(found.to_dict()))
    assert len(tree["by_length"]) == len(found.by_length)
    assert tree["by_length"][0]["difference"] == 0.0
    assert tree["faults"]["a"] == tree["faults"]["b"]
    assert contrast(A, B, REFERENCES, samples=10, count=0).better_a == ()


def test_counts_must_agree() -> None:
    with pytest.raises(DataError, match="differ in number"):
        contrast(A, B[1:], REFERENCES)
