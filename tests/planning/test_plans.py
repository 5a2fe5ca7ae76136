"""Minutes as updates, gentle rates, and the prices of cheaper plans."""

from __future__ import annotations

import pytest

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.errors import ConfigError
from dragoman.optimizers.schedule import cosine, rejoined
from dragoman.planning import TimePlan, cheaper_plans, gentle, minutes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("20m", 20),
        ("1h30m", 90),
        ("90s", 1.5),
        ("2h", 120),
        ("1h 30m".replace(" ", ""), 90),
        ("1.5h", 90),
        ("20", 20),
        (20, 20),
    ],
)
def test_times_are_minutes(given, expected):
    assert TrainingConfig(max_minutes=given).max_minutes == pytest.approx(expected)


@pytest.mark.parametrize("given", ["", "m", "20x", "-5m", "0s", "30m1h", 0, -1, "1:30"])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(ConfigError, match="max_minutes"):
        TrainingConfig(max_minutes=given)


def test_updates_fill_the_time_and_never_more_than_are_worth_doing():
    plan = TimePlan(100.0, 1000)
    fits = plan.updates(0, 0.0, 0.5)
    assert 0.5 * fits <= 100.0 - plan.reserve < 0.5 * (fits + 1)
    assert plan.updates(0, 0.0, 1e-6) == 1000
    assert plan.updates(0, 0.0, 1e6) == 1, "there is always one"
    assert plan.updates(50, 99.0, 0.5) == 50


@pytest.mark.parametrize(("factor", "at"), [(1.0, 0), (2.0, 0), (3.0, 100), (0.5, 0), (0.7, 60)])
def test_the_end_holds_whatever_the_machine_does(monkeypatch, factor, at):
    """A clock of our own: updates of a tenth of a second, from one of them on slower or faster; validations of two."""
    now = [0.0]
    monkeypatch.setattr(minutes.time, "perf_counter", lambda: now[0])
    plan = TimePlan(60.0, 100_000)
    last = plan.updates(0, 0.0, 0.1)
    every, step = last // 5, 0
    while step < last and not (step and plan.is_up(now[0])):
        now[0] += 0.1 * (factor if step >= at else 1.0)
        step += 1
        last = plan.mended(step, now[0], last)
        if step % every == 0 and plan.affords_validation(now[0]):
            now[0] += 2.0
            plan.validated(2.0)
    now[0] += 2.0
    assert now[0] <= 60.0
    assert now[0] >= 60.0 * (0.6 if factor == 1.0 else 0.45)


def test_a_longer_curve_is_climbed_to_and_a_shorter_one_taken_at_once():
    def curve(step: int) -> float:
        return cosine(step, 1.0, 10, 500)

    rates = [rejoined(step, curve(step), 400, 0.0, 500) for step in range(401, 501)]
    assert rates[0] == pytest.approx(0.1 * curve(401))
    assert rates[9:] == [curve(step) for step in range(410, 501)]
    assert all(one <= curve(400 + place) for place, one in enumerate(rates, 1))
    assert rejoined(401, 0.2, 400, 0.9, 500) == 0.2


def test_the_wider_and_the_less_the_gentler():
    assert gentle(128, 10_000).rate == gentle(128, 10**6).rate > gentle(128, 1000).rate > gentle(128, 100).rate
    assert gentle(256, 1000).rate < gentle(128, 1000).rate
    assert gentle(128, 100).rate >= gentle(128, 10_000).rate / 10, "it still learns"
    assert gentle(128, 100).epochs >= gentle(128, 50_000).epochs >= gentle(128, 10**6).epochs >= 1


def test_cheaper_plans_are_cheaper_and_have_prices():
    model = ModelConfig(d_model=256, num_heads=4, d_ff=512, right_to_left=True)
    lines = cheaper_plans(model, 36_000.0, 2.0)
    assert [line.split()[1] for line in lines if "--set" in line] == ["right_to_left=false", "d_model=128"]
    assert "--time 30m" in lines[-1]
    assert "810 updates" in lines[-1]
