from __future__ import annotations

import math

import pytest

from dragoman.config import TrainingConfig
from dragoman.optimizers.schedule import constant, cosine, inverse_sqrt, learning_rate, paper


def test_the_papers_rate_is_its_equation():
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        assert paper(step, 512, 4000) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5), rel=1e-12)
    assert paper(4000, 512, 4000, factor=2.0) == pytest.approx(1.4e-3, rel=0.01)
    assert max(range(1, 9000), key=lambda step: paper(step, 512, 4000)) == 4000


def test_inverse_sqrt_is_the_papers_shape_with_its_peak_given():
    peak = paper(4000, 512, 4000)
    for step in (1, 77, 4000, 4001, 50_000):
        assert inverse_sqrt(step, peak, 4000) == pytest.approx(paper(step, 512, 4000), rel=1e-12)


def test_cosine_rises_to_its_peak_and_falls_to_zero():
    assert cosine(5, 1.0, 10, 109) == 0.5
    assert cosine(10, 1.0, 10, 109) == 1.0
    assert cosine(60, 1.0, 10, 109) == pytest.approx(0.5)
    assert 0 < cosine(109, 1.0, 10, 109) < 0.001, "the last update still counts"
    assert cosine(110, 1.0, 10, 109) == pytest.approx(0.0, abs=1e-15)
    assert cosine(500, 1.0, 10, 109) == pytest.approx(0.0, abs=1e-15)


def test_constant_stays():
    assert [constant(step, 2.0, 4) for step in (1, 4, 5, 1000)] == [0.5, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("schedule", ["paper", "inverse_sqrt", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0, 7])
def test_every_schedule_is_positive_and_finite_from_the_first_update(schedule, warmup):
    config = TrainingConfig(schedule=schedule, learning_rate=1e-3, warmup_steps=warmup, max_steps=50)
    rates = [learning_rate(step, config, 64) for step in range(1, 50)]
    assert all(rate > 0 and math.isfinite(rate) for rate in rates)
