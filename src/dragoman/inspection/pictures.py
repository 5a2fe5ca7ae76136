"""Pictures of attention: which piece looked at which, as a PNG, SVG or PDF file.

Drawn with matplotlib (the extra `plot`), on a canvas of their own: no window, no global figure, no change to the
caller's settings. Cells are square, colours are perceptually uniform (equal steps of weight look equal, in grey and to
colour-blind readers too), and pieces in scripts that matplotlib's own font lacks are drawn with a font of the system.
The space in a piece (SentencePiece's `▁`) is shown as `␣`.
"""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from dragoman.errors import DragomanError

_FORMATS = (".png", ".svg", ".pdf")
_OWN_FONT = "DejaVu Sans"  # comes with matplotlib
# Good fonts for scripts that it lacks, best first; any other font of the system comes after them.
_GOOD_FONTS = (
    "Noto Sans CJK", "Source Han Sans", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "PingFang", "Hiragino Sans",
    "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi", "Heiti", "STHeiti", "SimHei", "Noto Serif CJK",
    "Songti", "SimSun", "Droid Sans Fallback", "AR PL", "Noto Sans", "Arial Unicode", "FreeSans", "Unifont",
)  # fmt: skip
# From near white to deep indigo in equal steps of CIE lightness.
_COLOURS = ["#f6fafb", "#c5e0ee", "#98c5e4", "#6fa9db", "#4f8bd2", "#406dbf", "#3a50a3", "#33367c", "#271f56"]
_INK, _QUIET, _LINES = "#1c1c28", "#6b6b7b", "#d9dde3"
_POINTS = 72  # in an inch


@dataclass(frozen=True)
class Picture:
    """A picture that was written.

    Attributes:
        path: the file.
        note: what its reader should know, such as characters that no installed font has; None if all is well.
    """

    path: Path
    note: str | None = None


def attention_map(
    weights: Float[np.ndarray, "q_len k_len"],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: str | Path,
    *,
    title: str | None = None,
) -> Picture:
    """Draws one attention matrix, with the weights written into the cells where there is room.

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
    """Draws the matrices of several heads (or layers) side by side, on one scale of colours.

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
    columns = columns or (4 if heads % 4 == 0 else min(3, heads))
    cell = min(0.34, 3 / max(1, *weights.shape[1:]))
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
    style = _matplotlib_style()
    path = _checked(matrices, source_pieces, target_pieces, path)
    sources, targets = [_label(piece) for piece in source_pieces], [_label(piece) for piece in target_pieces]
    fonts, missing = _fonts_for("".join([*sources, *targets, *(captions or ()), title or ""]))
    # Self-contained letters, and the same bytes for the same picture.
    settings = {"svg.fonttype": "path", "svg.hashsalt": "dragoman", "pdf.fonttype": 42, "font.family": fonts}
    with style.context(["default", settings]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure = _lay_out(matrices, sources, targets, captions, columns, cell)
        if title:
            _add_title(figure, title)
        _save(figure, path)
    return Picture(path, _missing_note(missing))


def _matplotlib_style() -> ModuleType:
    """matplotlib's way to set its settings for a while, if it is installed at all."""
    try:
        from matplotlib import style
    except ImportError as error:
        raise DragomanError("pictures need matplotlib", hint="pip install 'dragoman[plot]'") from error
    return style


def _checked(
    matrices: list[np.ndarray], source_pieces: Sequence[str], target_pieces: Sequence[str], path: str | Path
) -> Path:
    """The path, once what is to be drawn fits together."""
    if not matrices or not matrices[0].size:
        raise ValueError("there are no attention weights to draw")
    if matrices[0].shape != (len(target_pieces), len(source_pieces)):
        raise ValueError(
            f"weights of shape {matrices[0].shape} do not fit {len(target_pieces)} target pieces (rows) "
            f"and {len(source_pieces)} source pieces (columns)"
        )
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise DragomanError("no such picture format", file=path, expected=", ".join(_FORMATS), found=path.suffix)
    return path


def _label(piece: str) -> str:
    """A piece as it can be printed: spaces and control characters visible, very long ones cut."""
    shown = "".join("␣" if c in " ▁" else c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece)
    return shown if len(shown) <= 24 else shown[:23] + "…"


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
    size, leaning = _letters(sources, cell)
    # Labels lie outside these bounds: saving takes the picture as large as it is.
    figure = Figure(figsize=(width, height), facecolor="white")
    mesh = None
    for index, matrix in enumerate(matrices):
        row, column = divmod(index, columns)
        left, bottom = column * (wide + gap), height - row * (high + caption_gap) - high
        axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
        mesh = _draw_cells(axes, matrix, top, cell)
        _label_axes(
            axes,
            sources if row == 0 else [],
            targets if column == 0 else [],
            cell=cell,
            size=size,
            leaning=leaning,
        )
        if captions:
            axes.set_xlabel(captions[index], fontsize=9, color=_INK, labelpad=5, parse_math=False)
    whole = all(np.allclose(np.nansum(matrix, axis=1), 1, atol=1e-3) for matrix in matrices)
    label = "attention weight (each row sums to 1)" if whole and high > 2 else "attention weight"
    _add_scale(figure, mesh, label, width, height, tall=min(height, max(high, 1.5), 4.0))
    return figure


def _round_up(weight: float) -> float:
    """The end of the scale: the next tenth above the largest weight."""
    return min(1.0, max(0.1, math.ceil(weight * 10 - 1e-6) / 10))


def _draw_cells(axes: Any, matrix: np.ndarray, top: float, cell: float) -> Any:
    """One matrix, its first row at the top."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("indigo", _COLOURS)
    lines = {"edgecolors": _LINES, "linewidth": 0.5} if cell >= 0.12 else {}
    mesh = axes.pcolormesh(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=top, **lines)
    mesh.set_rasterized(matrix.size > 4096)  # a path for each cell would make a heavy SVG
    axes.patch.set(facecolor="white", hatch="////", edgecolor=_LINES, linewidth=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    if cell >= 0.36:
        for (row, column), weight in np.ndenumerate(matrix):
            if weight >= 0.005:
                ink = "white" if weight > 0.45 * top else _INK
                text = f"{weight:.2f}".removeprefix("0")
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=ink)
    return mesh


def _letters(sources: list[str], cell: float) -> tuple[float, bool]:
    """The size of the labels in points, and whether those above the columns must lean to fit."""
    room = cell * _POINTS
    size = min(11.0, max(5.0, 0.7 * room))
    upright = min(size, 0.85 * room / max(_ems(label) for label in sources))
    return (upright, False) if upright >= min(size, 7.0) else (size, True)


def _label_axes(axes: Any, sources: list[str], targets: list[str], *, cell: float, size: float, leaning: bool) -> None:
    """Pieces above the columns and beside the rows; every n-th only where cells are smaller than letters."""
    stride = math.ceil(size / (cell * _POINTS))
    style: dict[str, Any] = {"fontsize": size, "color": _INK, "parse_math": False}
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
    scale.set_label(label, fontsize=8, color=_QUIET, labelpad=6)
    axes.tick_params(length=0, labelsize=8, labelcolor=_QUIET, pad=4)


def _add_title(figure: Any, title: str) -> None:
    """A line above everything that is already drawn."""
    bounds = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    place = (bounds.x0 / width, (bounds.y1 + 0.14) / height)
    figure.text(*place, title, fontsize=12, color=_INK, ha="left", va="bottom", parse_math=False)


def _save(figure: Any, path: Path) -> None:
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        figure.savefig(path, dpi=200, bbox_inches="tight", pad_inches=0.15, metadata=dates.get(path.suffix.lower()))
    except OSError as error:
        raise DragomanError("the picture cannot be written", file=path, found=error.strerror or error) from error


def _fonts_for(text: str) -> tuple[list[str], set[str]]:
    """Families that between them have every character of the text, and the characters that none has."""
    from matplotlib import font_manager

    fonts = [_OWN_FONT]
    missing = {character for character in text if character.isprintable()}
    missing -= _covered(font_manager.findfont(_OWN_FONT), missing)
    if missing:
        _find_new_fonts(font_manager)
    known = {(_rank(font.name), font.name, font.fname) for font in font_manager.fontManager.ttflist}
    for _, name, file in sorted(known):
        if not missing:
            break
        if "Last Resort" not in name and (found := _covered(file, missing)):  # that one has a box for everything
            fonts.append(name)
            missing -= found
    return fonts, missing


def _find_new_fonts(font_manager: ModuleType) -> None:
    """Adds fonts that were installed after matplotlib wrote its list of them."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for file in font_manager.findSystemFonts():
        if file not in known:
            try:
                font_manager.fontManager.addfont(file)
            except (OSError, RuntimeError, ValueError):
                continue  # a broken font, or a kind that matplotlib cannot draw


def _rank(name: str) -> int:
    """Place of a font family among the good ones."""
    return next((place for place, good in enumerate(_GOOD_FONTS) if name.startswith(good)), len(_GOOD_FONTS))


def _covered(file: str, characters: set[str]) -> set[str]:
    """Those of the characters that a font file has."""
    from matplotlib import font_manager

    try:
        known = font_manager.get_font(file).get_charmap()
    except (OSError, RuntimeError, ValueError):
        return set()
    return {character for character in characters if ord(character) in known}


def _missing_note(missing: set[str]) -> str | None:
    if not missing:
        return None
    kinds = {unicodedata.name(character, "").partition(" ")[0] for character in missing}
    package = "fonts-noto-cjk" if kinds & {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"} else "fonts-noto-core"
    shown = "".join(sorted(missing)[:20]) + ("…" if len(missing) > 20 else "")
    return (
        f"no installed font has {shown}: drawn as boxes. Install a font, such as `apt install {package}` "
        "(Debian, Ubuntu) or Noto Sans from fonts.google.com/noto, and draw again"
    )
