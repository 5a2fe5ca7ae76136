"""Which validation is the better one: no smoothing, no noise of less than a line, and a documented order."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dragoman.training.averaging import last_saves, named_steps
from dragoman.training.judging import Judge
from dragoman.training.progress import Progress
from dragoman.training.validate import Validation


def validation(loss: float, *, lines: int = 100, smoothed: tuple[str, ...] = (), **scores: float) -> Validation:
    known = {"bleu": 0.0, "chrf": 0.0, "exact": 0.0, **scores}
    return Validation(loss, 0.5, loss, 0.5, known, {}, [""] * lines, smoothed=frozenset(smoothed))


def judge(metric: str) -> Judge:
    made = cast(Any, object.__new__(Judge))
    made.metric, made.config = metric, SimpleNamespace(training=SimpleNamespace(patience=3))
    return made


def best_of(metric: str, *results: Validation) -> int:
    judging, progress = judge(metric), Progress()
    for progress.step, result in enumerate(results):
        if judging.is_better(result, progress):
            judging.set_best(result, progress)
    return progress.best_step


@pytest.mark.parametrize("metric", ["bleu", "chrf", "exact"])
def test_a_degenerate_model_does_not_beat_a_good_one_by_smoothing(metric: str) -> None:
    loops = validation(3.0, bleu=1.4, chrf=13.0, smoothed=("bleu",))
    good = validation(0.5, bleu=0.0, chrf=100.0, exact=100.0, smoothed=("bleu",))
    assert best_of(metric, loops, good) == 1
    assert best_of(metric, good, loops) == 0


def test_less_than_a_line_is_no_difference_and_the_next_metric_decides() -> None:
    assert best_of("bleu", validation(1.0, bleu=30.2, chrf=50.0), validation(1.0, bleu=30.7, chrf=50.0)) == 0
    assert best_of("bleu", validation(1.0, bleu=30.7, chrf=50.0), validation(1.0, bleu=30.2, chrf=53.0)) == 1
    assert best_of("bleu", validation(1.0, bleu=30.2), validation(0.9, bleu=30.2)) == 1
    assert best_of("bleu", validation(1.0, bleu=30.2), validation(2.0, bleu=31.2)) == 1
    many = [validation(1.0, bleu=30.2, lines=1000), validation(1.0, bleu=30.4, lines=1000)]
    assert best_of("bleu", *many) == 1
    assert best_of("exact", validation(1.0, exact=29.0, chrf=90.0), validation(1.0, exact=100 * 0.3)) == 1


def test_the_best_does_not_depend_on_the_order() -> None:
    results = [validation(1.0, bleu=20 + 0.4 * n, chrf=60 - 0.3 * n * (n % 3)) for n in range(12)]
    best = results[best_of("bleu", *results)]
    backwards = results[::-1]
    assert backwards[best_of("bleu", *backwards)].rank("bleu") == best.rank("bleu")


def test_nan_is_never_better() -> None:
    assert not judge("bleu").is_better(validation(math.nan, bleu=50.0), Progress())


def test_patience_waits_while_the_metric_is_blind_and_the_loss_falls() -> None:
    judging, progress = judge("exact"), Progress()
    judging.set_best(validation(3.0, chrf=20.0), progress)
    progress.lowest_loss = 3.0
    assert judging.is_blind(validation(2.5, chrf=10.0), progress)
    assert not judging.is_blind(validation(3.5, chrf=10.0), progress)
    assert not judging.is_blind(validation(2.5, exact=5.0), progress)


def test_a_checkpoint_from_before_ranks_is_gone_on_with() -> None:
    judging, progress = judge("exact"), Progress(best=50.0, best_loss=1.0, best_step=7)
    assert judging.is_better(validation(2.0, exact=51.0), progress)
    assert not judging.is_better(validation(0.5, exact=49.0), progress)
    assert judging.is_better(validation(0.5, exact=50.0), progress)
    assert Progress.from_values({**dataclasses.asdict(Progress(best=50.0)), "best_rank": [50.0, 0.0, -1.0]}).best_rank


def test_only_consecutive_saves_are_averaged(tmp_path) -> None:
    for step in (150, 600, 650):
        (tmp_path / f"step-{step:08d}").mkdir()
    assert named_steps(last_saves(tmp_path, 50)) == "steps 600, 650"
    assert named_steps(last_saves(tmp_path, None)) == "steps 150, 600, 650"
    assert last_saves(tmp_path / "none", 50) == []


@pytest.mark.parametrize("metric", ["wer", "cer"])
def test_error_rates_are_the_better_the_smaller_they_are(metric: str) -> None:
    first, second, third = (
        validation(loss, **{metric: rate}) for loss, rate in ((1.0, 12.5), (2.0, 12.4), (0.5, 130.0))
    )
    assert best_of(metric, first, second, third) == best_of(metric, third, second, first) == 1
    # Equal ones are ordered by the loss, and at 0 nothing is left to be won.
    assert best_of(metric, validation(1.0, **{metric: 5.0}), validation(0.5, **{metric: 5.0})) == 1
    judging = judge(metric)
    progress = Progress(lowest_loss=2.0)
    assert judging.is_blind(third, progress)
    assert not judging.is_blind(validation(0.5, **{metric: 0.0}), progress)
    assert first.value(metric) == -12.5
