"""Draw the figures of the guide's chapters, in both languages, as SVG with real text: docs/images/guide-NAME.LANG.svg.

    python scripts/guide_figures.py [FOLDER]

Their numbers are those of the chapters: the blocks of a page are run until it has what a figure shows. The files are
kept in the repository; a test compares them with what is drawn now.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import notebooks

from dragoman.canvas import QUIET
from dragoman.inspection.sketch import Sketch, Words, width_of

IMAGES = notebooks.DOCS / "images"
LANGUAGES = ("en", "zh")
# Chooses between what is said in English and in Chinese.
Tell = Callable[[str, str], str]
DARK, WARM, PALE, GREY = "#3a50a3", "#c2571a", "#e9edf7", "#f1f2f5"


@cache
def numbers(chapter: str, *names: str) -> dict[str, Any]:
    """Return what a chapter has made when all of these names are there; what it prints and writes is dropped."""
    made: dict[str, Any] = {}
    page = (notebooks.DOCS / "en" / f"{chapter}.md").read_text(encoding="utf-8")
    for kind, source in notebooks.cells(page):
        if kind == "code" and source[0] not in "!%":
            with TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                exec(source, made)
        if all(name in made for name in names):
            return made
    raise SystemExit(f"chapter {chapter} never has all of: {', '.join(names)}")


def titled(width: float, height: float, title: str, note: str = "") -> Sketch:
    """Return an empty figure with a title above and a note under it."""
    sketch = Sketch(width, height, title)
    sketch.add(Words(20, 24, title, 15, "start", bold=True))
    if note:
        sketch.add(Words(20, 46, note, 11, "start", QUIET))
        sketch.width = max(sketch.width, width_of(note, 11) + 40)
    sketch.width = max(sketch.width, width_of(title, 15) + 40)
    return sketch


def mixed(share: float, end: str = DARK) -> str:
    """Return white for 0, a colour for 1, and what lies between, in steps of a fiftieth."""
    share = round(50 * max(0.0, min(1.0, share))) / 50
    parts = (int(end[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


def figures() -> dict[str, Callable[[Tell], Sketch]]:
    """Return what draws each figure, by its name."""
    import attention_figures
    import cost_figures
    import decoder_figures
    import ladder_figures
    import measured_figures
    import sound_figures

    rooms = (ladder_figures, attention_figures, decoder_figures, cost_figures, sound_figures, measured_figures)
    return {name: figure for room in rooms for name, figure in room.FIGURES.items()}


def teller(language: str) -> Tell:
    """Return what chooses the words of a language."""
    return lambda english, chinese: chinese if language == "zh" else english


def draw(directory: Path) -> Iterator[Path]:
    """Write all figures into a directory, and yield their paths."""
    for name, figure in figures().items():
        for language in LANGUAGES:
            yield figure(teller(language)).save(directory / f"guide-{name}.{language}.svg").path


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES):
        print(path)
