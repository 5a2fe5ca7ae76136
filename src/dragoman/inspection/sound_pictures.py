"""The picture of a sound that was listened to: spectrogram, attention and what CTC reads, above one axis of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dragoman.canvas import INK, LINES, QUIET, Picture, draw, label
from dragoman.inspection.pictures import named
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_sketches import in_words
from dragoman.stages.convolutions import HOME
from dragoman.stages.stage import Stage
from dragoman.stages.words import bare, say

_COLOURS = ["#ffffff", "#c5d3ee", "#5a76bd", "#2b3f8c", "#161d4a"]
_SIGNS = "0123456789.–→ "


def listening_stage(trace: Trace) -> Stage | None:
    """Return the cross-attention that tells best where an output was heard: of the last layer but one, or the only one.

    Args:
        trace: whole or a selection; None where it is of a text or has no such stage.
    """
    maps = [one for one in trace.stages if one.name.endswith("cross_attention.weights") and one.values is not None]
    return maps[max(0, len(maps) - 2)] if maps and trace.sound is not None else None


def listening_picture(trace: Trace, path: str | Path) -> Picture:
    """Draw a sound's frames, under them which times each output looked at, and what a head for CTC reads off.

    Args:
        trace: of a sound, with its frames and the attention of the decoder to it.
        path: the file to write.
    """
    stage, sound = listening_stage(trace), trace.sound
    frames = trace.stage(f"{HOME}.frames").values
    assert stage is not None
    assert sound is not None
    assert stage.values is not None
    assert frames is not None
    weights = stage.values[0].double().mean(0).numpy()
    rows = [named(name) for name in stage.labels]
    pieces = [label(bare(one.piece)) for one in trace.readings if one.piece]
    place, kind = in_words(stage.name)
    title = say("Where it listened: {place}, {kind}, the mean of the heads").format(place=place, kind=kind)
    words = tuple(map(say, ("seconds", "mel bin", "CTC", "weight")))

    def make() -> Any:
        return _lay_out(frames[0].double().numpy(), weights, rows, trace, words)

    return draw(path, "".join([*rows, *pieces, *words, _SIGNS]), make, title=title)


def _lay_out(frames: np.ndarray, weights: np.ndarray, rows: list[str], trace: Trace, words: tuple[str, ...]) -> Any:
    """Panels one below the other, as wide as the sound is long."""
    from matplotlib.figure import Figure

    sound = trace.sound
    assert sound is not None
    wide = min(14.0, max(6.0, 3.0 * sound.seconds))
    highs = [1.6, *([0.42] if trace.readings else []), max(0.6, 0.22 * len(rows))]
    gap = 0.12
    height = sum(highs) + gap * (len(highs) - 1)
    figure = Figure(figsize=(wide, height), facecolor="white")
    panels, top = [], height
    for high in highs:
        panels.append(figure.add_axes((0, (top - high) / height, 1, high / height)))
        top -= high + gap
    end = max(len(frames) * sound.seconds_frame, weights.shape[1] * sound.seconds_each)
    for axes in panels:
        axes.set_xlim(0, end)
        axes.tick_params(labelsize=8, labelcolor=QUIET, color=LINES, bottom=axes is panels[-1])
        axes.spines[:].set_color(LINES)
        axes.tick_params(labelbottom=axes is panels[-1])
    _spectrogram(panels[0], frames, sound.seconds_frame, words[1])
    if trace.readings:
        _readings(panels[1], trace, end, words[2])
    mesh = _attention(panels[-1], weights, rows, sound.seconds_each)
    panels[-1].set_xlabel(words[0], fontsize=9, color=INK)
    scale = figure.add_axes((1 + 0.12 / wide, 0, 0.1 / wide, highs[-1] / height))
    bar = figure.colorbar(mesh, cax=scale)
    bar.outline.set_visible(False)
    bar.set_label(words[3], fontsize=8, color=QUIET)
    scale.tick_params(length=0, labelsize=8, labelcolor=QUIET)
    return figure


def _spectrogram(axes: Any, frames: np.ndarray, step: float, name: str) -> None:
    times, bins = np.arange(len(frames) + 1) * step, np.arange(frames.shape[1] + 1)
    axes.pcolormesh(times, bins, frames.T, cmap="magma", vmin=-2, vmax=2.5, rasterized=True)
    axes.set_ylabel(name, fontsize=8, color=QUIET)


def _readings(axes: Any, trace: Trace, end: float, name: str) -> None:
    """The pieces where the head reads them, in two lines by turns, so that neighbours do not touch."""
    said = [one for one in trace.readings if one.piece]
    for number, one in enumerate(said):
        level = 0.74 if number % 2 else 0.26
        axes.axvspan(one.start, one.end, color=_COLOURS[1], linewidth=0)
        middle, told = (one.start + one.end) / 2, label(bare(one.piece))
        # At the ends of the sound nothing may stand beyond them.
        room = 0.05 * len(told)
        align, at = "center", middle
        if middle < room:
            align, at = "left", max(one.start, 0.005 * end)
        elif end - middle < room:
            align, at = "right", end - 0.005 * end
        axes.text(at, level, told, ha=align, va="center", fontsize=8, color=INK, parse_math=False)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel(name, fontsize=8, color=QUIET, rotation=0, ha="right", va="center")


def _attention(axes: Any, weights: np.ndarray, rows: list[str], step: float) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("heard", _COLOURS)
    times, places = np.arange(weights.shape[1] + 1) * step, np.arange(len(rows) + 1)
    mesh = axes.pcolormesh(times, places, weights, cmap=colours, vmin=0, vmax=float(weights.max()) or 1.0)
    mesh.set_rasterized(weights.size > 4096)
    axes.invert_yaxis()
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=8, color=INK, parse_math=False)
    axes.tick_params(axis="y", length=0)
    return mesh
