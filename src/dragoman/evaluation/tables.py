"""Small tables for terminals and for Markdown."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 80


@dataclass(frozen=True)
class Table:
    """Rows of text under a title.

    Attributes:
        title: what the table shows.
        header: a name for each column; the first column is set left, the others right.
        rows: as many cells as the header has.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_text(self) -> str:
        """Return the table in plain text: columns as wide as their cells, two blanks between them."""
        lines = [self.header, *self.rows]
        widths = [max(_columns(line[i]) for line in lines) for i in range(len(self.header))]
        return "\n".join([self.title, *(_aligned(line, widths) for line in lines)])

    def to_markdown(self) -> str:
        """Return the table in Markdown, under a heading of the third level."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        lines = [self.header, rule, *self.rows]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def fits(table: Table) -> bool:
    """Return whether the text of a table keeps within `WIDTH` columns."""
    return all(_columns(line) <= WIDTH for line in table.to_text().split("\n"))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (" " * (width - _columns(cell)) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([cells[0] + first, *(pad + cell for pad, cell in zip(others, cells[1:], strict=True))]).rstrip()


def _columns(text: str) -> int:
    """How many columns a terminal gives a text: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
