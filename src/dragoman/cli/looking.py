"""Verbs that look at runs and settings, and give models away: settings, plot, bundle, push."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Json, Model, print_json, tell


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


def bundle(
    model: Model,
    out: Annotated[Path, typer.Option(help="The directory to make.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Copy what a model needs, to give it away. Into a directory of its own, in which it is tried."""
    from dragoman.runs import bundle as make

    made = make(model, out)
    if as_json:
        print_json(made.to_dict())
        return
    for name, size in made.files.items():
        print(f"{size:>15,}  {name}")
    print(f"{made.bytes:>15,}  bytes in {made.directory}")


def push(
    model: Model,
    name: Annotated[str, typer.Argument(help="Where to: org/name.", metavar="NAME")],
    private: Annotated[bool, typer.Option("--private", help="Make a repository that others do not see.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the files; nothing is sent.")] = False,
    as_json: Json = False,
) -> None:
    """Put a model onto the Hugging Face hub, with its card. The key is that of `hf auth login`."""
    from dragoman.runs import push as upload

    pushed = upload(model, name, private=private, dry_run=dry_run)
    if as_json:
        print_json(pushed.to_dict())
        return
    for file, size in pushed.files.items():
        print(f"{size:>15,}  {file}")
    tell("nothing was sent" if pushed.url is None else f"uploaded: {pushed.url}")
