"""Verbs that look things up: settings."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import typer

from dragoman.cli.options import Json, print_json


def settings(
    word: Annotated[
        list[str] | None,
        typer.Argument(help="A name, a section, a word of what it means, or another toolkit's name.", metavar="WORD"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look settings up. Without a word all; of each its default, what it means, what it may be and its flag."""
    from dragoman.config import settings as look_up

    found = look_up(" ".join(word or []))
    if as_json:
        print_json(found.to_dict())
        return
    on_terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size().columns, 120) if on_terminal else 100
    print(found.to_text(width=width, bold="\033[1m{}\033[0m" if on_terminal else "{}"))
