"""The verb that lets one look into a model: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import BeamSize, Device, Json, LengthPenalty, Model, argument_text, open_output, tell


def inspect(
    model: Model,
    text: Annotated[str, typer.Argument(help="What to translate, continue or fill.", metavar="TEXT")],
    target: Annotated[
        str | None,
        typer.Option(help="Show the decoder at this target, and say why it was not written.", metavar="TEXT"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A page that needs nothing else (.html), or a directory for the record.", metavar="FILE"),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    max_length: Annotated[int | None, typer.Option(help="Pieces of the output at most.", min=1)] = None,
    prefix: Annotated[str, typer.Option(help="What the output must begin with.", metavar="TEXT")] = "",
    head_off: Annotated[
        list[str] | None,
        typer.Option(help="Switch a head off: encoder.layers.0.self_attention:2; repeatable.", metavar="NAME:N"),
    ] = None,
    no_causal_mask: Annotated[
        bool, typer.Option("--no-causal-mask", help="Let the decoder see what comes later, where all is there at once.")
    ] = False,
    no_padding_mask: Annotated[
        bool, typer.Option("--no-padding-mask", help="Let everybody see padding; there is some with --beside.")
    ] = False,
    beside: Annotated[str | None, typer.Option(help="A longer text in the same batch.", metavar="TEXT")] = None,
    convention: Annotated[
        str | None, typer.Option(help="The same weights as annotated, jadore, lsdefine, d2l or marian would run them.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Look into a model at work. Stages, search and what if, as a page, or as a record for programs."""
    if out is None and not as_json:
        raise typer.BadParameter("give --out page.html, or --json", param_hint="--out")
    from dragoman.inspector import inspect as look

    found = look(
        model, argument_text(text), None if target is None else argument_text(target),
        beam_size=beam_size, length_penalty=length_penalty, max_length=max_length, prefix=argument_text(prefix),
        heads_off=[_head(one) for one in head_off or ()], causal_mask=not no_causal_mask,
        padding_mask=not no_padding_mask,
        beside=None if beside is None else argument_text(beside), convention=convention, device=device,
    )  # fmt: skip
    if out is not None:
        found.save(out)
        tell(f"written to {out}")
    if as_json:
        with open_output(None) as stream:
            stream.write(found.json() + "\n")


def _head(told: str) -> tuple[str, int]:
    """An attention and the number of a head of it."""
    name, _, number = told.rpartition(":")
    if not name or not number.isdecimal():
        message = f"expected an attention and a head, as encoder.layers.0.self_attention:2, not {told!r}"
        raise typer.BadParameter(message, param_hint="--head-off")
    return name, int(number)
