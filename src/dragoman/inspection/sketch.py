"""Figures of boxes, lines and words: as SVG with real text without any library, as PNG and PDF by matplotlib."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from dragoman.canvas import FAMILIES, INK, Picture, checked_path, draw, write_picture

_POINTS = 0.75  # of a pixel


@dataclass(frozen=True)
class Box:
    """A rectangle; coordinates are pixels from the top left."""

    x: float | int
    y: float | int
    width: float | int
    height: float | int
    fill: str = "none"
    stroke: str = "none"
    round: float | int = 0.0
    stroke_width: float | int = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """A line of text; `y` is its middle, `align` where `x` is: start, middle or end."""

    x: float | int
    y: float | int
    text: str
    size: float | int = 12.0
    align: str = "middle"
    colour: str = INK
    bold: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points, with a head at its end if it is an arrow."""

    points: tuple[tuple[float | int, float | int], ...]
    colour: str = INK
    width: float | int = 1.2
    arrow: bool = False
    dashed: bool = False


@dataclass
class Sketch:
    """A figure that grows by what is added to it.

    Attributes:
        width, height: in pixels.
        title: what it shows, for those who cannot see it too.
        shapes: in the order in which they are drawn.
    """

    width: float | int
    height: float | int
    title: str
    shapes: list[Box | Words | Line] = field(default_factory=list)

    def add(self, *shapes: Box | Words | Line) -> None:
        """Add shapes above those that are there."""
        self.shapes += shapes

    def svg(self) -> str:
        """Return the figure as SVG with real text, the same on every machine."""
        size = f'width="{_n(self.width)}" height="{_n(self.height)}" viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        parts = [
            '<?xml version="1.0" encoding="utf-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(self.title)}>',
            f"<title>{escape(self.title)}</title>",
            f"<style>text {{ font-family: {FAMILIES}; }}</style>",
            f'<rect width="{_n(self.width)}" height="{_n(self.height)}" fill="white"/>',
            *(_svg(shape) for shape in self.shapes),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def save(self, path: str | Path) -> Picture:
        """Write the figure.

        Args:
            path: its suffix chooses the format: `.svg`, `.png` or `.pdf`; the last two need matplotlib.

        Raises:
            DragomanError: matplotlib is not installed (the extra `plot`), or the file cannot be written.
        """
        path = checked_path(path)
        if path.suffix.lower() == ".svg":
            return write_picture(path, self.svg())
        text = "".join(shape.text for shape in self.shapes if isinstance(shape, Words))
        return draw(path, text, lambda: _figure(self))


def width_of(text: str, size: float | int) -> float | int:
    """Return about how many pixels a text is wide."""
    return size * sum(1.0 if unicodedata.east_asian_width(one) in "WF" else 0.58 for one in text)


def _n(value: float | int) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _svg(shape: Box | Words | Line) -> str:
    if isinstance(shape, Words):
        weight = ' font-weight="bold"' if shape.bold else ""
        place = f'x="{_n(shape.x)}" y="{_n(shape.y + 0.35 * shape.size)}" font-size="{_n(shape.size)}"'
        return f'<text {place} text-anchor="{shape.align}" fill="{shape.colour}"{weight}>{escape(shape.text)}</text>'
    dashed = ' stroke-dasharray="4 3"' if shape.dashed else ""
    if isinstance(shape, Box):
        corners = f' rx="{_n(shape.round)}"' if shape.round else ""
        border = "" if shape.stroke == "none" else f' stroke="{shape.stroke}" stroke-width="{_n(shape.stroke_width)}"'
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {place}{corners} fill="{shape.fill}"{border}{dashed}/>'
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
    style = f'fill="none" stroke="{shape.colour}" stroke-width="{_n(shape.width)}"{dashed}'
    drawn = f'<polyline points="{points}" {style}/>'
    if shape.arrow:
        head = " ".join(f"{_n(x)},{_n(y)}" for x, y in _head(shape.points))
        drawn += f'<polygon points="{head}" fill="{shape.colour}"/>'
    return drawn


def _head(points: Iterable[tuple[float | int, float | int]]) -> list[tuple[float | int, float | int]]:
    """The three corners of an arrow's head."""
    *_, (x0, y0), (x1, y1) = points
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    return [
        (x1, y1),
        (x1 - 7 * dx + 3.5 * dy, y1 - 7 * dy - 3.5 * dx),
        (x1 - 7 * dx - 3.5 * dy, y1 - 7 * dy + 3.5 * dx),
    ]


def _figure(sketch: Sketch) -> Any:
    """The same with matplotlib, a pixel to a pixel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(sketch.width / 96, sketch.height / 96), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, sketch.width)
    axes.set_ylim(sketch.height, 0)
    axes.set_axis_off()
    for order, shape in enumerate(sketch.shapes):
        _put(axes, shape, order)
    return figure


def _put(axes: Any, shape: Box | Words | Line, order: int) -> None:
    from matplotlib.patches import FancyBboxPatch, Polygon

    if isinstance(shape, Words):
        align = {"start": "left", "middle": "center", "end": "right"}[shape.align]
        axes.text(
            shape.x, shape.y, shape.text, fontsize=shape.size * _POINTS, ha=align, va="center_baseline",
            color=shape.colour, weight="bold" if shape.bold else "normal", zorder=order, parse_math=False,
        )  # fmt: skip
    elif isinstance(shape, Box):
        kind = f"round,pad=0,rounding_size={shape.round}" if shape.round else "square,pad=0"
        axes.add_patch(
            FancyBboxPatch(
                (shape.x, shape.y), shape.width, shape.height, boxstyle=kind, facecolor=shape.fill,
                edgecolor=shape.stroke, linewidth=shape.stroke_width * _POINTS, linestyle="--" if shape.dashed else "-",
                zorder=order,
            )
        )  # fmt: skip
    else:
        style = {"color": shape.colour, "linewidth": shape.width * _POINTS, "zorder": order}
        axes.plot(*zip(*shape.points, strict=True), linestyle="--" if shape.dashed else "-", **style)
        if shape.arrow:
            axes.add_patch(Polygon(_head(shape.points), facecolor=shape.colour, edgecolor="none", zorder=order))
