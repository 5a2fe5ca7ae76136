"""Tables of pieces and numbers in plain text, aligned where characters are two columns wide, too."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from jaxtyping import Shaped
from torch import Tensor

from dragoman.stages.stage import Stage
from dragoman.stages.words import printable, say, shown

ROWS = 12
# A sign of a wide script or a word, with the punctuation that must not begin a line.
_WORDS = re.compile(r"(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)[，。：；、）”]*\s*")
# Keys of an attention map are pieces: fewer than these are not worth leaving any out, unless their names are long.
COLUMNS, WIDTH = 16, 128


def table(rows: Sequence[Sequence[str]], indent: int = 4, left: int = 1, gap: int = 2) -> list[str]:
    """Return rows as lines, each column as wide as its widest cell.

    Args:
        rows: cells; shorter rows end early.
        indent: blanks before each line.
        left: so many first columns are aligned at their left, the others at their right.
        gap: blanks between columns.
    """
    count = max((len(row) for row in rows), default=0)
    widths = [max(cells(row[column]) for row in rows if column < len(row)) for column in range(count)]
    lines = []
    for row in rows:
        padded = [
            cell + " " * (width - cells(cell)) if column < left else " " * (width - cells(cell)) + cell
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((" " * indent + (" " * gap).join(padded)).rstrip())
    return lines


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def folded(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many columns, cut at blanks where there are some; [] if it is empty."""
    from rich.cells import chop_cells

    printed = printable(text)
    lines = textwrap.wrap(printed, width, break_long_words=False)
    return [part for line in lines for part in chop_cells(line, width)]


def folded_chinese(text: str, width: int) -> list[str]:
    """Return a sentence as lines of at most so many columns: cut between signs too, but in no word or number."""
    lines, line = [], ""
    for part in _WORDS.findall(text):
        if line and cells(line + part.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += part if line else part.lstrip()
    return [*lines, *([line.rstrip()] if line else [])]


def number(value: float) -> str:
    """Return three decimals; `0` only for what is exactly 0, such as a masked weight."""
    if value == 0:
        return "0"
    return f"{value:.3f}" if abs(value) < 10_000 else f"{value:.2e}"


def fine(value: float) -> str:
    """Return four decimals, as sums are followed with a pencil."""
    return "0" if value == 0 else f"{value:.4f}" if abs(value) >= 1e-3 else f"{value:.2e}"


def stage_numbers(stage: Stage, count: int, *, rows: int = ROWS, indent: int = 6, tell: bool = True) -> Iterator[str]:
    """Yield the numbers of a stage, at most `count` in a row, with a line on what is left out.

    Args:
        stage: with or without values.
        count: of each row; none if 0. Of rows over the vocabulary these are the largest.
        rows: so many of each matrix at most.
        indent: blanks before each line.
        tell: whether to say that columns are left out, besides the `…`.
    """
    if not count:
        return
    if stage.picked:
        lines = [
            [shown(piece), say("1 in column {column}").format(column=column)]
            for piece, column in zip(stage.rows, stage.picked, strict=True)
        ]
        yield from table(lines[:rows], indent, left=2)
        yield from _left_out(indent, len(lines) - rows)
    elif stage.values is not None:
        values = stage.values[0]  # one text
        if stage.heads:
            for head, matrix in zip(stage.heads, values, strict=True):
                yield " " * indent + say("head {head}").format(head=head)
                yield from _matrix(stage, matrix, count, rows, indent + 2, tell)
        else:
            yield from _matrix(stage, values.reshape(-1, values.shape[-1]), count, rows, indent, tell)


def _matrix(
    stage: Stage, values: Shaped[Tensor, "rows columns"], count: int, rows: int, indent: int, tell: bool
) -> Iterator[str]:
    """A matrix with its labels, cropped."""
    labels = list(stage.labels) or [""] * len(values)
    if stage.dims[-1].endswith("vocab"):
        yield from table(_largest(labels[:rows], values[:rows], count, stage.entries), indent)
        most = say("the {count} largest of {columns} columns").format(count=count, columns=f"{values.shape[1]:,}")
        columns = most if tell else ""
        yield from _left_out(indent, len(values) - rows, columns)
        return
    most = max(count, COLUMNS) if stage.columns else count
    while most > count and sum(max(6, cells(shown(piece))) + 2 for piece in stage.columns[:most]) > WIDTH:
        most -= 1
    lines = [
        [label, *_cells(row[:most]), *(["…"] if len(row) > most else [])]
        for label, row in zip(labels[:rows], values[:rows], strict=True)
    ]
    if stage.columns:
        lines.insert(0, ["", *(shown(piece) for piece in stage.columns[:most])])
    yield from table(lines, indent)
    columns = ""
    if tell and values.shape[1] > most:
        columns = say("the first {count} of {columns} columns").format(count=most, columns=f"{values.shape[1]:,}")
    yield from _left_out(indent, len(values) - rows, columns)


def _cells(row: Shaped[Tensor, " columns"]) -> list[str]:
    if row.is_floating_point():
        return [number(value) for value in row.tolist()]
    return ["■" if value else "·" for value in row.tolist()]


def _largest(
    labels: Sequence[str],
    values: Shaped[Tensor, "rows columns"],
    count: int,
    entries: Callable[[Sequence[int]], Sequence[str]] | None,
) -> list[list[str]]:
    found = values.topk(min(count, values.shape[1]))

    def named(columns: Sequence[int]) -> Sequence[str]:
        return [f"{column}:" for column in columns] if entries is None else list(map(shown, entries(columns)))

    return [
        [label, *(f"{name} {number(value)}" for name, value in zip(named(columns), row, strict=True))]
        for label, row, columns in zip(labels, found.values.tolist(), found.indices.tolist(), strict=True)
    ]


def _left_out(indent: int, count: int, columns: str = "") -> Iterator[str]:
    """One line on what was cropped, if anything was."""
    parts = [*([columns] if columns else []), *([say("{count} more rows").format(count=count)] if count > 0 else [])]
    if parts:
        yield f"{' ' * indent}({'; '.join(parts)})"
