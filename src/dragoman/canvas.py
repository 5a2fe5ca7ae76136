"""What every picture stands on: matplotlib (the extra `plot`), fonts for any script, and reproducible files.

No window, no global figure, no change to the caller's settings.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dragoman.errors import DragomanError

FORMATS = (".png", ".svg", ".pdf")
INK, QUIET, LINES = "#1c1c28", "#6b6b7b", "#d9dde3"
# Of SVG files, whose letters are drawn by the reader's machine: the same on all that write them.
FAMILIES = (
    "'DejaVu Sans', 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans SC', 'Noto Sans CJK SC', 'PingFang SC', "
    "'Microsoft YaHei', sans-serif"
)
_OWN_FONT = "DejaVu Sans"  # comes with matplotlib
# Good fonts for scripts that it lacks, best first; any other font of the system comes after them.
_GOOD_FONTS = (
    "Noto Sans CJK", "Source Han Sans", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "PingFang", "Hiragino Sans",
    "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi", "Heiti", "STHeiti", "SimHei", "Noto Serif CJK",
    "Songti", "SimSun", "Droid Sans Fallback", "AR PL", "Noto Sans", "Arial Unicode", "FreeSans", "Unifont",
)  # fmt: skip
_AS_SVG = "drawn as SVG, whose letters a browser draws with its own fonts. For PNG"
_FAMILIES = re.compile(r"(font-family: |font: [^;'\"]*)'[^;\"]*")
_PACKAGES = {
    True: (
        "`apt install fonts-noto-cjk` (Debian, Ubuntu), `dnf install google-noto-sans-cjk-fonts` (Fedora), "
        "`brew install --cask font-noto-sans-cjk` (macOS), or on Windows the Chinese, Japanese or Korean supplemental "
        "fonts (Settings, System, Optional features)"
    ),
    False: (
        "`apt install fonts-noto-core` (Debian, Ubuntu), `dnf install google-noto-sans-fonts` (Fedora), or Noto Sans "
        "from fonts.google.com/noto (macOS, Windows)"
    ),
}


@dataclass(frozen=True)
class Picture:
    """A picture that was written.

    Attributes:
        path: the file.
        note: what its reader should know, such as characters that no installed font has; None if all is well.
    """

    path: Path
    note: str | None = None


def draw(path: str | Path, text: str, make: Callable[[], Any], *, title: str | None = None) -> Picture:
    """Draw a figure that `make` builds, with fonts for the text and a title, and write it.

    Args:
        path: the file; its suffix chooses the format: `.png`, `.svg` or `.pdf`.
        text: every character that may stand in the picture.
        make: builds the figure.
        title: a line above the picture.

    Raises:
        DragomanError: matplotlib is not installed, or the file cannot be written.
    """
    style, path = _matplotlib_style(), checked_path(path)
    fonts, missing = _fonts_for(text + (title or ""))
    # The same bytes for the same picture; SVG keeps its text as text, which the reader's fonts draw.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "dragoman", "pdf.fonttype": 42, "font.family": fonts}
    with style.context(["default", settings]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure = make()
        if title:
            _add_title(figure, title)
        _save(figure, path)
    if path.suffix.lower() == ".svg":
        return write_picture(path, _FAMILIES.sub(rf"\1{FAMILIES}", path.read_text(encoding="utf-8")))
    return Picture(path, _missing_note(missing))


def write_picture(path: Path, svg: str) -> Picture:
    """Write an SVG file.

    Raises:
        DragomanError: it cannot be written.
    """
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise DragomanError("the picture cannot be written", file=path, found=error.strerror or error) from error
    return Picture(path)


def fitting_format(text: str) -> tuple[str, str | None]:
    """Return "png" if some font here has every character of the text, else "svg", and why.

    Raises:
        DragomanError: matplotlib is not installed.
    """
    _matplotlib_style()
    note = _missing_note(_fonts_for(text)[1], _AS_SVG)
    return ("png", None) if note is None else ("svg", note)


def checked_path(path: str | Path) -> Path:
    """Return the path of a picture, once its format is known to be one that can be written.

    Raises:
        DragomanError: it is not.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DragomanError("no such picture format", file=path, expected=", ".join(FORMATS), found=path.suffix)
    return path


def label(piece: str, longest: int = 24) -> str:
    """Return a piece as it can be printed: spaces and control characters visible, those beyond `longest` cut."""
    shown = "".join("␣" if c in " ▁" else c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _matplotlib_style() -> ModuleType:
    """matplotlib's way to set its settings for a while, if it is installed at all."""
    try:
        from matplotlib import style
    except ImportError as error:
        raise DragomanError("pictures need matplotlib", hint="pip install 'dragoman[plot]'") from error
    return style


def _add_title(figure: Any, title: str) -> None:
    """A line above everything that is already drawn."""
    bounds = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    place = (bounds.x0 / width, (bounds.y1 + 0.14) / height)
    figure.text(*place, title, fontsize=12, color=INK, ha="left", va="bottom", parse_math=False)


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


def _missing_note(missing: set[str], what: str = "drawn as boxes") -> str | None:
    if not missing:
        return None
    kinds = {unicodedata.name(character, "").partition(" ")[0] for character in missing}
    shown = "".join(sorted(missing)[:20]) + ("…" if len(missing) > 20 else "")
    packages = _PACKAGES[bool(kinds & {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"})]
    return f"no installed font has {shown}: {what}. Install a font: {packages}. Then draw again"
