"""The types of settings that several sections share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from dragoman.config.placement import MOST_THREADS
from dragoman.config.values import Before, Bounds

Positive = Annotated[int, Bounds(gt=0)]
NotNegative = Annotated[int, Bounds(ge=0)]
# Lengths are numbers of 32 bits in the native library, and sums of them have to be too.
Length = Annotated[int, Bounds(ge=0, le=2**20)]
PositiveLength = Annotated[int, Bounds(gt=0, le=2**20)]
Hypotheses = Annotated[int, Bounds(gt=0, le=1024)]  # more than a search is willing to keep is a slip
Threads = Annotated[int, Bounds(gt=0, le=MOST_THREADS)]
Layers = Annotated[int, Bounds(ge=0, le=1000)]
Rate = Annotated[float, Bounds(ge=0.0, lt=1.0)]


def _text(value: object) -> object:
    """A `Path` is taken for its text."""
    return str(value) if isinstance(value, Path) else value


def _minutes(value: object) -> object:
    """Hours, minutes and seconds, as 1h30m or 90s, are taken for their minutes."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?(?:{number}m(?:in)?)?(?:{number}s)?", str(value).strip().lower())
    if not isinstance(value, str) or found is None or not any(found.groups()):
        return value
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 60 * hours + minutes + seconds / 60


def _several(value: object) -> object:
    """One file may stand without a list."""
    return [value] if isinstance(value, (str, Path)) else value


def read_columns(text: str) -> tuple[str, str]:
    """Return the columns of source and target of "source=2,target=3"; they may be names with commas in them.

    Raises:
        ValueError: it is not of that form, only one is a number, or both are one.
    """
    found = _COLUMNS.fullmatch(text.strip())
    if found is None:
        raise ValueError("no columns")
    source, target = found[1] or found[4], found[2] or found[3]
    numbers = [one.isascii() and one.isdigit() for one in (source, target)]
    if source == target or numbers[0] != numbers[1] or (numbers[0] and not (_is_place(source) and _is_place(target))):
        raise ValueError("no two columns")
    return source, target


def _is_place(number: str) -> bool:
    return number[0] != "0" and len(number) < 7


def columns_text(value: object) -> object:
    """Return the text of both columns, of a table of them too; None of what is no pair of columns."""
    if isinstance(value, Mapping) and value.keys() == {"source", "target"}:
        value = f"source={value['source']},target={value['target']}"
    if not isinstance(value, str):
        return value
    try:
        source, target = read_columns(value)
    except ValueError:
        return None
    return f"source={source},target={target}"


_COLUMNS = re.compile(r"source=\s*(.+?)\s*,\s*target=\s*(.+)|target=\s*(.+?)\s*,\s*source=\s*(.+)")
Columns = Annotated[
    str, Before(columns_text, "source=...,target=... with two numbers of columns, from 1, or two names of them")
]
PathText = Annotated[str, Before(_text, "a path")]
Minutes = Annotated[float, Before(_minutes, "a time such as 20m, 1h30m or 90s"), Bounds(gt=0)]
Paths = Annotated[tuple[PathText, ...], Before(_several, "a path, or a list of paths")]
Markov = Literal["zeroth-order", "first-order", "second-order", "skips", "masked-skips", "matrix-skips"]
Family = Literal["transformer", "causal", "masked", Markov]
COUNTED = get_args(Markov)  # families whose models are counts of a text
TRAINED = ("transformer", "causal", "masked")  # families that are trained by gradients
