"""Verbs that give models away: bundle, export, pack, push, quantize."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Json, Model, print_json, tell

if TYPE_CHECKING:
    from dragoman.runs import Bundle


def export(
    model: Model,
    to: Annotated[
        str,
        typer.Option(help="ctranslate2, marian (MarianMT), nllb (NLLB, M2M100), onnx or argos.", metavar="FORMAT"),
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
            "or bfloat16; for MarianMT and NLLB float16; for ONNX int8.",
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
    web: Annotated[
        bool, typer.Option("--web", help="For onnx: also write a page that translates in a browser, offline.")
    ] = False,
    license_name: Annotated[
        str | None, typer.Option("--license", help="Of the model, as hubs of models call it.", metavar="NAME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as another program reads it. That program translates 200 lines, which are compared with ours."""
    from dragoman.export import export_model as make

    made = make(model, to, out, drop=drop or (), quantization=quantization, check=check, check_file=check_lines,
                web=web, license_name=license_name, report=tell)  # fmt: skip
    if as_json:
        print_json(made.to_dict())
        return
    _print_files(made.files)
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
    _print_made(made, made.directory.stat().st_size, as_json)


def bundle(
    model: Model,
    out: Annotated[Path, typer.Option(help="The directory to make.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Copy what a model needs, to give it away. Into a directory of its own, in which it is tried."""
    from dragoman.runs import bundle as make

    made = make(model, out)
    _print_made(made, made.bytes, as_json)


def quantize(
    model: Model,
    out: Annotated[Path, typer.Option(help="The directory to make.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Copy a model with its weights as bytes: a quarter of the size, and opened sooner. Every verb takes it."""
    from dragoman.runs import quantize as make

    made = make(model, out)
    _print_made(made, made.bytes, as_json)


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
    _print_files(pushed.files)
    tell("nothing was sent" if pushed.url is None else f"uploaded: {pushed.url}")


def _print_made(made: Bundle, size: int, as_json: bool) -> None:
    if as_json:
        print_json(made.to_dict())
        return
    _print_files(made.files)
    print(f"{size:>15,}  bytes in {made.directory}")


def _print_files(files: Mapping[str, int]) -> None:
    for name, size in files.items():
        print(f"{size:>15,}  {name}")
