"""Where a system is good and where it fails: scores by groups of lines, words by frequency, faults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dragoman.errors import DataError
from dragoman.evaluation.faults import ErrorKinds, Faults, find_faults
from dragoman.evaluation.groups import LineGroup, group_by_length, group_by_seconds, group_by_unknown
from dragoman.evaluation.metrics import Measurement, Metric, ignore_case, measure
from dragoman.evaluation.references import References, reference_lists
from dragoman.evaluation.resampling import bootstrap_sums
from dragoman.evaluation.scores import Score, check_resampling, make_score
from dragoman.evaluation.word_classes import WordClass, word_classes


@dataclass(frozen=True)
class GroupScore:
    """The scores of some lines of a test set.

    Attributes:
        label: what the lines have in common.
        lines: how many they are.
        scores: one per metric; NaN, without an interval, where there is nothing in the references to be measured.
    """

    label: str
    lines: int
    scores: tuple[Score, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is undefined is None."""
        scores = {
            one.name: {"value": None if math.isnan(one.value) else one.value, "low": one.low, "high": one.high}
            for one in self.scores
        }
        return {"label": self.label, "lines": self.lines, "scores": scores}


@dataclass(frozen=True)
class Breakdown:
    """A test set in parts.

    Attributes:
        length_of: whose length groups the lines: "source", or "reference" where sources are not known.
        length_unit: "words" or "characters"; "seconds" of sounds.
        by_length: groups of about equal size, shortest first.
        by_unknown: by pieces of the source that the model's vocabulary lacks; empty where that is not known.
        frequencies_of: where words were counted: "training targets" or "references".
        words: classes of words by frequency, rarest first.
        faults: lines whose output is wrong at a glance.
        errors: what kept references from being written, if a model was there to be asked.
    """

    length_of: str
    length_unit: str
    by_length: tuple[GroupScore, ...]
    by_unknown: tuple[GroupScore, ...]
    frequencies_of: str
    words: tuple[WordClass, ...]
    faults: Faults
    errors: ErrorKinds | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "length_of": self.length_of,
            "length_unit": self.length_unit,
            "by_length": [one.to_dict() for one in self.by_length],
            "by_unknown": [one.to_dict() for one in self.by_unknown],
            "frequencies_of": self.frequencies_of,
            "words": [one.to_dict() for one in self.words],
            "faults": asdict(self.faults),
            "errors": None if self.errors is None else asdict(self.errors),
        }


def break_down(
    hypotheses: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    *,
    seconds: Sequence[float] | None = None,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    frequencies: Mapping[str, int] | None = None,
    unknown: Sequence[int] | None = None,
    cut: Collection[int] | None = None,
    errors: ErrorKinds | None = None,
    bootstrap: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Breakdown:
    """Break the scores of one system down; the outputs may come from anywhere.

    Args:
        hypotheses: one line for each item.
        references: for each item one line, or a sequence of alternatives.
        sources: what was translated: groups lines by its length, and shows copies.
        seconds: of sources that are sounds, how long each is.
        metrics: `Metric`s, or names from `METRICS`; words ignore case where all of these do.
        frequencies: how often each word (as `count_words` takes lines apart) stands in the training targets.
        unknown: for each item how many pieces of its source the model's vocabulary lacks.
        cut: numbers of the lines, from 1, that the model did not end, if known.
        errors: what kept references from being written, if known.
        bootstrap: resampled test sets for the interval of each group; 0 leaves intervals out.
        seed: of the resampling.
        confidence: the share of resampled test sets that the intervals hold.

    Raises:
        DataError: the counts differ, there is nothing to score, or references are missing or all blank.
        ConfigError: a metric or tokenizer is unknown or not installed, or a number is out of range.
    """
    check_resampling(bootstrap, confidence)
    lists = reference_lists(hypotheses, references)
    asked = [Metric.of(metric) for metric in metrics]
    measured = [(metric.name, measure(metric, hypotheses, lists)) for metric in asked]
    lowercase = ignore_case(asked)

    def scored(groups: Sequence[LineGroup]) -> tuple[GroupScore, ...]:
        return tuple(_score_group(group, measured, lists, bootstrap, seed, confidence) for group in groups)

    unit, groups = length_groups(lists, sources, seconds)
    return Breakdown(
        length_of="reference" if sources is None else "source",
        length_unit=unit,
        by_length=scored(groups),
        by_unknown=() if unknown is None else scored(group_by_unknown(unknown)),
        frequencies_of="references" if frequencies is None else "training targets",
        words=tuple(word_classes(hypotheses, lists, frequencies=frequencies, lowercase=lowercase)),
        faults=find_faults(hypotheses, lists, sources, cut=cut),
        errors=errors,
    )


def length_groups(
    references: Sequence[tuple[str, ...]], sources: Sequence[str] | None, seconds: Sequence[float] | None = None
) -> tuple[str, list[LineGroup]]:
    """Return unit and groups by the length of the sources, or of the first references where there are none.

    Raises:
        DataError: there are not as many sources as references.
    """
    if sources is None:
        return group_by_length([alternatives[0] for alternatives in references])
    if len(sources) != len(references):
        raise DataError("sources and references differ in number", expected=len(references), found=len(sources))
    return group_by_length(sources) if seconds is None else group_by_seconds(seconds)


def rows_of(measured: Measurement, group: LineGroup) -> Measurement:
    """Return the measurement of some of the lines only."""
    return replace(measured, statistics=measured.statistics[list(group.rows)])


def is_undefined(metric: str, references: Sequence[tuple[str, ...]], group: LineGroup) -> bool:
    """Return whether a metric has nothing to measure in some lines: their references are blank, and it counts parts."""
    counts_lines = metric in ("exact", "word_error")
    return not counts_lines and not any(text.strip() for row in group.rows for text in references[row])


def _score_group(
    group: LineGroup,
    measured: Sequence[tuple[str, Measurement]],
    references: Sequence[tuple[str, ...]],
    bootstrap: int,
    seed: int,
    confidence: float,
) -> GroupScore:
    scores = []
    for name, whole in measured:
        part = rows_of(whole, group)
        if is_undefined(name, references, group):
            empty = make_score(name, part, None, seed=seed, confidence=confidence)
            scores.append(replace(empty, value=math.nan))
            continue
        drawn = part.values(bootstrap_sums(part.statistics, samples=bootstrap, seed=seed)) if bootstrap else None
        scores.append(make_score(name, part, drawn, seed=seed, confidence=confidence))
    return GroupScore(group.label, len(group.rows), tuple(scores))
