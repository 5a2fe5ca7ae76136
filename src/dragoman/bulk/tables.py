"""Rows of files and back: lines of text, JSON objects, Parquet. Tasks of Ray read them, and its driver writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bulk.columns import Translate, column_of, with_columns
from dragoman.bulk.parts import Parts, cut
from dragoman.errors import ConfigError, DataError
from dragoman.text.opening import COMPRESSED, open_bytes

if TYPE_CHECKING:
    import pyarrow

TEXT, JSONL, PARQUET = ".txt", ".jsonl", ".parquet"
# The column of rows that are lines; of objects and of texts.
LINE = "text"
BLOCK = 512  # rows that are read at a time
# What may be made of what: only what keeps every value as it is.
_LAYOUTS = {TEXT: (TEXT, JSONL, PARQUET), JSONL: (JSONL, TEXT), PARQUET: (PARQUET, TEXT)}


def kind_of(path: Path) -> str:
    """Return what a file, or a folder of tables, holds, by its suffix: whatever is no table is text."""
    if path.is_dir():
        return PARQUET
    suffix = Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
    return suffix if suffix in (JSONL, PARQUET) else TEXT


def check_layout(source: str, output: Path) -> str:
    """Return the suffix of the parts of an output: a folder has what its source has.

    Raises:
        ConfigError: values would not be what they were.
    """
    kind = kind_of(output) if output.suffix else source
    if kind not in _LAYOUTS[source]:
        expected = "a folder, or " + " or ".join(_LAYOUTS[source])
        raise ConfigError(f"{source} cannot be converted to {kind}", file=output, expected=expected)
    return kind


def files_of(source: Path) -> list[Path]:
    """Return the files of a source: itself, or the tables in a folder, by name.

    Raises:
        DataError: there is none in it.
    """
    if not source.is_dir():
        return [source]
    found = sorted(source.glob(f"*{PARQUET}"))
    if not found:
        raise DataError("the folder has no tables in it", file=source, expected=f"files named *{PARQUET}")
    return found


def count_rows(file: Path, kind: str) -> int | None:
    """Return how many rows a file has, if that is cheap to know.

    Raises:
        DataError: it is no Parquet file.
    """
    return _opened(file).metadata.num_rows if kind == PARQUET else None


def schema_of(file: Path) -> pyarrow.Schema:
    """Return the columns of a Parquet file.

    Raises:
        DataError: it is none.
    """
    return _opened(file).schema_arrow


def _opened(file: Path) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(file)
    except (ArrowException, OSError) as error:
        raise DataError("not a Parquet file", file=file, found=str(error).splitlines()[0]) from error


def read_rows(file: str, kind: str, skip: int) -> Iterator[pyarrow.Table]:
    """Yield the rows of a file as small tables, without some at its beginning; lines are bytes in a column `text`.

    Raises:
        DataError: it cannot be read, or is damaged.
    """
    import pyarrow

    if kind == PARQUET:
        opened, groups = _opened(Path(file)), []
        for group in range(opened.num_row_groups):
            size = opened.metadata.row_group(group).num_rows
            groups += [group] * (size > skip or bool(groups))
            skip -= size * (not groups)
        for batch in opened.iter_batches(BLOCK, row_groups=groups) if groups else ():
            table = pyarrow.Table.from_batches([batch]).slice(skip)
            skip = max(0, skip - batch.num_rows)
            if table.num_rows:
                yield table
        return
    for part in cut(Path(file), BLOCK):
        if lines := part.lines[max(0, skip + 1 - part.first) :]:
            yield pyarrow.table({LINE: pyarrow.array(lines, pyarrow.binary())})


class TranslateFile:
    """Translates rows as `read_rows` gives them, in an actor of Ray, into rows as `write_part` takes them.

    Args:
        kind: what the source holds.
        keep: whether the column of lines comes out too.
        given: the arguments of `Translate`.
    """

    def __init__(self, kind: str, keep: bool, given: Mapping[str, Any]) -> None:
        self.kind, self.keep = kind, keep
        self.translate = Translate(**given)

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Return the same rows with their new columns; of JSON objects the new objects."""
        if self.kind == PARQUET:
            return self.translate(table)
        lines = table[LINE].to_pylist()
        if self.kind == JSONL:
            return self._of_objects(lines)
        made = self.translate.columns(lines)
        texts = {LINE: [line.decode("utf-8", "replace") for line in lines]} if self.keep else {}
        return with_columns(table.drop_columns([LINE]), {**texts, **made})

    def _of_objects(self, lines: Sequence[bytes]) -> pyarrow.Table:
        import pyarrow

        new, source = self.translate, self.translate.source
        objects = [_object(line) for line in lines]
        if there := [one for one in new.made() if any(one in tree for tree, _ in objects)]:
            raise DataError("there is a key of this name already", found=", ".join(there), hint="give another name")
        made = new.columns([tree.get(source) for tree, _ in objects])
        rows = []
        for row, (tree, reason) in enumerate(objects):
            told = {name: values[row] for name, values in made.items()}
            if source not in tree:
                told[new.problem] = reason or f'there is no "{source}"'
            rows.append((_json({**tree, **told}), told[new.target], told[new.problem]))
        names = (LINE, new.target, new.problem)
        return pyarrow.table({name: pyarrow.array([row[place] for row in rows], pyarrow.string())
                              for place, name in enumerate(names)})  # fmt: skip


def _object(line: bytes) -> tuple[dict[str, Any], str]:
    """A JSON object, or none and why it is none."""
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return {}, "not JSON"
    return (tree, "") if isinstance(tree, dict) else ({}, "not a JSON object")


def _json(tree: Mapping[str, Any]) -> str:
    """As it was, also where it is more than JSON has: NaN, or half of a pair of surrogates."""
    text = json.dumps(tree, ensure_ascii=False)
    return text if text.isprintable() or _is_text(text) else json.dumps(tree)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def part_bytes(table: pyarrow.Table, source: str, kind: str, target: str) -> bytes:
    """Return rows as the file of a part.

    Args:
        table: as `TranslateFile` gives it.
        source: what the source holds.
        kind: what the part is to hold.
        target: column of translations.
    """
    if kind == PARQUET:
        from pyarrow import parquet

        made = io.BytesIO()
        parquet.write_table(table, made)
        return made.getvalue()
    if kind == TEXT:
        from dragoman.search.outputs import one_line

        return "".join(one_line(text) + "\n" for text in column_of(table, target, ())).encode()
    if source == JSONL:
        return "".join(line + "\n" for line in column_of(table, LINE, ())).encode()
    return "".join(_json(row) + "\n" for row in table.to_pylist()).encode()


def join(parts: Parts, count: int, path: Path, empty: pyarrow.Schema | None) -> None:
    """Put parts together in a file, whole or not at all, and remove them; of tables without rows only the columns.

    Args:
        parts: all of them are done.
        count: how many there are.
        path: the file.
        empty: columns of a table if there are no parts.
    """
    if parts.suffix != PARQUET:
        parts.join(count, path)
        return
    from pyarrow import parquet

    files = [_opened(parts.file(number)) for number in range(count)]
    schema = files[0].schema_arrow if files else empty
    temporary = parts.folder / "whole.tmp"
    with parquet.ParquetWriter(temporary, schema) as whole:
        for file in files:
            whole.write_table(file.read().cast(schema))
    temporary.replace(path)
    parts.remove()


def check_columns(files: Sequence[Path], kind: str, source: str, made: Sequence[str]) -> None:
    """Refuse tables without a column of texts, or with one of the new columns, before a model is opened.

    Raises:
        DataError: there is one.
    """
    for file in files if kind == PARQUET else ():
        column_of(schema_of(file).empty_table(), source, made)
    if kind == JSONL:
        with open_bytes(files[0]):
            pass


def count_of_part(file: Path, kind: str) -> int:
    """Return how many rows a part has."""
    return count_rows(file, kind) or 0 if kind == PARQUET else file.read_bytes().count(b"\n")


def empty_schema(file: Path, kind: str, source: str, made: Sequence[str]) -> pyarrow.Schema:
    """Return the columns of a table that is made of a source without rows."""
    import pyarrow

    table = schema_of(file).empty_table() if kind == PARQUET else pyarrow.table({source: pyarrow.array([], "string")})
    return with_columns(table, {name: [] for name in made}).schema
