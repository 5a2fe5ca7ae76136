"""Texts as Python gives them: lists, tuples, generators, arrays, columns of tables; checked before anything is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from dragoman.errors import DataError

_SHOWN = 60


def as_texts(texts: object, name: str = "texts", first: int = 0) -> list[str]:
    """Return texts as a list of strings.

    Args:
        texts: anything that gives strings one after the other: a list, a generator, a pandas Series, a NumPy array.
        name: what they are called in messages.
        first: number of the first one in a longer series, for messages.

    Raises:
        DataError: they are one text, or no series of texts at all, or one of them is no string; says which.
    """
    return list(each_text(texts, name, first))


def each_text(texts: object, name: str = "texts", first: int = 0) -> Iterator[str]:
    """Yield the same as `as_texts` returns, one at a time; what is no series of texts is refused at once."""
    return _checked(check_series(texts, name), name, first)


def check_series(texts: Any, name: str = "texts") -> Iterable[Any]:
    """Return what gives things one after the other, begun.

    Raises:
        DataError: it is one text, or gives its things in no order, or gives none.
    """
    if isinstance(texts, (str, bytes, PathLike)):
        found = f"one text: {_shown(texts)}" if isinstance(texts, str) else _shown(texts)
        raise DataError(f"{name} are a list of texts", expected="[text, ...]", found=found)
    if isinstance(texts, (Mapping, set, frozenset)) or hasattr(texts, "columns"):
        hint = "give one column, as table['column']" if hasattr(texts, "columns") else "give a list"
        raise DataError(f"{name} are a list of texts", expected="[text, ...]", found=_kind(texts), hint=hint)
    try:
        return iter(texts)
    except TypeError:
        raise DataError(f"{name} are a list of texts", expected="[text, ...]", found=_shown(texts)) from None


def _checked(texts: Iterable[object], name: str, first: int) -> Iterator[str]:
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise DataError(
                f"{name}[{number}] is no text", expected="a string", found=_shown(text), hint=_hint(text),
            )  # fmt: skip
        yield text if type(text) is str else str(text)


def check_lines(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Return texts each of which is one line, as a file of lines can hold them.

    Raises:
        DataError: one has the end of a line within it.
    """
    lines = list(texts)
    for number, text in enumerate(lines):
        if "\n" in text:
            hint = "split it, or put a space for each \\n"
            raise DataError(f"{name}[{number}] is more than one line", found=_shown(text), hint=hint)
    return lines


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _shown(value: object) -> str:
    text = repr(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return text if value is None or isinstance(value, str) else f"{_kind(value)}: {text}"


def _hint(value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType":
        return 'a text is missing: leave it out, or give "" (of a pandas Series: .fillna(""))'
    if isinstance(value, (bytes, bytearray)):
        return "decode it: text.decode()"
    if isinstance(value, PathLike):
        return "read it: path.read_text(), or name files where files are read"
    return "str(...) makes a text of it, if that is what is meant"
