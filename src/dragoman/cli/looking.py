"""Verbs that look at runs and settings: settings, plot."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Json, print_json, tell


def settings(
    word: Annotated[
        str | None,
        typer.Argument(help="A name, a section, words of what it means, or another toolkit's name.", metavar="WORD"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look settings up. Without a word all; of each its default, what it means, what it may be and its flag."""
    from dragoman.config import settings as look_up

    found = look_up(word or "")
    if as_json:
        print_json(found.to_dict())
        return
    on_terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size().columns, 120) if on_terminal else 100
    print(found.to_text(width=width, bold="\033[1m{}\033[0m" if on_terminal else "{}"))


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, seven at most.", metavar="RUN")],
    out: Annotated[
        Path | None,
        typer.Option(help="The picture: .png, .svg or .pdf.  [default: curves.png in the first run]", metavar="FILE"),
    ] = None,
) -> None:
    """Draw the curves of runs. Loss, score on held-out lines and learning rate, by updates and by time."""
    from dragoman.runs import plot as draw

    picture = draw(runs, out)
    if picture.note is not None:
        tell(f"note: {picture.note}")
    print(picture.path)
