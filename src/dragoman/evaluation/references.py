"""References as the metrics want them: one or several for each line."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.errors import DataError
from dragoman.given import as_texts

References = Sequence[str] | Sequence[Sequence[str]]


def group_references(sources: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Join the lines that share a source: the form of a dictionary with several pronunciations for a word.

    Returns:
        The distinct sources in order of first appearance, and for each its distinct references in their order.

    Raises:
        DataError: there are not as many references as sources.
    """
    if len(sources) != len(references):
        raise DataError(
            "sources and references differ in number",
            expected=f"{len(sources)} references, one for each source line",
            found=f"{len(references)} references",
        )
    groups: dict[str, dict[str, None]] = {}
    for source, reference in zip(sources, references, strict=True):
        groups.setdefault(source, {})[reference] = None
    return list(groups), [tuple(group) for group in groups.values()]


def reference_lists(hypotheses: Sequence[str], references: References) -> list[tuple[str, ...]]:
    """Return the references of each hypothesis as a tuple, whichever way they were given.

    Raises:
        DataError: there is nothing to score, the counts differ, a line has no reference, all references are blank, or
            a line is no string.
        TypeError: one string was given where a sequence of lines belongs.
    """
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("hypotheses and references are sequences of lines, not one string")
    if len(hypotheses) != len(references):
        raise DataError(
            "hypotheses and references differ in number",
            expected=f"{len(references)} hypotheses, one for each line of the reference",
            found=f"{len(hypotheses)} hypotheses",
        )
    if not hypotheses:
        raise DataError("there is nothing to score", found="0 hypotheses, 0 references")
    as_texts(hypotheses, "hypotheses")
    lists = [
        (given,) if isinstance(given, str) else tuple(as_texts(given, f"references[{number}]"))
        for number, given in enumerate(references)
    ]
    for number, alternatives in enumerate(lists, start=1):
        if not alternatives:
            raise DataError("no reference for this line", line=number, expected="at least one", found="0 references")
    if not any(text.strip() for alternatives in lists for text in alternatives):
        raise DataError(
            "every reference is blank", expected="at least one with text", found=f"{len(lists)} lines without text"
        )
    return lists
