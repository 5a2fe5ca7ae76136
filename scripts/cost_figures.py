"""The figures of what a layer costs and of how costs grow.

`measured_costs.json` has their numbers, with an error of about two percent: they were read off pictures that
`bench_layer_costs.py --picture` and `peers_run.py --picture` of `benchmarks/` drew of measurements, those of growth on
2026-11-21. The crossings of layers are those of the table in `benchmarks/README.md`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from guide_figures import Tell, titled

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words

MEASURED = json.loads(Path(__file__).with_name("measured_costs.json").read_text(encoding="utf-8"))
BLUE, PALE_BLUE, BROWN, SAND, GREEN = "#33367c", "#7a9fd8", "#c2571a", "#d9a441", "#2a8f6f"
# Name -> its colour, whether it is dashed, and what it is called in English and Chinese.
LAYERS = {
    "self-attention": (BLUE, False, "self-attention", "自注意力"),
    "attention alone": (PALE_BLUE, False, "attention alone", "只算注意力"),
    "recurrent": (BROWN, False, "recurrent (GRU)", "循环（GRU）"),
    "convolution": (GREEN, False, "convolution", "卷积"),
}
SYSTEMS = {
    "dragoman": (BLUE, False, "Dragoman", "Dragoman"),
    "dragoman float32": (PALE_BLUE, False, "Dragoman, float32", "Dragoman，float32"),
    "ctranslate2 float32": (SAND, False, "CTranslate2, float32", "CTranslate2，float32"),
    "ctranslate2 int8": (BROWN, False, "CTranslate2, int8", "CTranslate2，int8"),
    "ctranslate2 float32 workers": (
        SAND,
        True,
        "CTranslate2, float32, a worker for each thread",
        "CTranslate2，float32，每线程一个 worker",
    ),
    "ctranslate2 int8 workers": (
        BROWN,
        True,
        "CTranslate2, int8, a worker for each thread",
        "CTranslate2，int8，每线程一个 worker",
    ),
    "operations": (QUIET, True, "number of operations, to scale", "运算次数，按比例"),
}
CURVES = {
    "source": ("tokens of a source, and of its output", "源句的词元数，输出也一样长"),
    "batch": ("sentences in a batch", "一批的句数"),
    "beam": ("beam size", "束宽"),
    "vocab": ("vocabulary", "词表"),
    "layers": ("layers on each side", "每侧的层数"),
}


@dataclass(frozen=True)
class Panel:
    """A part of a figure with two axes: the lower one logarithmic, from the first to the last of `values`."""

    left: float
    top: float
    width: float
    height: float
    values: Sequence[float]
    low: float
    high: float
    logarithmic: bool = True

    def x(self, value: float) -> float:
        """Return the place of a value of the lower axis."""
        first, last = self.values[0], self.values[-1]
        return self.left + 12 + (self.width - 24) * math.log(value / first) / math.log(last / first)

    def y(self, value: float) -> float:
        """Return the height of a value of the other one."""
        part = (value - self.low) / (self.high - self.low)
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.top + self.height * (1 - part)

    def frame(self, sketch: Sketch, ticks: Sequence[float], shown: Sequence[float], *, named: bool = True) -> None:
        """Draw the grid and what stands beside it; `shown` are the values that are written below."""
        right, low = self.left + self.width, self.top + self.height
        for tick in ticks:
            y = self.y(tick)
            sketch.add(Line(((self.left, y), (right, y)), LINES, 0.8))
            if named:
                sketch.add(Words(self.left - 8, y, f"{tick:,g}", 11, "end", QUIET))
        for value in shown:
            x = self.x(value)
            text = f"{value // 1000:g}k" if value >= 4000 else f"{value:,}"
            sketch.add(Line(((x, self.top), (x, low)), LINES, 0.8), Words(x, low + 13, text, 11, colour=QUIET))

    def curve(self, sketch: Sketch, found: Sequence[float], colour: str, dashed: bool, *, dots: bool = True) -> None:
        """Draw a line through what was found for each value, below the panel's lower edge nothing."""
        points = [(self.x(value), self.y(one)) for value, one in zip(self.values, found, strict=True)]
        edge = self.top + self.height
        kept = [point for point in points if point[1] <= edge]
        if len(kept) < len(points):
            (x0, y0), (x1, y1) = next(pair for pair in pairwise(points) if pair[1][1] <= edge < pair[0][1])
            kept.insert(0, (x0 + (x1 - x0) * (edge - y0) / (y1 - y0), edge))
        sketch.add(Line(tuple(kept), colour, 1.6, dashed=dashed))
        for x, y in kept if dots else ():
            sketch.add(Box(x - 2.5, y - 2.5, 5, 5, colour, round=2.5))


def _legend(sketch: Sketch, what: dict[str, Any], tell: Tell, top: float, columns: int) -> None:
    wide = (sketch.width - 60) / columns
    for number, (colour, dashed, english, chinese) in enumerate(what.values()):
        x, y = 40 + wide * (number % columns), top + 20 * (number // columns)
        sketch.add(Line(((x, y), (x + 26, y)), colour, 1.6, dashed=dashed))
        sketch.add(Words(x + 34, y, tell(english, chinese), 12, "start"))


def layer_costs(tell: Tell) -> Sketch:
    """A panel for each width, time over length, crossings marked."""
    made = MEASURED["layers"]
    note = tell(
        "forward, batch of 8, 1 thread. A ring: there two lines cross, at this n",
        "前向，批次 8，1 个线程。圆圈：两条线在这个 n 相交",
    )
    title = tell("Milliseconds that one layer takes, over the length n", "一层所用的毫秒数与长度 n 的关系")
    sketch = titled(800, 616, title, note)
    for number, (d, rows) in enumerate(made["milliseconds"].items()):
        left, top = 62 + 375 * (number % 2), 94 + 254 * (number // 2)
        panel = Panel(left, top, 350, 200, made["lengths"], 0.02, 2000)
        panel.frame(sketch, (0.1, 1, 10, 100, 1000), (8, 32, 128, 512, 2048), named=number % 2 == 0)
        sketch.add(Words(left + 175, top - 12, f"d = {d}", 13))
        for name, (colour, dashed, *_) in LAYERS.items():
            panel.curve(sketch, rows[name], colour, dashed)
        for pair, n in made["crossings"][d].items():
            what = next(name for name in LAYERS if pair.startswith(name))
            colour, above = LAYERS[what][0], what == "self-attention"
            x, y = panel.x(n), panel.y(_between(n, made["lengths"], rows[what]))
            sketch.add(Box(x - 6, y - 6, 12, 12, stroke=INK, round=6))
            # Where no line is.
            dx, dy, align = (-8, -12, "end") if above else (9, 6 if pair.endswith("recurrent") else 12, "start")
            sketch.add(Words(x + dx, y + dy, f"{n:,}", 12, align, colour, bold=True))
    _legend(sketch, LAYERS, tell, 594, 4)
    return sketch


def _between(n: float, lengths: Sequence[float], found: Sequence[float]) -> float:
    """What there is at n, on a straight line between two sizes, both scales logarithmic."""
    at = next(i for i in range(len(lengths) - 1) if n <= lengths[i + 1])
    part = math.log(n / lengths[at]) / math.log(lengths[at + 1] / lengths[at])
    return math.exp((1 - part) * math.log(found[at]) + part * math.log(found[at + 1]))


def growth(tell: Tell) -> Sketch:
    """A row for each thing that grows: time at the left, memory at the right."""
    title = tell("How time and memory grow", "时间与内存怎样增长")
    note = tell(
        "8 sentences of 16 tokens, beam 4, the tiny model, but for what grows",
        "除了正在增长的那一项，都是 8 个 16 词元的句子，束宽 4，tiny 模型",
    )
    sketch = titled(800, 90 + 5 * 196 + 96, title, note)
    for middle, text in (
        (62 + 172, tell("milliseconds", "毫秒")),
        (452 + 164, tell("MiB at the peak", "内存峰值，MiB")),
    ):
        sketch.add(Words(middle, 74, text, 13, bold=True))
    for number, (curve, names) in enumerate(CURVES.items()):
        made, top = MEASURED["growth"][curve], 90 + 196 * number
        values = made["values"]
        shown = values if len(values) < 6 else [one for one in values if one in (1, 2, 4, 8, 12, 16, 64, 256, 1024)]
        time = Panel(62, top, 344, 140, values, 5, 80_000)
        space = Panel(452, top, 328, 140, values, 0, 750, logarithmic=False)
        for panel, kind, ticks in ((time, "milliseconds", (10, 100, 1000, 10_000)), (space, "mib", (0, 200, 400, 600))):
            panel.frame(sketch, ticks, shown)
            for name, found in made[kind].items():
                colour, dashed, *_ = SYSTEMS[name]
                panel.curve(sketch, found, colour, dashed, dots=name != "operations")
        sketch.add(Words(421, top + 168, tell(*names), 12))
    _legend(sketch, SYSTEMS, tell, 90 + 5 * 196 + 16, 2)
    return sketch


FIGURES = {"layer-costs": layer_costs, "growth": growth}
