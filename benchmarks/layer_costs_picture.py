"""The costs of layers as a picture: a panel for each width, time over length, crossings marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from layer_costs import ATTENTION, BARE, CONVOLUTION, LAYERS, RECURRENT, Row, number

COLOURS = {ATTENTION: "#33367c", BARE: "#7a9fd8", RECURRENT: "#c2571a", CONVOLUTION: "#2a8f6f"}
INK, QUIET, LINES = "#1c1c28", "#6b6b7b", "#d9dde3"
STYLE = {
    "axes.edgecolor": LINES, "axes.labelcolor": QUIET, "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlesize": 11, "font.size": 9, "grid.color": LINES, "grid.linewidth": 0.6, "svg.fonttype": "path",
    "svg.hashsalt": "dragoman", "text.color": INK, "xtick.color": QUIET, "ytick.color": QUIET,
    "xtick.minor.size": 0, "ytick.minor.size": 0,
}  # fmt: skip


def draw(rows: Sequence[Row], found: Sequence[Row], path: Path) -> None:
    """Write a PNG or SVG of the first setting (threads and pass) among the rows."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    setting = (rows[0]["threads"], rows[0]["pass"])
    rows, found = ([row for row in some if (row["threads"], row["pass"]) == setting] for some in (rows, found))
    widths = list(dict.fromkeys(row["d_model"] for row in rows))
    with rc_context(STYLE):
        columns = 2 if len(widths) > 1 else 1
        lines = -(-len(widths) // columns)
        figure = Figure(figsize=(4.6 * columns, 3.5 * lines + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        panels = list(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
        for panel, d in zip(panels, widths, strict=False):
            _panel(panel, [row for row in rows if row["d_model"] == d], [row for row in found if row["d_model"] == d])
        for panel in panels[::columns]:
            panel.set_ylabel("milliseconds")
        for panel in panels[len(widths) - columns : len(widths)]:
            panel.set_xlabel("length n")
        for panel in panels[len(widths) :]:
            panel.remove()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        threads = f"{setting[0]} thread" + ("s" if setting[0] != 1 else "")
        figure.suptitle(f"Time of one layer, {setting[1]}, batch of {rows[0]['batch']}, {threads}", fontsize=12)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(panel: Any, rows: Sequence[Row], found: Sequence[Row]) -> None:
    d = rows[0]["d_model"]
    panel.set(xscale="log", yscale="log", title=f"d = {d}")
    for layer in LAYERS:
        own = sorted((row for row in rows if row["what"] == layer), key=lambda row: number(row["length"]))
        lengths = [number(row["length"]) for row in own]
        low, middle, high = (
            [1000 * number(row[name]) for row in own] for name in ("quartile_1", "seconds", "quartile_3")
        )
        panel.plot(lengths, middle, color=COLOURS[layer], marker="o", markersize=3.5, linewidth=1.6, label=layer)
        panel.fill_between(lengths, low, high, color=COLOURS[layer], alpha=0.2, linewidth=0)
    lengths = sorted({int(number(row["length"])) for row in rows})
    panel.set_xticks(lengths[:: 1 + (len(lengths) > 6)], [f"{n:,}" for n in lengths[:: 1 + (len(lengths) > 6)]])
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.grid(visible=True, axis="both", which="major")
    for row in found:
        _crossing(panel, row, rows)


def _crossing(panel: Any, row: Row, rows: Sequence[Row]) -> None:
    """A ring where the lines cross."""
    if row["crossover"] is None:
        return
    n = number(row["crossover"])
    milliseconds = 1000 * _between(n, [one for one in rows if one["what"] == row["what"]])
    panel.plot([n], [milliseconds], marker="o", markersize=10, markerfacecolor="none", markeredgecolor=INK)
    above = row["what"] == ATTENTION  # the two attentions cross a line at about the same place
    panel.annotate(
        f"{n:,.0f}", (n, milliseconds), (-6, 7) if above else (8, -11), textcoords="offset points",
        ha="right" if above else "left", color=COLOURS[str(row["what"])], weight="bold",
    )  # fmt: skip


def _between(n: float, rows: Sequence[Row]) -> float:
    """The time at n, on a straight line between the sizes measured, both scales logarithmic."""
    import numpy as np

    points = sorted((number(row["length"]), number(row["seconds"])) for row in rows)
    lengths, seconds = np.log(np.array(points)).T
    return float(np.exp(np.interp(np.log(n), lengths, seconds)))
