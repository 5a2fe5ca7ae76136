"""The costs of layers as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from layer_costs import LAYERS, TEXTBOOK, Row, number
from rich.console import Console
from rich.table import Table


def print_tables(rows: Sequence[Row], found: Sequence[Row]) -> None:
    """The textbook's table, then for each setting the measured one and the crossovers, to standard error."""
    console = Console(stderr=True, width=128, highlight=False)
    console.print(textbook())
    for threads, direction in dict.fromkeys((row["threads"], row["pass"]) for row in rows):
        title = f"{direction}, {threads} thread{'s' if threads != 1 else ''}"
        console.print(measured([row for row in rows if (row["threads"], row["pass"]) == (threads, direction)], title))
        own = [row for row in found if (row["threads"], row["pass"]) == (threads, direction)]
        console.print(crossing(own, title))


def textbook() -> Table:
    table = Table("layer", "complexity per layer", "sequential operations", "maximum path", title="By the textbook")
    for layer, costs in TEXTBOOK.items():
        table.add_row(layer, *costs)
    return table


def measured(rows: Sequence[Row], title: str) -> Table:
    """A line per size: what is counted for one sequence, and the time of a batch."""
    table = Table(title=f"Measured, batch of {rows[0]['batch']}: {title}")
    for heading in ("layer", "d", "n", "operations", "multiply-adds", "steps", "path", "ms", "quartiles", "ratio"):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for d in dict.fromkeys(row["d_model"] for row in rows):
        for layer in LAYERS:
            for row in (row for row in rows if row["d_model"] == d and row["what"] == layer):
                table.add_row(*_cells(row))
            table.add_section()
    return table


def _cells(row: Row) -> list[str]:
    counts = [_short(number(row[name])) for name in ("operations", "multiply_adds")]
    counts += [f"{row[name]:,}" for name in ("sequential", "path")]
    low, high = (_milliseconds(row[name]) for name in ("quartile_1", "quartile_3"))
    names = [str(row["what"]), str(row["d_model"]), str(row["length"])]
    return [*names, *counts, _milliseconds(row["seconds"]), f"{low} to {high}", f"{number(row['ratio']):.2f}"]


def crossing(found: Sequence[Row], title: str) -> Table:
    table = Table(title=f"The n from which attention is dearer: {title}")
    for heading in ("attention", "than", "d", "measured", "quartiles", "by the textbook", "by multiplications"):
        table.add_column(heading, justify="left" if heading in ("attention", "than") else "right")
    for row in found:
        low, high = (row["crossover_1"], row["crossover_3"])
        spread = f"{number(low):.0f} to {number(high):.0f}" if low is not None and high is not None else ""
        counted = "every n" if row["multiply_adds"] is None else f"{number(row['multiply_adds']):.0f}"
        names = (str(row["what"]), str(row["against"]), str(row["d_model"]))
        table.add_row(*names, where(row), spread, str(row["textbook"]), counted)
    return table


def where(row: Row) -> str:
    """The measured crossing, or on which side of what was measured it lies."""
    if row["crossover"] is None:
        return f"every n (from {row['shortest']})" if row["seen"] == "below" else f"above {row['longest']}"
    return f"{number(row['crossover']):.0f}"


def _milliseconds(seconds: object) -> str:
    milliseconds = 1000 * number(seconds)
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def _short(count: float) -> str:
    """Three digits and a unit: 134 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"
