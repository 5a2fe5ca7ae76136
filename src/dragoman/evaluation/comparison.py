"""Is one output better than another, or only luckier? Paired tests of two systems on the same lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from dragoman.errors import ConfigError
from dragoman.evaluation.fitting import AUTO, resolved
from dragoman.evaluation.metrics import Measurement, Metric, measure
from dragoman.evaluation.references import References, reference_lists
from dragoman.evaluation.resampling import bootstrap_sums, interval, swapped_sums
from dragoman.evaluation.scores import Score, check_resampling, make_score, signature

# Differences closer than this are rounding.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Comparison:
    """What a paired test of two systems, A and B, found.

    Attributes:
        a: the score of A with its own interval.
        b: the score of B.
        difference: B - A, in points of the metric.
        low: lower end of the paired bootstrap interval of the difference.
        high: its upper end.
        p_bootstrap: two-sided p-value of the paired bootstrap.
        p_randomisation: two-sided p-value of approximate randomisation.
        wins_a: resampled test sets on which A is the better one (lower where lower is better); rest are ties.
        wins_b: those on which B is.
        samples: how many resampled test sets and how many random exchanges there were.
        signature: everything that could change the numbers.
    """

    a: Score
    b: Score
    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_randomisation: float
    wins_a: int
    wins_b: int
    samples: int
    signature: str

    def __repr__(self) -> str:
        spread = f"{self.difference:+z.2f} [{self.low:+z.2f}, {self.high:+z.2f}]"
        scores = f"{self.a.label}: A {self.a.value:.2f}, B {self.b.value:.2f}"
        return f"{type(self).__name__}({scores}, B - A = {spread}, p = {self.p_randomisation:.4f})"

    def __str__(self) -> str:
        return (
            f"{self.a.label}: A {self.a.value:.2f}, B {self.b.value:.2f}, "
            f"B - A = {self.difference:+z.2f} [{self.low:+z.2f}, {self.high:+z.2f}], "
            f"p = {self.p_randomisation:.4f} (randomisation), {self.p_bootstrap:.4f} (bootstrap); "
            f"of {self.samples} test sets A wins {self.wins_a}, B {self.wins_b} "
            f"({self.signature.partition('|')[2]})"
        ) + "".join(f"; {note}" for note in self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers should know, each once."""
        return tuple(dict.fromkeys(one.note for one in (self.a, self.b) if one.note))

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, ready for JSON; what is undefined is None."""
        values = {key: None if value != value else value for key, value in asdict(self).items()}  # NaN alone differs
        return {**values, "a": self.a.to_dict(), "b": self.b.to_dict()}

    def undefined(self) -> Comparison:
        """Return the same with NaN for numbers: of lines in which there is nothing to be measured."""
        a, b = (replace(one, value=math.nan, low=None, high=None) for one in (self.a, self.b))
        nan = math.nan
        return replace(self, a=a, b=b, difference=nan, low=nan, high=nan, p_bootstrap=nan, p_randomisation=nan)


def compare(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: References,
    metric: Metric | str = AUTO,
    *,
    samples: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Comparison:
    """Test whether two outputs for the same lines differ by more than chance.

    The paired bootstrap draws test sets with replacement and scores both systems on each (Koehn 2004); its p-value is
    the share of draws whose difference is as far from the mean draw as the observed difference is from zero (Riezler
    and Maxwell 2005). Approximate randomisation exchanges the systems' lines at random; its p-value is the share of
    exchanges that give a difference at least as large. Both are two-sided and count the observation itself, so none
    is below 1 / (samples + 1). A and B exchanged give the same p-values.

    Args:
        hypotheses_a: the output of system A, one line for each item.
        hypotheses_b: the output of system B.
        references: for each item one line, or a sequence of alternatives.
        metric: a `Metric`, or a name from `METRICS`; "auto" is what fits the references (`fitting_metric`).
        samples: resampled test sets, and random exchanges.
        seed: of both.
        confidence: the share of resampled test sets that the intervals hold.

    Raises:
        DataError: the counts differ, there is nothing to score, or references are missing or all blank.
        ConfigError: the metric, language or tokenizer is unknown or not installed, or a number is out of range.
    """
    check_resampling(samples, confidence)
    if not samples:
        raise ConfigError("a paired test needs resampled test sets", expected="samples of 1 or more", found=samples)
    lists = reference_lists(hypotheses_a, references)
    metric, _ = resolved(metric, lists)
    metric.check()
    reference_lists(hypotheses_b, references)
    a, b = (measure(metric, lines, lists) for lines in (hypotheses_a, hypotheses_b))
    return compare_measured(metric.name, a, b, samples=samples, seed=seed, confidence=confidence)


def compare_measured(
    metric: str, a: Measurement, b: Measurement, *, samples: int, seed: int, confidence: float
) -> Comparison:
    """Return both tests of two measured systems."""
    drawn_a, drawn_b = _draw_pairs(a, b, samples, seed)
    swapped_a, swapped_b = swapped_sums(a.statistics, b.statistics, samples=samples, seed=seed)
    difference = b.value() - a.value()
    drawn = drawn_b - drawn_a
    low, high = interval(drawn, confidence)
    better = drawn if a.higher_is_better else -drawn
    return Comparison(
        a=make_score(metric, a, drawn_a, seed=seed, confidence=confidence),
        b=make_score(metric, b, drawn_b, seed=seed, confidence=confidence),
        difference=difference,
        low=low,
        high=high,
        p_bootstrap=_p_value(drawn - drawn.mean(), difference),
        p_randomisation=_p_value(b.values(swapped_b) - a.values(swapped_a), difference),
        wins_a=int((better < -_TOLERANCE).sum()),
        wins_b=int((better > _TOLERANCE).sum()),
        samples=samples,
        signature=signature(a, {"bs": samples, "ar": samples, "seed": seed}),
    )


def _draw_pairs(
    a: Measurement, b: Measurement, samples: int, seed: int
) -> tuple[Float64[np.ndarray, " samples"], Float64[np.ndarray, " samples"]]:
    """Values of both systems on the same resampled test sets."""
    sums = bootstrap_sums(np.hstack([a.statistics, b.statistics]), samples=samples, seed=seed)
    width = a.statistics.shape[1]
    return a.values(sums[:, :width]), b.values(sums[:, width:])


def _p_value(under_chance: Float64[np.ndarray, " samples"], observed: float) -> float:
    """The share of differences under chance that are at least as large as the observed one, itself counted in."""
    larger = np.abs(under_chance) >= abs(observed) - _TOLERANCE
    return (int(larger.sum()) + 1) / (len(under_chance) + 1)
