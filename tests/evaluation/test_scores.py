from __future__ import annotations

import json
import random

import numpy as np
import pytest

from dragoman.errors import ConfigError
from dragoman.evaluation import METRICS, score
from dragoman.evaluation.resampling import bootstrap_sums, interval


def flipped(lines: int, rate: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """Lines of which about `rate` are wrong."""
    draw = random.Random(seed)
    references = [f"line {number} of the set" for number in range(lines)]
    return [line if draw.random() > rate else "something else" for line in references], references


def test_the_bootstrap_is_deterministic_and_moves_with_the_seed() -> None:
    hypotheses, references = flipped(60, 0.3)
    once = score(hypotheses, references, metrics=METRICS, bootstrap=200, seed=3)
    assert once == score(hypotheses, references, metrics=METRICS, bootstrap=200, seed=3)
    other = score(hypotheses, references, metrics=METRICS, bootstrap=200, seed=4)
    assert [each.value for each in once] == [each.value for each in other]
    assert [each.low for each in once] != [each.low for each in other]


def test_a_metric_draws_the_same_lines_whatever_stands_beside_it() -> None:
    hypotheses, references = flipped(40, 0.3)
    [alone] = score(hypotheses, references, metrics=("chrf",), bootstrap=50)
    assert alone in score(hypotheses, references, metrics=("bleu", "ter", "chrf"), bootstrap=50)


def test_the_interval_is_that_of_the_binomial() -> None:
    hypotheses, references = flipped(400, 0.25)
    [exact] = score(hypotheses, references, metrics=("exact",), bootstrap=2000)
    assert exact.low is not None
    assert exact.high is not None
    half = 196 * (exact.value / 100 * (1 - exact.value / 100) / 400) ** 0.5
    assert exact.value - exact.low == pytest.approx(half, rel=0.1)
    assert exact.high - exact.value == pytest.approx(half, rel=0.1)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        hypotheses, references = flipped(100, 0.3, seed)
        [exact] = score(hypotheses, references, metrics=("exact",), bootstrap=200, confidence=0.9)
        assert exact.low is not None
        assert exact.high is not None
        covered += exact.low <= 70 <= exact.high
    assert 0.83 <= covered / 200 <= 0.96


def test_more_confidence_is_wider() -> None:
    hypotheses, references = flipped(80, 0.4)
    wide, narrow = (score(hypotheses, references, metrics=("bleu",), confidence=share)[0] for share in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high  # type: ignore[operator]


def test_resampled_sums_are_sums_of_drawn_rows() -> None:
    statistics = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    sums = bootstrap_sums(statistics, samples=500, seed=1)
    assert sums.shape == (500, 2)
    assert set(np.unique(sums)) == {0.0, 1.0, 2.0, 3.0}
    assert (sums.sum(axis=1) <= 3).all()
    assert sums.mean(axis=0) == pytest.approx([1, 1], abs=0.1)


def test_the_interval_is_made_of_percentiles() -> None:
    assert interval(np.arange(101.0), 0.9) == pytest.approx((5, 95))


def test_a_score_is_one_readable_line_and_plain_values() -> None:
    hypotheses, references = flipped(20, 0.5)
    [bleu] = score(hypotheses, references, metrics=("bleu",), bootstrap=100, seed=5)
    assert "\n" not in str(bleu)
    assert str(bleu).startswith(f"BLEU = {bleu.value:.2f} [{bleu.low:.2f}, {bleu.high:.2f}] (nrefs:1|bs:100|seed:5|")
    values = json.loads(json.dumps(bleu.to_dict()))
    assert (values["name"], values["lines"], values["signature"]) == ("bleu", 20, bleu.signature)
    assert bleu.signature.startswith("BLEU|nrefs:1|bs:100|seed:5|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_without_a_bootstrap_there_is_no_interval() -> None:
    [exact] = score(["a"], ["a"], metrics=("exact",), bootstrap=0)
    assert str(exact).startswith("exact = 100.00 (nrefs:1|case:mixed|")
    assert not {"low", "high", "note"} & set(exact.to_dict())


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        score(["a"], ["a"], bootstrap=-1)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        score(["a"], ["a"], confidence=95.0)
