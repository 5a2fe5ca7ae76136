"""The sentences that a system translates worst, or far worse than another: for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from dragoman.evaluation.metrics import Measurement, Metric, measure
from dragoman.evaluation.references import References, reference_lists

# What a single sentence is judged by: BLEU of one sentence is mostly zero, exact match tells not how far off it is.
_OF_A_SENTENCE = {"bleu": "chrf", "exact": "cer", "word_error": "wer"}


@dataclass(frozen=True)
class SentenceScore:
    """One sentence and its score.

    Attributes:
        line: its number, from 1.
        value: the score of this sentence alone, in percent.
        hypothesis: the output.
        references: what was accepted.
        source: what was translated, if known.
    """

    line: int
    value: float
    hypothesis: str
    references: tuple[str, ...]
    source: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; a source that is not known is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class WorstSentences:
    """Sentences by their own scores, worst first.

    Attributes:
        label: the metric's usual name.
        sentences: as many as were asked for, or all there are.
    """

    label: str
    sentences: tuple[SentenceScore, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"metric": self.label, "sentences": [one.to_dict() for one in self.sentences]}


def worst_sentences(
    hypotheses: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    *,
    metric: Metric | str = "chrf",
    count: int = 10,
) -> WorstSentences:
    """Return the sentences with the worst scores; of equal ones the first. Blank for blank is no sentence to read.

    Args:
        hypotheses: one line for each item.
        references: for each item one line, or a sequence of alternatives.
        sources: what was translated, to be shown beside it.
        metric: a `Metric`, or a name from `METRICS`; BLEU is replaced by chrF, exact match by CER, word error by WER.
        count: how many.

    Raises:
        DataError: the counts differ, there is nothing to score, or references are missing or all blank.
        ConfigError: there is no such metric.
    """
    lists = reference_lists(hypotheses, references)
    measured, values = measure_sentences(Metric.of(metric), hypotheses, lists)
    order = np.argsort(values if measured.higher_is_better else -values, kind="stable")
    right = blank_for_blank(hypotheses, lists)
    order = order[~right[order]][:count].tolist()
    return WorstSentences(
        measured.label,
        tuple(
            SentenceScore(
                row + 1, float(values[row]), hypotheses[row], lists[row], None if sources is None else sources[row]
            )
            for row in order
        ),
    )


def measure_sentences(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[tuple[str, ...]]
) -> tuple[Measurement, Float64[np.ndarray, " lines"]]:
    """Return the measurement that fits single sentences, and the value of each; blank for blank is the best one."""
    name = _OF_A_SENTENCE.get(metric.name, metric.name)
    tokenize = metric.tokenize if name == "bleu" else None
    measured = measure(replace(metric, name=name, tokenize=tokenize), hypotheses, references)
    values = measured.values(measured.statistics)
    # chrF gives 0 to it, as it does to text where the reference is blank.
    values[blank_for_blank(hypotheses, references)] = 100.0 if measured.higher_is_better else 0.0
    return measured, values


def blank_for_blank(hypotheses: Sequence[str], references: Sequence[tuple[str, ...]]) -> Bool[np.ndarray, " lines"]:
    """Return for each line whether its output is blank, and rightly so: one of its references is."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([not line.strip() and not all(text.strip() for text in some) for line, some in pairs], dtype=bool)
