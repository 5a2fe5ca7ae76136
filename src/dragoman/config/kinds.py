"""The types of settings that several sections share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from dragoman.config.placement import MOST_THREADS
from dragoman.config.values import Before, Bounds, Mistake, convert, shown

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


def _itself(value: object) -> object:
    return value


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


class Stage(NamedTuple):
    """The weights of the training files from an update on; without weights each pair is seen once in an epoch."""

    update: int
    weights: tuple[float, ...]

    @classmethod
    def read(cls, value: object, place: str, mistakes: list[Mistake]) -> Stage:
        """See `config.values.Readable`."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            mistakes.append(Mistake(place, f"expected {_STAGE} (found {shown(value)})"))
            return cls(0, ())
        update = convert(value[0], NotNegative, f"{place}.0", mistakes)
        return cls(update, convert(value[1], Weights, f"{place}.1", mistakes))


def check_stages(stages: tuple[Stage, ...], files: int) -> None:
    """Refuse stages that are not in order, or whose weights do not fit the training files.

    Args:
        stages: of `data.curriculum`.
        files: how many there are; 0: nobody knows yet.

    Raises:
        ValueError: says which.
    """
    updates = [stage.update for stage in stages]
    if updates and updates[0] != 0:
        raise ValueError(f"the first stage of curriculum begins at update {updates[0]}, not at 0")
    for before, after in pairwise(updates):
        if after <= before:
            raise ValueError(f"a stage of curriculum begins at update {after}, after one that begins at {before}")
    for update, weights in stages:
        if weights and files and len(weights) != files:
            raise ValueError(f"curriculum has {len(weights)} weights at update {update} for {files} training files")
        if weights and not any(weights):
            raise ValueError(f"the weights of curriculum at update {update} are all 0, and no pair would be seen")
    if len({len(weights) for _, weights in stages if weights}) > 1:
        raise ValueError("stages of curriculum have different numbers of weights")


_STAGE = "[update, [weight of each training file, ...]]"
_COLUMNS = re.compile(r"source=\s*(.+?)\s*,\s*target=\s*(.+)|target=\s*(.+?)\s*,\s*source=\s*(.+)")
Columns = Annotated[
    str, Before(columns_text, "source=...,target=... with two numbers of columns, from 1, or two names of them")
]
Weights = tuple[Annotated[float, Bounds(ge=0)], ...]
Curriculum = Annotated[
    tuple[Stage, ...], Before(_itself, f"a list of stages, each {_STAGE}, such as [[0, [1, 0]], [2000, [1, 1]]]")
]
PathText = Annotated[str, Before(_text, "a path")]
Minutes = Annotated[float, Before(_minutes, "a time such as 20m, 1h30m or 90s"), Bounds(gt=0)]
Paths = Annotated[tuple[PathText, ...], Before(_several, "a path, or a list of paths")]
Markov = Literal["zeroth-order", "first-order", "second-order", "skips", "masked-skips", "matrix-skips"]
Family = Literal["transformer", "causal", "masked", Markov]
COUNTED = get_args(Markov)  # families whose models are counts of a text
TRAINED = ("transformer", "causal", "masked")  # families that are trained by gradients
