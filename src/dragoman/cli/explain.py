"""The verb that lets one see through a model: explain."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device, Json, argument_text, open_output

if TYPE_CHECKING:
    from dragoman.inspection import Trace

StageNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Only this, or what begins so, or '*.weights'; text, steps, ranking, training, checks.", metavar="NAME"
    ),
]
Numbers = Annotated[
    int | None, typer.Option(help="Show every stage with so many numbers a row; 0 is shapes only.", min=0, metavar="N")
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        help="Instead of MODEL: shapes of base, big, a TOML file, a model directory, KEY=VALUE; repeatable.",
        metavar="CONFIG",
    ),
]
Src = Annotated[int | None, typer.Option(help="With --config: length of the source.  [default: 10]", min=1)]
Tgt = Annotated[int | None, typer.Option(help="With --config: length of the target.  [default: 10]", min=1)]
Batch = Annotated[int | None, typer.Option(help="With --config: texts side by side.  [default: 1]", min=1)]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy search.  [default: 1]", min=1)]
MORE = (
    "\nMore: --stage NAME (or its beginning, or '*.weights'), --layer N, --head N, --numbers N, --pictures DIR, --json"
)


def explain(
    model: Annotated[
        Path | None, typer.Argument(help="A run directory or model directory.", metavar="MODEL", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Argument(help="What to translate, continue or fill.", metavar="TEXT", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Show the training view of this target, beside the serial one.", metavar="TEXT")
    ] = None,
    stage: StageNames = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.", metavar="N")] = None,
    head: Annotated[int | None, typer.Option(help="Only this attention head, counted from 0.", metavar="N")] = None,
    numbers: Numbers = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Draw positions, masks, attention, schedule, smoothing.", metavar="DIR")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Of the pictures: png, svg or pdf.  [default: png]")
    ] = None,
    config: Configs = None,
    src: Src = None,
    tgt: Tgt = None,
    batch: Batch = None,
    beam_size: Beam = None,
    max_length: Annotated[int | None, typer.Option(help="Pieces of the output at most.", min=1)] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Show what happens to a text on its way through a model. Every stage with shapes and numbers, step by step."""
    if config:
        _refuse(
            "--config", "it shows shapes without a model, and goes with --src, --tgt, --batch and --json",
            model, text, target, stage, layer, head, numbers, pictures, format_, beam_size, max_length,
        )  # fmt: skip
        from dragoman.inspection import explain_config, read_model_config

        plan = explain_config(read_model_config(config), src=src or 10, tgt=tgt or 10, batch=batch or 1)
        _write([json.dumps(plan.to_dict(), ensure_ascii=False, allow_nan=False)] if as_json else plan.lines())
        return
    _refuse("--src, --tgt, --batch", "they are for shapes alone, and go with --config", src, tgt, batch)
    if pictures is None:
        _refuse("--format", "it is for pictures, and goes with --pictures DIR", format_)
    if model is None or text is None:
        raise typer.BadParameter("give MODEL and TEXT, or --config", param_hint="MODEL TEXT")
    from dragoman.inspection import explain as run_explanation

    given, wanted = argument_text(text), None if target is None else argument_text(target)
    whole = run_explanation(model, given, wanted, beam_size=beam_size or 1, max_length=max_length, device=device)
    trace = whole.select(*(stage or ()), layer=layer, head=head)
    drawn = [] if pictures is None else _draw(trace, pictures, format_ or "png")
    if as_json:
        with open_output(None) as stream:
            stream.writelines(trace.json(numbers=numbers != 0, pictures=drawn))
            stream.write("\n")
        return
    lines = [*trace.lines(numbers=numbers), *(["", "pictures:"] if drawn else []), *(f"  {path}" for path in drawn)]
    if not stage and layer is None and head is None and numbers is None:
        lines.append(MORE)
    _write(lines)


def _refuse(option: str, why: str, *given: object) -> None:
    """Refuse what would change nothing beside the other options, instead of leaving it out in silence."""
    if any(one is not None and one != [] for one in given):
        raise typer.BadParameter(why, param_hint=option)


def _draw(trace: Trace, directory: Path, kind: str) -> list[str]:
    from dragoman.inspection import draw_trace

    drawn = draw_trace(trace, directory, format=kind)
    for note in dict.fromkeys(picture.note for picture in drawn if picture.note):
        print(f"warning: {note}", file=sys.stderr)
    return [str(picture.path) for picture in drawn]


def _write(lines: list[str]) -> None:
    with open_output(None) as stream:
        stream.writelines(line + "\n" for line in lines)
