"""Files or lists: test sets and texts as Python gives them; and the settings of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeGuard

from dragoman.config import settings_tree
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import group_references
from dragoman.given import as_texts, check_series
from dragoman.pace import silent
from dragoman.text import read_texts
from dragoman.text.lines import BadText

# A file by its path, or the texts themselves.
Texts = str | PathLike[str] | Iterable[str]
# Of each text one answer, or several that are right; or files, line by line.
Answers = str | PathLike[str] | Iterable[str | PathLike[str] | Sequence[str]]


def is_file(given: object) -> TypeGuard[str | PathLike[str]]:
    """Return whether a path was given, and not texts."""
    return isinstance(given, (str, PathLike))


def texts_of(
    given: Texts, name: str = "texts", *, on_bad_text: BadText = "stop", report: Callable[[str], None] = silent
) -> list[str]:
    """Return the lines of a file, or the texts that were given; the rest as for `dragoman.evaluate`.

    Args:
        given: a file, or texts.
        name: what they are called in messages.
        on_bad_text: what a line of a file that is not UTF-8 does: "stop", "replace", or "skip" (it is empty).
        report: is told of such lines.

    Raises:
        DataError: the file cannot be read, or one of the texts is no string.
    """
    if is_file(given):
        if isinstance(given, str) and not Path(given).exists():
            hint = "a string is the path of a file; put a text into a list: [text]"
            raise DataError(f"{name}: there is no such file", file=given, hint=hint)
        return list(read_texts(fspath(given), on_bad_text=on_bad_text, tell=report))
    return as_texts(given, name)


def read_test_set(
    source: Texts,
    references: Answers,
    *,
    group: bool = False,
    name: str = "sources",
    on_bad_text: BadText = "stop",
    report: Callable[[str], None] = silent,
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the sources and, for each, its references: all of them in files, or all in lists.

    Args:
        source: a file, or texts.
        references: one or several files; or for each source a text, or several that are right.
        group: join those that share a source.
        name: what the first are called in messages.
        on_bad_text: of a line that is not UTF-8, as for `dragoman.evaluate`.
        report: takes a line of plain text about such lines.

    Raises:
        DataError: a file cannot be read, some are files and others lists, or their numbers differ.
    """
    read = partial(texts_of, on_bad_text=on_bad_text, report=report)
    sources = read(source, name)
    files = is_file(source)
    answers = _from_files(source, sources, references, name, read) if files else _from_lists(sources, references, name)
    if not group:
        return sources, answers
    # All first references before all second ones, as whole files of them come.
    most = max(map(len, answers), default=0)
    pairs = [(text, some[n]) for n in range(most) for text, some in zip(sources, answers, strict=True) if n < len(some)]
    return group_references([text for text, _ in pairs], [answer for _, answer in pairs])


def _from_files(
    source: Any, sources: Sequence[str], references: Answers, name: str, read: Callable[..., list[str]]
) -> list[tuple[str, ...]]:
    files = [references] if is_file(references) else list(check_series(references, "references"))
    if not files:
        raise DataError("no references were given", expected="a file, or several")
    if wrong := [file for file in files if not is_file(file)]:
        hint = "give lists for both, or files for both"
        found = f"{source} and a {type(wrong[0]).__name__}"
        raise DataError(f"the {name} are a file and the references are none", found=found, hint=hint)
    columns = [read(file) for file in files]
    for file, column in zip(files, columns, strict=True):
        if len(column) != len(sources):
            expected = f"{len(sources):,} lines, as in {source}"
            message = f"{name} and references have different numbers of lines"
            raise DataError(message, file=file, expected=expected, found=f"{len(column):,}")
    return list(zip(*columns, strict=True))


def _from_lists(sources: Sequence[str], references: Answers, name: str) -> list[tuple[str, ...]]:
    if is_file(references):
        hint = "give lists for both, or files for both"
        raise DataError(f"the {name} are a list and the references are a file", found=references, hint=hint)
    answers = answers_of(references)
    if len(answers) != len(sources):
        expected, found = f"{len(sources):,}, one or several for each", f"{len(answers):,}"
        raise DataError(f"{name} and references differ in number", expected=expected, found=found)
    return answers


def first_file(texts: Texts, references: Answers) -> str | None:
    """Return the first file of references; None if they are the references themselves, as they are beside a list."""
    if is_file(references):
        return fspath(references)
    if is_file(texts):
        return next((fspath(one) for one in check_series(references, "references") if is_file(one)), None)
    return None


def answers_of(references: Answers, name: str = "references") -> list[tuple[str, ...]]:
    """Return the references of each text: the line of a file, a text that was given, or several.

    Raises:
        DataError: the file cannot be read, or one is no string.
    """
    if is_file(references):
        return [(text,) for text in texts_of(references, name)]
    given = check_series(references, name)
    return [
        tuple(as_texts([one], name, n) if _is_single(one) else as_texts(one, f"{name}[{n}]"))
        for n, one in enumerate(given)
    ]


def decoding_changes(settings: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decoding settings among what was given: any by name, and the options of a function that are not None.

    Raises:
        ConfigError: a setting is unknown, or is none of decoding.
    """
    tree = settings_tree(settings or {})
    decoding = tree.pop("decoding", {})
    if tree:
        found = ", ".join(f"{section}.{key}" for section, values in tree.items() for key in values)
        raise ConfigError("only decoding settings can be changed here", found=found)
    return {**decoding, **{key: value for key, value in named.items() if value is not None}}


def _is_single(answer: object) -> bool:
    """Whether it is one answer, or what is wrongly given as one."""
    return isinstance(answer, (str, bytes, PathLike)) or not isinstance(answer, Iterable)
