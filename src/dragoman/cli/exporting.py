"""Verbs that give models away: export, pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Json, Model, print_json, tell


def export(
    model: Model,
    to: Annotated[
        str,
        typer.Option(help="ctranslate2, marian (MarianMT of transformers), onnx or argos.", metavar="FORMAT"),
    ],
    out: Annotated[Path, typer.Option(help="The directory to make; for argos FILE.argosmodel.", metavar="DIR")],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out what the format cannot hold: right-to-left, matches or datastore; repeatable. What that "
            "changes is measured.",
            metavar="WHAT",
        ),
    ] = None,
    quantization: Annotated[
        str,
        typer.Option(
            help="Of weights: float32; for CTranslate2 and Argos also int8, int8_float32, int8_float16, int16, float16 "
            "or bfloat16; for MarianMT float16; for ONNX int8.",
            metavar="TYPE",
        ),
    ] = "float32",
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Let the other program translate 200 lines, and compare.")
    ] = True,
    check_lines: Annotated[
        Path | None,
        typer.Option(help="Lines to check with.  [default: the run's held-out sources]", metavar="FILE"),
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="Of the model, as hubs of models call it.", metavar="NAME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as another program reads it. That program translates 200 lines, which are compared with ours."""
    from dragoman.export import export_model as make

    made = make(model, to, out, drop=drop or (), quantization=quantization, check=check, check_file=check_lines,
                license_name=license_name, report=tell)  # fmt: skip
    if as_json:
        print_json(made.to_dict())
        return
    for name, size in made.files.items():
        print(f"{size:>15,}  {name}")
    for line in made.told():
        print(line)


def pack(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The file to make, which ends in .dragoman.", metavar="FILE")],
    as_json: Json = False,
) -> None:
    """Put a model into one file, to give it away. Every verb takes it in place of a directory."""
    from dragoman.runs import pack as make

    made = make(model, out)
    if as_json:
        print_json(made.to_dict())
        return
    for name, size in made.files.items():
        print(f"{size:>15,}  {name}")
    print(f"{made.directory.stat().st_size:>15,}  bytes in {made.directory}")
