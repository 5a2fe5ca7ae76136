"""Readers of files of pairs: tables (.tsv, .csv) and JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import BadText, Line, ReadCounts, scan_lines
from dragoman.text.opening import COMPRESSED
from dragoman.text.pair import Pair
from dragoman.text.pair_format import PairFormat, find_columns, is_header, listed
from dragoman.text.parquet import read_parquet
from dragoman.text.tmx import read_tmx

Layout = Literal["tsv", "csv", "jsonl", "tmx", "parquet"]
LAYOUTS: tuple[Layout, ...] = ("tsv", "csv", "jsonl", "tmx", "parquet")


def bare(path: str) -> str:
    """Return a name without the suffix of a compressed file."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in COMPRESSED else path


def layout_of(path: str) -> Layout:
    """Return the layout that the suffix of a file of pairs tells.

    Raises:
        ConfigError: it tells none.
    """
    suffix = Path(bare(path)).suffix.lower()
    for layout in LAYOUTS:
        if suffix == f".{layout}":
            return layout
    known = [f".{layout}" for layout in LAYOUTS]
    expected = f"{', '.join(known[:-1])} or {known[-1]}, perhaps with {', '.join(COMPRESSED)}"
    raise ConfigError("the suffix does not tell the format", file=path, expected=expected)


def read_pairs(path: str, form: PairFormat, *, on_bad_text: BadText, counts: ReadCounts) -> Iterator[Pair]:
    """Yield the pairs of a file in their order; `counts` is filled in.

    Raises:
        DataError: a record is no pair, or not text and must be; names file and line.
        ConfigError: the format does not say which parts of the file are meant, or means some that it does not have.
    """
    readers = {"tsv": _read_table, "csv": _read_table, "jsonl": _read_json, "tmx": read_tmx, "parquet": read_parquet}
    read = readers[layout_of(path)]
    yield from read(path, form, on_bad_text, counts)


def _read_table(path: str, form: PairFormat, on_bad_text: BadText, counts: ReadCounts) -> Iterator[Pair]:
    split = _split_tabs if layout_of(path) == "tsv" else _split_csv
    places, width = form.numbers, None
    for line in scan_lines(path, on_bad_text=on_bad_text, counts=counts):
        if line.problem is not None:
            if line.number == 1 and form.names is not None:
                raise line.problem  # without names of columns there is nothing to read
            continue
        cells = split(line, path)
        if form.columns is None:
            if len(cells) != 2:
                raise _no_pair(cells, line, path)
            yield Pair(cells[0], cells[1], path, line.number)
            continue
        if line.number == 1 and form.names is not None:
            places, width = find_columns(cells, form.names, path, line.number), len(cells)
            counts.read -= 1
            continue
        assert places is not None
        width = max(len(cells), max(places) + 1) if width is None else width
        if len(cells) != width:
            raise _other_width(cells, width, line, path)
        source, target = cells[places[0]], cells[places[1]]
        if line.number == 1 and is_header(source, target):
            counts.read, counts.headers = counts.read - 1, counts.headers + 1
            continue
        yield Pair(source, target, path, line.number)


def _split_tabs(line: Line, path: str) -> list[str]:
    del path
    return line.text.split("\t")


def _split_csv(line: Line, path: str) -> list[str]:
    """The fields of a record, which is one line: a quote that is still open at its end is an error, never read on."""
    try:
        return next(csv.reader([line.text], strict=True)) or [""]
    except csv.Error as error:
        if "unexpected end" in str(error):
            hint = "a text is one line: put a space for each line break, or close the quote"
            message = "a quoted field does not end on its line"
            raise DataError(message, file=path, line=line.number, hint=hint) from error
        expected = 'fields with commas between; one with a comma or a quote is "quoted", and a quote in it is ""'
        raise DataError("not CSV", file=path, line=line.number, expected=expected, found=error) from error


def _columns(count: int) -> str:
    return f"{count:,} column{'s' * (count > 1)}"


def _no_pair(cells: list[str], line: Line, path: str) -> DataError:
    found, hint = _columns(len(cells)), None
    if len(cells) > 2:
        hint = "say which two are meant, by number: --columns source=1,target=2; or by the names of a first line"
        if line.number == 1:
            found += f": {listed([cell[:40] for cell in cells])}"
    elif layout_of(path) == "csv" and re.search("[;\t]", line.text):
        hint = "the fields of CSV have commas between; with TAB between, call the file .tsv"
    between = "a TAB" if layout_of(path) == "tsv" else "a comma"
    expected = f"2 columns with {between} between"
    return DataError("not a pair", file=path, line=line.number, expected=expected, found=found, hint=hint)


def _other_width(cells: list[str], width: int, line: Line, path: str) -> DataError:
    message = "there are too few columns" if len(cells) < width else "there are too many columns"
    expected, hint = f"{_columns(width)}" + (", as before" if line.number > 1 else ""), None
    if layout_of(path) == "csv":
        hint = "a field with a comma in it has to be quoted; between fields there are commas"
    return DataError(message, file=path, line=line.number, expected=expected, found=_columns(len(cells)), hint=hint)


def _read_json(path: str, form: PairFormat, on_bad_text: BadText, counts: ReadCounts) -> Iterator[Pair]:
    for line in scan_lines(path, on_bad_text=on_bad_text, counts=counts):
        if line.problem is not None:
            continue
        source, target = _split_json(line, path, form)
        if bad := _not_text(source, target, path, line.number):
            if on_bad_text == "stop":
                raise bad
            if on_bad_text == "skip":
                counts.skipped += 1
                continue
            counts.replaced += 1
            source, target = _replaced(source), _replaced(target)
        yield Pair(source, target, path, line.number)


def _split_json(line: Line, path: str, form: PairFormat) -> tuple[str, str]:
    names = ("source", "target") if form.names is None else form.names
    expected = f'an object with the strings "{names[0]}" and "{names[1]}", or a "translation" with texts by language'
    try:
        value = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise DataError("not JSON", file=path, line=line.number, expected=expected, found=error) from error
    if not isinstance(value, dict):
        raise DataError("not a pair", file=path, line=line.number, expected=expected, found=type(value).__name__)
    held, keys = _held(value, names, form, path, line.number)
    for key in keys:
        text = held.get(key)
        if not isinstance(text, str):
            found = f'"{key}" is {type(text).__name__}' if key in held else f"the keys {listed(held)}"
            raise DataError("not a pair", file=path, line=line.number, expected=expected, found=found)
        if "\n" in text:
            hint = "split it, or put a space for each \\n"
            raise DataError(f'"{key}" is more than one line', file=path, line=line.number, hint=hint)
    return held[keys[0]], held[keys[1]]


def _held(
    value: dict[str, Any], names: tuple[str, str], form: PairFormat, path: str, line: int
) -> tuple[dict[str, Any], tuple[str, str]]:
    """The object that holds the texts of a record, and their keys."""
    translation = value.get("translation")
    if isinstance(translation, dict) and not any(name in value for name in names):
        return translation, form.keys(translation.keys(), path, line)
    # What has nothing but a source and a target means them, whatever the keys of other files are.
    own = value.keys() == {"source", "target"} and not any(name in value for name in names)
    return value, ("source", "target") if own else names


def _not_text(source: str, target: str, path: str, line: int) -> DataError | None:
    # JSON can spell what UTF-8 cannot: NUL and half of a surrogate pair.
    for key, text in (("source", source), ("target", target)):
        if text != _replaced(text):
            expected = "no NUL and no lone surrogate"
            return DataError(f"the {key} is not text", file=path, line=line, expected=expected)
    return None


def _replaced(text: str) -> str:
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)
