"""Where one system is better than another: both on the same groups of lines, words and single sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dragoman.evaluation.breakdown import is_undefined, length_groups, rows_of
from dragoman.evaluation.comparison import Comparison, compare_measured
from dragoman.evaluation.faults import Faults, find_faults
from dragoman.evaluation.fitting import AUTO, resolved
from dragoman.evaluation.metrics import Metric, measure
from dragoman.evaluation.references import References, reference_lists
from dragoman.evaluation.word_classes import WordClass, word_classes
from dragoman.evaluation.worst import measure_sentences


@dataclass(frozen=True)
class SentencePair:
    """One sentence of a test set and what two systems made of it.

    Attributes:
        line: its number, from 1.
        a: the score of system A's output alone, in percent.
        b: that of system B's.
        hypothesis_a: A's output.
        hypothesis_b: B's.
        references: what was accepted.
        source: what was translated, if known.
    """

    line: int
    a: float
    b: float
    hypothesis_a: str
    hypothesis_b: str
    references: tuple[str, ...]
    source: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; a source that is not known is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Contrast:
    """Two systems, A and B, side by side on the parts of a test set.

    Attributes:
        length_of: whose length groups the lines: "source", or "reference" where sources are not known.
        length_unit: "words" or "characters"; "seconds" of sounds.
        by_length: label of each group, shortest first, and the paired tests on its lines; of NaN where all references
            are blank and the metric has nothing to measure.
        frequencies_of: where words were counted: "training targets" or "references".
        words: for each class of words, rarest first, what A has of it and what B.
        faults: of A's outputs, and of B's.
        sentence_metric: the usual name of what single sentences are judged by.
        better_a: sentences where A is ahead, most first.
        better_b: those where B is.
    """

    length_of: str
    length_unit: str
    by_length: tuple[tuple[str, Comparison], ...]
    frequencies_of: str
    words: tuple[tuple[WordClass, WordClass], ...]
    faults: tuple[Faults, Faults]
    sentence_metric: str
    better_a: tuple[SentencePair, ...]
    better_b: tuple[SentencePair, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "length_of": self.length_of,
            "length_unit": self.length_unit,
            "by_length": [{"label": label, **one.to_dict()} for label, one in self.by_length],
            "frequencies_of": self.frequencies_of,
            "words": [{"a": a.to_dict(), "b": b.to_dict()} for a, b in self.words],
            "faults": dict(zip("ab", map(asdict, self.faults), strict=True)),
            "sentence_metric": self.sentence_metric,
            "better_a": [one.to_dict() for one in self.better_a],
            "better_b": [one.to_dict() for one in self.better_b],
        }


def contrast(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    metric: Metric | str = AUTO,
    *,
    seconds: Sequence[float] | None = None,
    count: int = 5,
    frequencies: Mapping[str, int] | None = None,
    samples: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Contrast:
    """Compare two outputs for the same lines part by part; `compare` is the test of the whole.

    Where there are many groups, some differ by luck alone: a p-value of one group is no proof.

    Args:
        hypotheses_a: the output of system A, one line for each item.
        hypotheses_b: the output of system B.
        references: for each item one line, or a sequence of alternatives.
        sources: what was translated.
        metric: as for `compare`; single sentences are judged as by `worst_sentences`.
        seconds: of sources that are sounds, how long each is.
        count: how many sentences of either kind.
        frequencies: as for `break_down`.
        samples: resampled test sets, and random exchanges.
        seed: of both.
        confidence: the share of resampled test sets that the intervals hold.

    Raises:
        DataError: the counts differ, there is nothing to score, or references are missing or all blank.
        ConfigError: the metric or tokenizer is unknown or not installed, or a number is out of range.
    """
    both = (hypotheses_a, hypotheses_b)
    lists, _ = (reference_lists(lines, references) for lines in both)
    metric = resolved(metric, lists)[0]
    a, b = (measure(metric, lines, lists) for lines in both)
    unit, groups = length_groups(lists, sources, seconds)
    how: dict[str, Any] = {"samples": samples, "seed": seed, "confidence": confidence}
    tests = [(one, compare_measured(metric.name, rows_of(a, one), rows_of(b, one), **how)) for one in groups]
    words = (word_classes(lines, lists, frequencies=frequencies, lowercase=metric.lowercase) for lines in both)
    label, pairs = _leads(metric, both, lists, sources)
    return Contrast(
        length_of="reference" if sources is None else "source",
        length_unit=unit,
        by_length=tuple(
            (one.label, test.undefined() if is_undefined(metric.name, lists, one) else test) for one, test in tests
        ),
        frequencies_of="references" if frequencies is None else "training targets",
        words=tuple(zip(*words, strict=True)),
        faults=(find_faults(hypotheses_a, lists, sources), find_faults(hypotheses_b, lists, sources)),
        sentence_metric=label,
        better_a=tuple(pair for lead, pair in sorted(pairs, key=lambda one: one[0])[:count] if lead < 0),
        better_b=tuple(pair for lead, pair in sorted(pairs, key=lambda one: -one[0])[:count] if lead > 0),
    )


def _leads(
    metric: Metric,
    both: tuple[Sequence[str], Sequence[str]],
    references: Sequence[tuple[str, ...]],
    sources: Sequence[str] | None,
) -> tuple[str, list[tuple[float, SentencePair]]]:
    """The name of the metric of sentences; by how much B is ahead on each, and the sentence."""
    (measured, value_a), (_, value_b) = (measure_sentences(metric, lines, references) for lines in both)
    lead = (value_b - value_a) * (1 if measured.higher_is_better else -1)
    return measured.label, [
        (
            float(lead[row]),
            SentencePair(
                row + 1, float(value_a[row]), float(value_b[row]), both[0][row], both[1][row],
                references[row], None if sources is None else sources[row],
            ),
        )
        for row in range(len(lead))
    ]  # fmt: skip
