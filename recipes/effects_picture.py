"""What `effects.py` measured as a picture: a line for each means, its difference of BLEU with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.canvas import INK, LINES, QUIET, Picture, draw

BETTER, UNSURE, WORSE = "#3a50a3", "#8b93a5", "#c2571a"
# Differences below this are written down at the edge, as a few great losses would leave no room for all else.
LEAST = -4.0


def draw_effects(rows: Sequence[dict[str, Any]], path: str | Path) -> Picture:
    """Draws the rows of `rows.json`, greatest gain first; the base, where others are measured from, is their zero.

    Raises:
        DragomanError: matplotlib is not installed (the extra `plot`), or the file cannot be written.
    """
    rows = [row for row in rows if row["what"] is not None]
    return draw(path, "".join(row["what"] for row in rows), lambda: figure_of(rows))


def figure_of(rows: Sequence[dict[str, Any]]) -> Any:
    """The figure, a line for each row."""
    from matplotlib.figure import Figure

    rows = sorted(rows, key=lambda row: row["bleu"]["difference"])
    figure = Figure(figsize=(7.2, 0.6 + 0.19 * len(rows)))
    axes = figure.subplots()
    axes.axvline(0, color=QUIET, linewidth=0.8)
    for place, row in enumerate(rows):
        _line(axes, place, row)
    most = max((row["bleu"]["interval"][1] for row in rows), default=0.0)
    axes.set_xlim(LEAST - 0.6, max(1.0, most) + 0.2)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_yticks(range(len(rows)), [row["what"] for row in rows], fontsize=7, color=INK, parse_math=False)
    axes.tick_params(length=0, labelsize=7)
    axes.grid(visible=True, axis="x", color=LINES, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("BLEU beside the base, with 95 % intervals; × time of training", fontsize=8, color=QUIET)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _line(axes: Any, place: int, row: dict[str, Any]) -> None:
    """A dot with its interval, and what it costs."""
    difference, (low, high) = row["bleu"]["difference"], row["bleu"]["interval"]
    colour = BETTER if low > 0 else WORSE if high < 0 else UNSURE
    if difference < LEAST:
        axes.text(LEAST, place, f"◂ {difference:.1f}".replace("-", "−"), color=colour, fontsize=7, va="center")
    else:
        axes.plot([max(low, LEAST), high], [place, place], color=colour, linewidth=1.3)
        axes.plot([difference], [place], marker="o", markersize=3.6, color=colour)
    cost = f"× {row['cost']:.1f}" if row["minutes"] else "–"
    axes.annotate(cost, (1.01, place), xycoords=("axes fraction", "data"), fontsize=6.5, color=QUIET, va="center")
