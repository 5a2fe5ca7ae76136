"""How results show themselves: one short line in a terminal, a plain table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_WIDTH = 40


def short(text: str, most: int = _WIDTH) -> str:
    """Return a text in quotes, cut where it is long; what is not printed is shown by its number."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def count(number: int) -> str:
    """Return a number in words of two or three digits: 950, 3.2M, 41K."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)


def html_table(rows: Iterable[Sequence[object]], header: Sequence[str] = (), caption: str = "") -> str:
    """Return a table without styles and scripts, everything in it escaped.

    Args:
        rows: of cells.
        header: above the columns.
        caption: above the table.
    """
    head = f"<tr>{_cells(header, 'th')}</tr>" if header else ""
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{head}{body}</table>"


def _cells(row: Sequence[object], kind: str) -> str:
    return "".join(f"<{kind}>{escape(str(cell))}</{kind}>" for cell in row)
