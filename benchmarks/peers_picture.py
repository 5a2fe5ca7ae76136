"""How costs grow, as a picture: a column for each thing that grows, time above and memory below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from layer_costs_picture import QUIET, STYLE

Row = dict[str, Any]
# Blue for this toolkit, warm colours for CTranslate2; one thread to a worker is dashed.
LOOKS = {
    "dragoman": ("#33367c", "-"), "dragoman auto float32": ("#7a9fd8", "-"), "ctranslate2 int8": ("#c2571a", "-"),
    "ctranslate2 float32": ("#d9a441", "-"), "workers": ("", "--"),
}  # fmt: skip
TITLES = {
    "source": "tokens of a source, and of its output", "batch": "sentences in a batch", "beam": "beam size",
    "vocab": "vocabulary", "layers": "layers on each side",
}  # fmt: skip


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG or SVG of the curves among the rows."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["benchmark"] == "peers curve"]
    curves = [name for name in TITLES if any(row["curve"] == name for row in rows)]
    with rc_context(STYLE):
        figure = Figure(figsize=(3.2 * max(2, len(curves)), 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(2, len(curves), squeeze=False, sharex="col", sharey="row")
        for column, curve in enumerate(curves):
            own = [row for row in rows if row["curve"] == curve]
            _panel(panels[0][column], own, "seconds", 1000)
            _panel(panels[1][column], [row for row in own if row["peak_mib"]], "peak_mib", 1)
            panels[0][column].set_title(TITLES[curve])
        panels[0][0].set_ylabel("milliseconds")
        panels[1][0].set_ylabel("MiB at the peak")
        figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(panel: Any, rows: Sequence[Row], name: str, unit: float) -> None:
    panel.set(xscale="log", yscale="log" if name == "seconds" else "linear")
    for what in dict.fromkeys(row["what"] for row in rows):
        own = sorted((row for row in rows if row["what"] == what), key=lambda row: row["value"])
        colour = LOOKS[what.split(",")[0]][0]
        style = LOOKS["workers" if "workers" in what else what][1]
        values, found = [row["value"] for row in own], [unit * row[name] for row in own]
        panel.plot(values, found, color=colour, linestyle=style, marker="o", markersize=3, linewidth=1.5, label=what)
    if name == "seconds":  # as the count of operations grows, from where this toolkit ends
        own = sorted((row for row in rows if row["what"] == "dragoman"), key=lambda row: row["value"])
        last = own[-1]
        counted = [unit * last["seconds"] * row["operations"] / last["operations"] for row in own]
        panel.plot([row["value"] for row in own], counted, color=QUIET, linestyle=":", label="operations, to scale")
    ticks = sorted({row["value"] for row in rows})
    ticks = ticks[:: 1 + (len(ticks) > 5)]
    panel.set_xticks(ticks, [f"{value // 1000}k" if value >= 4000 else str(value) for value in ticks])
    panel.minorticks_off()
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.grid(visible=True, axis="both", which="major")
