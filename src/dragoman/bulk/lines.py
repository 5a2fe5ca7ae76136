"""Lines of which some may be no text: as many results as lines, and why one has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dragoman.bulk.parts import Problem
from dragoman.errors import DragomanError, ModelError

T = TypeVar("T")
_OF_A_LINE = (DragomanError, MemoryError, RuntimeError, ValueError)


def each_result(
    translate: Callable[[list[str], int], list[T]], lines: Sequence[Any], first: int, blank: T
) -> tuple[list[T], list[Problem]]:
    """Return what is made of each line, and the lines of which nothing could be made.

    Args:
        translate: makes a result of each of some texts, the first of which has this number.
        lines: strings, or bytes in UTF-8.
        first: number of the first line.
        blank: the result of a line that cannot be translated; one that is no text has that of "".

    Raises:
        ModelError: it is not a line, but a file of the model: it has gone, or is another one.
    """
    problems, texts = [], []
    for number, line in enumerate(lines, first):
        text, reason = _text_of(line)
        texts.append(text)
        if reason:
            problems.append(Problem(number, reason))
    try:
        results = translate(texts, first)
    except _OF_A_LINE as error:  # one of the lines: which one, is found by taking each alone
        _check_of_a_line(error)
        results = []
        for number, text in enumerate(texts, first):
            try:
                results += translate([text], number)
            except _OF_A_LINE as error:
                _check_of_a_line(error)
                problems.append(Problem(number, str(error).splitlines()[0] if str(error) else type(error).__name__))
                results.append(blank)
    return results, sorted(problems, key=lambda one: one.line)


def _check_of_a_line(error: Exception) -> None:
    if isinstance(error, ModelError) and error.file:
        raise error


def _text_of(line: Any) -> tuple[str, str]:
    """A line as text, or "" and why it is none."""
    if isinstance(line, bytes):
        try:
            return line.decode("utf-8"), ""
        except UnicodeDecodeError as error:
            return "", f"byte {error.start} is not UTF-8"
    if isinstance(line, str):
        return ("", "more than one line") if "\n" in line else (str(line), "")
    missing = line is None or line != line  # NaN, as pandas has it
    return "", "there is no text" if missing else f"no text, but of type {type(line).__name__}"
