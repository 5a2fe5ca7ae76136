"""The verb that takes over models of other systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Json, print_json, tell


def import_model(
    directory: Annotated[Path, typer.Argument(help="A model directory of another system.", metavar="DIR")],
    out: Annotated[Path, typer.Option(help="The run directory to make.", metavar="RUN")],
    kind: Annotated[
        str | None, typer.Option("--from", help="What DIR is; found out by its files if absent.", metavar="KIND")
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Of a model for several: the language it reads.", metavar="CODE")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(help="Of a model for several: the language it writes.", metavar="CODE")
    ] = None,
    unpickle: Annotated[
        bool, typer.Option("--unpickle", help="Read pickled weights too: tensors alone, in a process of their own.")
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option("--vocab", help="Of a founding system: tokens one a line, or JSON.", metavar="FILE"),
    ] = None,
    target_vocabulary: Annotated[
        Path | None, typer.Option("--target-vocab", help="Likewise, of its targets.", metavar="FILE")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", help="Of a founding system's profile, such as h=8; repeatable.", metavar="N=VALUE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take over a model of another system. What it is, is found out; the run directory is one for every verb."""
    from dragoman.importing import import_model as run
    from dragoman.importing.founding import option

    made = run(
        directory, out, kind=kind, source_language=source_language, target_language=target_language, unpickle=unpickle,
        vocabulary=vocabulary, target_vocabulary=target_vocabulary, options=dict(map(option, options or ())),
    )  # fmt: skip
    if as_json:
        print_json(made.to_dict())
        return
    for note in made.notes:
        tell(f"note: {note}")
    print(f"{made.directory}: {made.kind}, {made.parameters:,} parameters")
