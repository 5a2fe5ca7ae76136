"""The verb that lets one see through a model: explain."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device, Json, open_output

if TYPE_CHECKING:
    from dragoman.inspection import Trace

StageNames = Annotated[
    list[str] | None,
    typer.Option(help="Only this, or what begins so, or '*.weights'; text, steps, training, checks.", metavar="NAME"),
]
Numbers = Annotated[
    int | None, typer.Option(help="Show every stage with so many numbers a row; 0 is shapes only.", min=0, metavar="N")
]
Configs = Annotated[
    list[str] | None,
    typer.Option(help="Instead of MODEL: shapes of base, big, a TOML file, KEY=VALUE; repeatable.", metavar="CONFIG"),
]
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
    format_: Annotated[str, typer.Option("--format", help="Of the pictures: png, svg or pdf.")] = "png",
    config: Configs = None,
    src: Annotated[int, typer.Option(help="With --config: length of the source.", min=1)] = 10,
    tgt: Annotated[int, typer.Option(help="With --config: length of the target.", min=1)] = 10,
    batch: Annotated[int, typer.Option(help="With --config: texts side by side.", min=1)] = 1,
    beam_size: Annotated[int, typer.Option(help="Hypotheses kept; 1 is greedy search.", min=1)] = 1,
    max_length: Annotated[int | None, typer.Option(help="Pieces of the output at most.", min=1)] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Show what happens to a text on its way through a model. Every stage with shapes and numbers, step by step."""
    if config:
        _refuse_with_config(model, text, target, stage, layer, head, pictures)
        from dragoman.inspection import explain_config, read_model_config

        plan = explain_config(read_model_config(config), src=src, tgt=tgt, batch=batch)
        _write(plan.to_dict() if as_json else plan.lines())
        return
    if model is None or text is None:
        raise typer.BadParameter("give MODEL and TEXT, or --config", param_hint="MODEL TEXT")
    from dragoman.inspection import explain as run_explanation

    trace = run_explanation(model, text, target, beam_size=beam_size, max_length=max_length, device=device).select(
        *(stage or ()), layer=layer, head=head
    )
    drawn = [] if pictures is None else _draw(trace, pictures, format_)
    if as_json:
        _write({**trace.to_dict(numbers=numbers != 0), "pictures": drawn})
        return
    lines = [*trace.lines(numbers=numbers), *(["", "pictures:"] if drawn else []), *(f"  {path}" for path in drawn)]
    if not stage and layer is None and head is None and numbers is None:
        lines.append(MORE)
    _write(lines)


def _refuse_with_config(*given: object) -> None:
    if any(one is not None and one != [] for one in given):
        hint = "--config shows shapes without a model: it goes with --src, --tgt, --batch and --json"
        raise typer.BadParameter(hint, param_hint="--config")


def _draw(trace: Trace, directory: Path, kind: str) -> list[str]:
    from dragoman.inspection import draw_trace

    drawn = draw_trace(trace, directory, format=kind)
    for note in dict.fromkeys(picture.note for picture in drawn if picture.note):
        print(f"warning: {note}", file=sys.stderr)
    return [str(picture.path) for picture in drawn]


def _write(what: dict[str, object] | list[str]) -> None:
    text = "\n".join(what) if isinstance(what, list) else json.dumps(what, ensure_ascii=False, allow_nan=False)
    with open_output(None, None) as stream:
        stream.write(text + "\n")
