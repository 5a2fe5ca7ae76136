"""Parquet files of pairs, read as a stream: columns of texts, or a column `translation` of texts by language."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, DataError
from dragoman.remote import local_file
from dragoman.text.lines import BadText, ReadCounts
from dragoman.text.opening import COMPRESSED
from dragoman.text.pair import Pair
from dragoman.text.pair_format import PairFormat, find_columns

_ROWS = 4096  # that are held at once


def read_parquet(path: str, form: PairFormat, on_bad_text: BadText, counts: ReadCounts) -> Iterator[Pair]:
    """Yield the pairs of a Parquet file; a row without one of its texts is counted as incomplete.

    Args:
        path: the file.
        form: names the columns, or the languages of `translation`; `source` and `target` without it.
        on_bad_text: what a text with NUL in it does.
        counts: filled in with rows.

    Raises:
        DataError: the file is not Parquet, the package pyarrow is missing, or a cell is not one line of text.
        ConfigError: the columns that are meant are not there.
    """
    if Path(path).suffix in COMPRESSED:
        raise DataError("a Parquet file is compressed inside", file=path, hint="decompress it, and name it .parquet")
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        hint = "pip install pyarrow (it is in the extra `corpora`)"
        raise DataError("reading Parquet needs the package pyarrow", file=path, hint=hint) from error
    try:
        with parquet.ParquetFile(local_file(path)) as file:
            columns = _columns(file, form, path)
            number = 0
            for batch in file.iter_batches(_ROWS, columns=columns):
                for cells in zip(*(_cells(batch, name) for name in columns), strict=True):
                    number += 1
                    pair = _pair(cells, columns, path, number, on_bad_text, counts)
                    if pair is not None:
                        yield pair
    except OSError as error:  # those of pyarrow are among them
        raise DataError("cannot read the Parquet file", file=path, found=str(error).splitlines()[0]) from error
    except ValueError as error:
        raise DataError("not a Parquet file", file=path, found=str(error).splitlines()[0]) from error


def _columns(file: Any, form: PairFormat, path: str) -> list[str]:
    """The names of the columns of source and target; those inside `translation` have a dot."""
    schema = file.schema_arrow
    inside = [f"translation.{field.name}" for field in schema.field("translation").type] if _nested(schema) else []
    if form.numbers is not None:
        for place in form.numbers:
            if place >= len(schema.names):
                found = f"{len(schema.names)} columns"
                raise ConfigError("there is no such column", file=path, expected=str(place + 1), found=found)
        return [schema.names[place] for place in form.numbers]
    names = form.names or ("source", "target")
    if inside and not any(name in schema.names for name in names):
        return [f"translation.{key}" for key in form.keys([one.partition(".")[2] for one in inside], path, 1)]
    if form.names is None and not set(names) <= set(schema.names) and len(schema.names) == 2:
        return list(schema.names)
    return [schema.names[place] for place in find_columns(schema.names, names, path, 1)]


def _nested(schema: Any) -> bool:
    kind = importlib.import_module("pyarrow").types
    return "translation" in schema.names and kind.is_struct(schema.field("translation").type)


def _cells(batch: Any, name: str) -> list[Any]:
    outer, _, key = name.partition(".")
    if name in batch.schema.names:
        return batch.column(name).to_pylist()
    return [None if cell is None else cell[key] for cell in batch.column(outer).to_pylist()]


def _pair(
    cells: tuple[Any, ...], columns: list[str], path: str, number: int, on_bad_text: BadText, counts: ReadCounts
) -> Pair | None:
    counts.read += 1
    if any(cell is None for cell in cells):
        counts.incomplete += 1
        return None
    replaced = False
    texts = []
    for name, cell in zip(columns, cells, strict=True):
        if not isinstance(cell, str):
            found, expected = f'"{name}" is {type(cell).__name__}', "two columns of texts"
            raise DataError("not a pair", file=path, line=number, expected=expected, found=found)
        if "\n" in cell:
            hint = "split it, or put a space for each line break"
            raise DataError(f'"{name}" is more than one line', file=path, line=number, hint=hint)
        if "\0" in cell:
            if on_bad_text == "stop":
                raise DataError(f"the {name} is not text", file=path, line=number, expected="no NUL")
            if on_bad_text == "skip":
                counts.skipped += 1
                return None
            cell, replaced = cell.replace("\0", "\ufffd"), True
        texts.append(cell)
    counts.replaced += replaced
    return Pair(texts[0], texts[1], path, number)
