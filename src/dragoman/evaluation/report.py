"""What a person reads of a judgement: tables and sentences, for the terminal or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from dragoman.evaluation.breakdown import Breakdown, GroupScore
from dragoman.evaluation.comparison import Comparison
from dragoman.evaluation.contrast import Contrast, SentencePair
from dragoman.evaluation.faults import ErrorKinds, Faults
from dragoman.evaluation.scores import Score
from dragoman.evaluation.tables import Table, fits
from dragoman.evaluation.worst import SentenceScore, WorstSentences

_FAULTS = {
    "empty": "empty",
    "invented": "text for a blank reference",
    "copied": "copied from source",
    "looping": "looping",
    "cut": "cut at the limit",
    "short": "far too short",
    "long": "far too long",
}
_ERRORS = {
    "written": "is a reference",
    "model": "scores above them: model error",
    "search": "scores below one: search error",
    "unknown": "they have unknown pieces",
}
_SHOWN = 6


def breakdown_tables(breakdown: Breakdown) -> list[Table]:
    """Return a breakdown as tables that keep within 80 columns, if need be without intervals."""
    by = f"By {breakdown.length_of} length"
    tables = [_groups(by, breakdown.length_unit, breakdown.by_length)]
    if breakdown.by_unknown:
        tables.append(_groups("By unknown pieces in the source", "pieces", breakdown.by_unknown))
    rows = (
        (one.label, f"{one.in_references:,}", _number(one.recall), _number(one.precision), _number(one.f1))
        for one in breakdown.words
    )
    title = f"Words of the references by frequency in the {breakdown.frequencies_of}"
    tables.append(Table(title, ("frequency", "words", "recall", "precision", "F1"), tuple(rows)))
    tables.append(_line_table("Faulty outputs", "fault", _FAULTS, breakdown.faults))
    if breakdown.errors is not None:
        tables.append(
            _line_table("Outputs and references, by the model's own score", "output", _ERRORS, breakdown.errors)
        )
    return tables


def contrast_tables(contrast: Contrast) -> list[Table]:
    """Return a contrast as tables that keep within 80 columns."""
    rows = tuple(
        (label, f"{test.a.lines:,}", _number(test.a.value), _number(test.b.value),
         "–" if math.isnan(test.difference)
         else f"{_signed(test.difference)} [{_signed(test.low)}, {_signed(test.high)}]",
         "–" if math.isnan(test.p_randomisation) else f"{test.p_randomisation:.3f}")
        for label, test in contrast.by_length
    )  # fmt: skip
    metric = contrast.by_length[0][1].a.label
    title = f"{metric} by {contrast.length_of} length"
    tables = [Table(title, (contrast.length_unit, "lines", "A", "B", "B - A", "p"), rows)]
    rows = tuple(
        (a.label, f"{a.in_references:,}", _number(a.recall), _number(b.recall), _number(a.f1), _number(b.f1),
         _signed(b.f1 - a.f1))
        for a, b in contrast.words
    )  # fmt: skip
    title = f"Words of the references by frequency in the {contrast.frequencies_of}"
    header = ("frequency", "words", "recall A", "recall B", "F1 A", "F1 B", "B - A")
    tables.append(Table(title, header, rows))
    counts = [(name, *(getattr(one, name) for one in contrast.faults)) for name in _FAULTS]
    rows = tuple(
        (_FAULTS[name], f"{len(a):,}", f"{len(b):,}", f"{len(b) - len(a):+,}") for name, a, b in counts if a is not None
    )
    tables.append(Table("Faulty outputs", ("fault", "A", "B", "B - A"), rows))
    return tables


def worst_text(worst: WorstSentences) -> str:
    """Return sentences for the terminal, worst first."""
    return "\n\n".join([f"Worst by {worst.label}", *map(_worst_lines, worst.sentences)])


def leads_text(contrast: Contrast) -> str:
    """Return sentences for the terminal: where A is ahead, then where B is."""
    parts = []
    for name, pairs in (("A", contrast.better_a), ("B", contrast.better_b)):
        parts.append(f"Where {name} is ahead by {contrast.sentence_metric}" + ("" if pairs else ": nowhere"))
        parts += map(_pair_lines, pairs)
    return "\n\n".join(parts)


def markdown_report(
    scores: Sequence[Score],
    breakdown: Breakdown | None = None,
    worst: WorstSentences | None = None,
    *,
    system: str | None = None,
) -> str:
    """Return the scores, the system they are of if it is known, tables and sentences as one Markdown page."""
    parts = ["# Evaluation", *([] if system is None else [f"Of {_literal(system)}"])]
    parts.append("\n".join(f"- {_literal(str(one))}" for one in scores))
    if breakdown is not None:
        parts += [table.to_markdown() for table in breakdown_tables(breakdown)]
    if worst is not None:
        parts += [f"### Worst by {worst.label}", *(_indented(_worst_lines(one)) for one in worst.sentences)]
    return "\n\n".join(parts) + "\n"


def comparison_report(comparison: Comparison, contrast: Contrast) -> str:
    """Return a paired test, tables and sentences as one Markdown page."""
    parts = ["# Comparison", _literal(str(comparison)), *(one.to_markdown() for one in contrast_tables(contrast))]
    for name, pairs in (("A", contrast.better_a), ("B", contrast.better_b)):
        heading = f"### Where {name} is ahead by {contrast.sentence_metric}"
        parts += [heading, *(_indented(_pair_lines(one)) for one in pairs)]
    return "\n\n".join(parts) + "\n"


def _groups(title: str, unit: str, groups: Sequence[GroupScore]) -> Table:
    def table(shown: Callable[[Score], str]) -> Table:
        rows = tuple((one.label, f"{one.lines:,}", *map(shown, one.scores)) for one in groups)
        return Table(title, (unit, "lines", *(one.label for one in groups[0].scores)), rows)

    whole = table(_with_interval)
    return whole if fits(whole) else table(lambda one: _number(one.value))


def _line_table(title: str, what: str, names: Mapping[str, str], found: Faults | ErrorKinds) -> Table:
    rows = []
    for name, label in names.items():
        numbers = getattr(found, name)
        if numbers is None:
            continue
        more = " ..." if len(numbers) > _SHOWN else ""
        rows.append((label, f"{len(numbers):,}", " ".join(map(str, numbers[:_SHOWN])) + more))
    return Table(title, (what, "outputs", "line numbers"), tuple(rows))


def _with_interval(score: Score) -> str:
    return _number(score.value) + ("" if score.low is None else f" [{score.low:.2f}, {score.high:.2f}]")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value:+z.2f}"


def _worst_lines(sentence: SentenceScore) -> str:
    texts = [("hypothesis", sentence.hypothesis), *(("reference", text) for text in sentence.references)]
    return _labelled(f"line {sentence.line}: {sentence.value:.2f}", sentence.source, texts)


def _pair_lines(pair: SentencePair) -> str:
    texts = [("A", pair.hypothesis_a), ("B", pair.hypothesis_b), *(("reference", text) for text in pair.references)]
    return _labelled(f"line {pair.line}: A {pair.a:.2f}, B {pair.b:.2f}", pair.source, texts)


def _labelled(head: str, source: str | None, texts: Sequence[tuple[str, str]]) -> str:
    known = [] if source is None else [("source", source)]
    lines: Iterator[str] = (f"  {name:<10}  {text}".rstrip() for name, text in [*known, *texts])
    return "\n".join([head, *lines])


def _indented(text: str) -> str:
    """A block that Markdown leaves as it is."""
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _literal(text: str) -> str:
    return f"`{text}`"
