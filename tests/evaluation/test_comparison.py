from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from dragoman.errors import ConfigError
from dragoman.evaluation import METRICS, Metric, compare, score
from dragoman.evaluation.resampling import swapped_sums

REFERENCES = [f"number {index} of the lines we test" for index in range(80)]


def noisy(rate: float, seed: int) -> list[str]:
    """The references with words lost at a rate."""
    draw = random.Random(seed)
    return [" ".join(word for word in line.split() if draw.random() > rate) for line in REFERENCES]


@pytest.mark.parametrize("metric", METRICS)
def test_identical_systems_do_not_differ(metric: str) -> None:
    same = compare(noisy(0.2, 1), noisy(0.2, 1), REFERENCES, metric, samples=100)
    assert (same.difference, same.low, same.high) == (0, 0, 0)
    assert same.p_bootstrap == same.p_randomisation == 1
    assert same.wins_a == same.wins_b == 0


@pytest.mark.parametrize("metric", METRICS)
def test_systems_exchanged_give_the_same_answer_turned_round(metric: str) -> None:
    a, b = noisy(0.1, 1), noisy(0.15, 2)
    forth, back = (compare(*pair, REFERENCES, metric, samples=100) for pair in ((a, b), (b, a)))
    assert forth.p_bootstrap == back.p_bootstrap
    assert forth.p_randomisation == back.p_randomisation
    assert (forth.difference, forth.low, forth.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert (forth.wins_a, forth.wins_b) == (back.wins_b, back.wins_a)
    assert (forth.a, forth.b) == (back.b, back.a)


@pytest.mark.parametrize("metric", METRICS)
def test_a_clear_winner_is_found_whichever_way_the_metric_points(metric: str) -> None:
    found = compare(noisy(0.3, 1), noisy(0.02, 2), REFERENCES, metric, samples=200)
    assert found.p_bootstrap == found.p_randomisation == pytest.approx(1 / 201)
    assert (found.wins_a, found.wins_b) == (0, 200)
    assert found.low > 0 or found.high < 0


def test_chance_is_called_chance_as_often_as_it_should_be() -> None:
    draw = random.Random(1)
    small = 0
    for _ in range(100):
        a, b = ([line if draw.random() < 0.7 else "" for line in REFERENCES] for _ in range(2))
        small += compare(a, b, REFERENCES, "exact", samples=100).p_randomisation <= 0.1
    assert 1 <= small <= 18


def test_randomisation_agrees_with_the_sign_test() -> None:
    # Ten lines differ, nine in favour of B: exactly 2 x (1 + 10) / 1024 of all exchanges are as lopsided.
    a = ["x"] * 9 + REFERENCES[9:]
    b = [*REFERENCES[:9], "x", *REFERENCES[10:]]
    found = compare(a, b, REFERENCES, "exact", samples=5000)
    assert found.p_randomisation == pytest.approx(22 / 1024, abs=0.006)


def test_each_score_is_the_one_given_alone() -> None:
    a, b = noisy(0.1, 1), noisy(0.15, 2)
    found = compare(a, b, REFERENCES, "bleu", samples=100, seed=9)
    assert [found.a, found.b] == [
        score(lines, REFERENCES, metrics=("bleu",), bootstrap=100, seed=9)[0] for lines in (a, b)
    ]
    assert found.difference == found.b.value - found.a.value
    assert "|bs:100|ar:100|seed:9|" in found.signature


def test_exchanges_keep_every_line() -> None:
    first, second = np.array([[1.0, 5.0], [2.0, 6.0]]), np.array([[3.0, 7.0], [4.0, 8.0]])
    given, taken = swapped_sums(first, second, samples=64, seed=1)
    assert (given + taken == first.sum(axis=0) + second.sum(axis=0)).all()
    assert {tuple(row) for row in given} == {(3.0, 11.0), (5.0, 13.0), (7.0, 15.0)}


def test_a_comparison_is_one_line_and_plain_values() -> None:
    found = compare(noisy(0.1, 1), noisy(0.15, 2), REFERENCES, "wer", samples=50)
    assert "\n" not in str(found)
    assert f"WER: A {found.a.value:.2f}, B {found.b.value:.2f}, B - A = {found.difference:+.2f}" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["a"]["name"] == "wer"


def test_what_is_rounded_to_nothing_has_no_sign_of_its_own() -> None:
    found = replace(compare(["a"], ["a"], ["a"], "exact", samples=9), difference=-0.001, low=-0.004, high=-0.0)
    assert "B - A = +0.00 [+0.00, +0.00]" in str(found)


@pytest.mark.parametrize("metric", ["bleu", "ter"])
def test_a_language_that_has_no_code_is_refused_where_it_counts(metric: str) -> None:
    for code in ("klingon", "", "z", "z1", "日本"):
        with pytest.raises(ConfigError, match="not a language code") as caught:
            compare(["a"], ["a"], ["a"], Metric(metric, code), samples=9)
        assert caught.value.found == repr(code)
        assert "zh" in str(caught.value.expected)
        assert compare(["a"], ["a"], ["a"], Metric("chrf", code), samples=9).difference == 0
    for code, meant in (("cn", "zh"), ("JP", "ja"), ("cn-Hans", "zh")):
        with pytest.raises(ConfigError, match=f"is a country; its language is {meant}"):
            compare(["a"], ["a"], ["a"], Metric(metric, code), samples=9)
    for code in ("de", "zh-CN", "zho_Hans", "gsw", "xx", None):
        assert compare(["a"], ["a"], ["a"], Metric(metric, code), samples=9).difference == 0


def test_a_test_without_samples_is_refused() -> None:
    with pytest.raises(ConfigError, match="samples of 1 or more"):
        compare(["a"], ["a"], ["a"], samples=0)
