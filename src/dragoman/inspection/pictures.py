"""Pictures of attention: which piece looked at which, as a PNG, SVG or PDF file.

Cells are square, colours are perceptually uniform (equal steps of weight look equal, in grey and to
colour-blind readers too), and pieces in scripts that matplotlib's own font lacks are drawn with a font of the system.
The space in a piece (SentencePiece's `▁`) is shown as `␣`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dragoman.canvas import INK, LINES, QUIET, Picture, draw, label
from dragoman.stages.words import say

# From near white to deep indigo in equal steps of CIE lightness.
_COLOURS = ["#f6fafb", "#c5e0ee", "#98c5e4", "#6fa9db", "#4f8bd2", "#406dbf", "#3a50a3", "#33367c", "#271f56"]
_POINTS = 72  # in an inch
_LOOKS, _LOOKED_AT = "who looks (query)", "who is looked at (key)"
_WEIGHT, _SUMS = "attention weight", "attention weight (each row sums to 1)"
# Up to so many pieces each cell is large enough for its name, in inches; a page is at most so wide.
_LEGIBLE, _LEAST, _PAGE = 64, 0.15, 20.0


def attention_map(
    weights: Float[np.ndarray, "q_len k_len"],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: str | Path,
    *,
    title: str | None = None,
) -> Picture:
    """Draw one attention matrix, with the weights written into the cells where there is room.

    Args:
        weights: a row for each query and a column for each key, from 0 to 1; NaN leaves a cell hatched.
        source_pieces: the pieces attended to (keys), above the columns.
        target_pieces: the pieces that attend (queries), beside the rows.
        path: the file to write; its suffix chooses the format: `.png`, `.svg` or `.pdf`.
        title: a line above the picture.

    Raises:
        DragomanError: matplotlib is not installed, or the file cannot be written.
        ValueError: there are not as many pieces as rows and columns, or none at all.
    """
    cell = min(0.5, 12 / max(1, *weights.shape))
    return _draw([weights], source_pieces, target_pieces, path, captions=None, title=title, columns=1, cell=cell)


def attention_grid(
    weights: Float[np.ndarray, "heads q_len k_len"],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: str | Path,
    *,
    captions: Sequence[str] | None = None,
    title: str | None = None,
    columns: int | None = None,
) -> Picture:
    """Draw the matrices of several heads (or layers) side by side, on one scale of colours.

    Args:
        weights: one matrix for each head, as for `attention_map`.
        source_pieces: the pieces attended to (keys), above the columns.
        target_pieces: the pieces that attend (queries), beside the rows.
        path: the file to write; its suffix chooses the format: `.png`, `.svg` or `.pdf`.
        captions: a line below each matrix; `head 1`, `head 2` and so on if not given.
        title: a line above the picture.
        columns: matrices in a row; at most 4 if not given.

    Raises:
        DragomanError: matplotlib is not installed, or the file cannot be written.
        ValueError: there are not as many pieces as rows and columns, or captions as heads, or none at all.
    """
    heads = len(weights)
    captions = captions or [f"head {number}" for number in range(1, heads + 1)]
    if len(captions) != heads:
        raise ValueError(f"{len(captions)} captions for {heads} heads")
    longest = max(1, *weights.shape[1:])
    cell = min(0.34, 3 / longest)
    cell = max(cell, _LEAST) if longest <= _LEGIBLE else cell
    fitting = max(1, int(_PAGE / (cell * max(1, weights.shape[-1]) + 0.2)))
    columns = columns or min(fitting, 4 if heads % 4 == 0 else min(3, heads))
    return _draw(
        list(weights), source_pieces, target_pieces, path, captions=captions, title=title, columns=columns, cell=cell
    )


def _draw(
    matrices: list[np.ndarray],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: str | Path,
    *,
    captions: Sequence[str] | None,
    title: str | None,
    columns: int,
    cell: float,
) -> Picture:
    """A grid of matrices with cells of `cell` inches."""
    _check(matrices, source_pieces, target_pieces)
    sources, targets = [named(piece) for piece in source_pieces], [named(piece) for piece in target_pieces]
    words = (say(_LOOKS), say(_LOOKED_AT), say(_WEIGHT), say(_SUMS))
    text = "".join([*sources, *targets, *(captions or ()), *words])
    return draw(path, text, lambda: _lay_out(matrices, sources, targets, captions, columns, cell), title=title)


def named(name: str) -> str:
    """Return the name of a row or column: a piece, or what it reads and writes, or a time, with blanks of its own."""
    return name if name.isprintable() and " " in name.strip() else label(name)


def _check(matrices: list[np.ndarray], source_pieces: Sequence[str], target_pieces: Sequence[str]) -> None:
    """Refuse what does not fit together."""
    if not matrices or not matrices[0].size:
        raise ValueError("there are no attention weights to draw")
    if matrices[0].shape != (len(target_pieces), len(source_pieces)):
        raise ValueError(
            f"weights of shape {matrices[0].shape} do not fit {len(target_pieces)} target pieces (rows) "
            f"and {len(source_pieces)} source pieces (columns)"
        )


def _lay_out(
    matrices: list[np.ndarray],
    sources: list[str],
    targets: list[str],
    captions: Sequence[str] | None,
    columns: int,
    cell: float,
) -> Any:
    """A figure with every matrix in its place and the scale of colours at the right."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(matrices) / columns)
    wide, high = cell * len(sources), cell * len(targets)  # of one matrix, in inches
    gap, caption_gap = 0.2, 0.42
    columns = min(columns, len(matrices))
    width, height = columns * (wide + gap) - gap, rows * (high + caption_gap) - caption_gap
    top = _round_up(float(max(np.nanmax(matrix, initial=0.0) for matrix in matrices)))
    size, leaning = letters(sources, cell)
    # Labels lie outside these bounds: saving takes the picture as large as it is.
    figure = Figure(figsize=(width, height), facecolor="white")
    mesh = None
    for index, matrix in enumerate(matrices):
        row, column = divmod(index, columns)
        left, bottom = column * (wide + gap), height - row * (high + caption_gap) - high
        axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
        mesh = _draw_cells(axes, matrix, top, cell)
        label_axes(
            axes,
            sources if row == 0 else [],
            targets if column == 0 else [],
            cell=cell,
            size=size,
            leaning=leaning,
        )
        if index == 0:
            axes.set_title(say(_LOOKED_AT), fontsize=8, color=QUIET, loc="left", pad=6)
            axes.set_ylabel(say(_LOOKS), fontsize=8, color=QUIET, labelpad=6)
        if captions:
            axes.set_xlabel(captions[index], fontsize=9, color=INK, labelpad=5, parse_math=False)
    whole = all(np.allclose(np.nansum(matrix, axis=1), 1, atol=1e-3) for matrix in matrices)
    label = say(_SUMS if whole and high > 2 else _WEIGHT)
    _add_scale(figure, mesh, label, width, height, tall=min(height, max(high, 1.5), 4.0))
    return figure


def _round_up(weight: float) -> float:
    """The end of the scale: the next tenth above the largest weight."""
    return min(1.0, max(0.1, math.ceil(weight * 10 - 1e-6) / 10))


def _draw_cells(axes: Any, matrix: np.ndarray, top: float, cell: float) -> Any:
    """One matrix, its first row at the top."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("indigo", _COLOURS)
    lines = {"edgecolors": LINES, "linewidth": 0.5} if cell >= 0.12 else {}
    mesh = axes.pcolormesh(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=top, **lines)
    mesh.set_rasterized(matrix.size > 4096)  # a path for each cell would make a heavy SVG
    axes.patch.set(facecolor="white", hatch="////", edgecolor=LINES, linewidth=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    if cell >= 0.36:
        for (row, column), weight in np.ndenumerate(matrix):
            if weight >= 0.005:
                ink = "white" if weight > 0.45 * top else INK
                text = f"{weight:.2f}".removeprefix("0")
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=ink)
    return mesh


def letters(sources: list[str], cell: float) -> tuple[float, bool]:
    """Return the size of the labels in points, and whether those above the columns must lean to fit."""
    room = cell * _POINTS
    size = min(11.0, max(5.0, 0.7 * room))
    upright = min(size, 0.85 * room / max(_ems(label) for label in sources))
    return (upright, False) if upright >= min(size, 7.0) else (size, True)


def label_axes(axes: Any, sources: list[str], targets: list[str], *, cell: float, size: float, leaning: bool) -> None:
    """Label columns and rows with pieces; only every n-th where cells are smaller than letters."""
    stride = math.ceil(size / (cell * _POINTS))
    style: dict[str, Any] = {"fontsize": size, "color": INK, "parse_math": False}
    if leaning:
        above = {"rotation": 45, "rotation_mode": "anchor", "ha": "left", "va": "bottom"}
    else:
        above = {"ha": "center", "va": "bottom"}
    axes.set_xticks(np.arange(0, len(sources), stride) + 0.5, sources[::stride], **style, **above)
    axes.set_yticks(np.arange(0, len(targets), stride) + 0.5, targets[::stride], **style)
    axes.tick_params(length=0, pad=3, top=False, bottom=False, labeltop=True, labelbottom=False)


def _ems(label: str) -> float:
    """About how wide a label is, in units of its letter size."""
    return sum((1.0 if unicodedata.east_asian_width(character) in "WF" else 0.6 for character in label), start=0.1)


def _add_scale(figure: Any, mesh: Any, label: str, width: float, height: float, *, tall: float) -> None:
    """The scale of colours, `tall` inches high, right of everything."""
    axes = figure.add_axes((1 + 0.18 / width, 1 - tall / height, 0.12 / width, tall / height))
    scale = figure.colorbar(mesh, cax=axes)
    scale.outline.set_visible(False)
    scale.set_label(label, fontsize=8, color=QUIET, labelpad=6)
    axes.tick_params(length=0, labelsize=8, labelcolor=QUIET, pad=4)
