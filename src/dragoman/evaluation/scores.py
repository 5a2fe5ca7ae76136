"""Scores of one system: a number, how sure it is, and its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from dragoman.errors import ConfigError
from dragoman.evaluation.edit_distance import Edits
from dragoman.evaluation.metrics import Measurement, Metric, measure
from dragoman.evaluation.references import References, reference_lists
from dragoman.evaluation.resampling import bootstrap_sums, interval


@dataclass(frozen=True)
class Score:
    """One metric's result on one test set.

    Attributes:
        name: the name the metric was asked for by.
        label: its usual name.
        value: the score, in percent.
        low: lower end of the bootstrap interval; None without a bootstrap.
        high: its upper end.
        confidence: the share of resampled test sets that the interval holds.
        lines: how many lines were scored.
        signature: everything that could change the number, in sacreBLEU's form and led by the label.
        note: what the reader of the number should know, if anything.
        smoothed: whether it is a BLEU that comes from smoothing: some size of n-gram has no match.
        edits: insertions, deletions and substitutions, of a metric that counts them.
    """

    name: str
    label: str
    value: float
    low: float | None
    high: float | None
    confidence: float
    lines: int
    signature: str
    note: str | None = None
    smoothed: bool = False
    edits: Edits | None = None

    @property
    def rank(self) -> float:
        """The value that may rank systems: 0 where it comes from smoothing."""
        return 0.0 if self.smoothed else self.value

    @property
    def brief(self) -> str:
        """The number and its interval, as `BLEU 31.42 [30.10, 32.61]`."""
        spread = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.label} {self.value:.2f}{spread}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.brief})"

    def __str__(self) -> str:
        options = self.signature.partition("|")[2]
        spread = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        parts = [f"{self.label} = {self.value:.2f}{spread} ({options})"]
        if self.edits is not None:
            parts.append(", ".join(f"{count:,} {name}" for name, count in self.edits._asdict().items()))
        return "; ".join([*parts, *([self.note] if self.note else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain values, ready for JSON; what is None or undefined is left out."""
        values = asdict(self) | ({"edits": self.edits._asdict()} if self.edits else {})
        shown = {key: value for key, value in values.items() if value is not None and value == value}  # NaN differs
        return shown if self.smoothed else {key: value for key, value in shown.items() if key != "smoothed"}


def score(
    hypotheses: Sequence[str],
    references: References,
    *,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    bootstrap: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> list[Score]:
    """Score hypotheses against references, with a bootstrap interval for each metric.

    Args:
        hypotheses: one line for each item, detokenised unless the metric's `tokenize` says otherwise.
        references: for each item one line, or a sequence of alternatives (their number may vary from line to line).
        metrics: `Metric`s, or names from `METRICS`; `dragoman.evaluation.metrics` has the formula of each.
        bootstrap: resampled test sets for the interval; 0 leaves it out.
        seed: of the resampling; the same seed draws the same lines for every metric.
        confidence: the share of resampled test sets that the interval holds.

    Returns:
        One `Score` for each metric, in the order asked for.

    Raises:
        DataError: the counts differ, there is nothing to score, or references are missing or all blank.
        ConfigError: a metric or tokenizer is unknown or not installed, or a number is out of range.
    """
    check_resampling(bootstrap, confidence)
    lists = reference_lists(hypotheses, references)
    scores = []
    for metric in metrics:
        measured = measure(metric, hypotheses, lists)
        drawn = None
        if bootstrap:
            drawn = measured.values(bootstrap_sums(measured.statistics, samples=bootstrap, seed=seed))
        scores.append(make_score(Metric.of(metric).name, measured, drawn, seed=seed, confidence=confidence))
    return scores


def check_resampling(samples: int, confidence: float) -> None:
    """Refuse a negative number of samples and a confidence that is no share (`ConfigError`)."""
    if samples < 0:
        raise ConfigError("the number of resampled test sets is out of range", expected="0 or more", found=samples)
    if not 0 < confidence < 1:
        raise ConfigError("the confidence is out of range", expected="between 0 and 1", found=confidence)


def make_score(
    name: str,
    measured: Measurement,
    drawn: Float64[np.ndarray, " samples"] | None,
    *,
    seed: int,
    confidence: float,
) -> Score:
    """Return the `Score` of a measurement and its values on resampled test sets, if there are any."""
    low, high = (None, None) if drawn is None else interval(drawn, confidence)
    return Score(
        name=name,
        label=measured.label,
        value=measured.value(),
        low=low,
        high=high,
        confidence=confidence,
        lines=len(measured.statistics),
        signature=signature(measured, {} if drawn is None else {"bs": len(drawn), "seed": seed}),
        note=measured.note,
        smoothed=measured.smoothed,
        edits=measured.edits,
    )


def signature(measured: Measurement, resampling: dict[str, int]) -> str:
    """Return `LABEL|nrefs:..|..|version:..`, what was resampled standing where sacreBLEU puts it."""
    entries = {"nrefs": measured.signature["nrefs"], **resampling, **measured.signature}
    return "|".join([measured.label, *(f"{key}:{value}" for key, value in entries.items())])
