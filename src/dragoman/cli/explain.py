"""The verb that lets one see through a model: explain."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.decoding import Read, Written
from dragoman.cli.explain_as import compared_with
from dragoman.cli.options import Device, Json, argument_text, open_output
from dragoman.cli.packed import fetched

if TYPE_CHECKING:
    from dragoman.canvas import Picture
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
Places = Annotated[
    list[str] | None,
    typer.Option(
        help="Work a number out: 'NAME.scores[HEAD,QUERY,KEY]', or 'NAME.norm[POSITION]'; from 0; repeatable.",
        metavar="PLACE",
    ),
]
WeightNames = Annotated[
    list[str] | None,
    typer.Option(help="Show learned matrices: a name, its beginning, or '*.query.weight'; repeatable.", metavar="NAME"),
]
StepNumber = Annotated[
    int | None, typer.Option(help="Only the tensors of this decoding step, from 1, with its cache.", metavar="N", min=1)
]
Lang = Annotated[str, typer.Option(help="Tell it in English or Chinese: en, zh.")]
Target = Annotated[
    str | None, typer.Option(help="Show the training view of this target, beside the serial one.", metavar="TEXT")
]
Layer = Annotated[int | None, typer.Option(help="Only this layer, counted from 0.", metavar="N")]
Head = Annotated[int | None, typer.Option(help="Only this attention head, counted from 0.", metavar="N")]
Pictures = Annotated[
    Path | None,
    typer.Option(
        help="Draw architecture, positions, masks, attention, norms, logits, beam, embeddings and more.", metavar="DIR"
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Of the pictures: png, svg or pdf.  [default: png; svg where no font has all signs]"),
]
MaxLength = Annotated[int | None, typer.Option(help="Pieces of the output at most.", min=1)]
As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="SYSTEMS",
        help="Compare with the same weights run as other systems do: annotated,jadore,lsdefine,d2l,marian.",
    ),
]  # fmt: skip

Explained = Annotated[
    Path | None,
    typer.Argument(help="A model: its directory, or one file.", metavar="MODEL", show_default=False, callback=fetched),
]


def explain(
    model: Explained = None,
    text: Annotated[
        str | None,
        typer.Argument(help="What to translate, continue or fill; a recording.", metavar="TEXT", show_default=False),
    ] = None,
    target: Target = None,
    stage: StageNames = None,
    layer: Layer = None,
    head: Head = None,
    numbers: Numbers = None,
    pictures: Pictures = None,
    format_: Format = None,
    config: Configs = None,
    src: Src = None,
    tgt: Tgt = None,
    batch: Batch = None,
    beam_size: Beam = None,
    max_length: MaxLength = None,
    work_out: Places = None,
    weights: WeightNames = None,
    step: StepNumber = None,
    source_language: Read = None, target_language: Written = None,
    as_: As = None,
    lang: Lang = "en",
    device: Device = "auto",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show what happens to a text on its way through a model. Every stage with shapes and numbers, step by step."""
    others = (
        target, stage, layer, head, numbers, pictures, format_, beam_size, max_length, work_out, weights, step,
        source_language, target_language,
    )  # fmt: skip
    if config:
        why = "it shows shapes without a model, and goes with --src, --tgt, --batch and --json"
        _refuse("--config", why, model, text, *others, as_, None if lang == "en" else lang)
        _write(_shapes(config, (src or 10, tgt or 10, batch or 1), as_json=as_json))
        return
    _refuse("--src, --tgt, --batch", "they are for shapes alone, and go with --config", src, tgt, batch)
    if pictures is None:
        _refuse("--format", "it is for pictures, and goes with --pictures DIR", format_)
    if model is None or text is None:
        raise typer.BadParameter("give MODEL and TEXT, or --config", param_hint="MODEL TEXT")
    given, wanted = argument_text(text), None if target is None else argument_text(target)
    if as_ is not None:
        _refuse("--as", "it compares systems, and goes with --lang and --json", *others)
        _write(compared_with(model, given, as_, lang=lang, device=device, as_json=as_json))
        return
    if step is not None:
        _refuse("--step", "it shows one step alone; leave out the other", work_out, target)
    from dragoman.inspection import explain as run_explanation

    whole = run_explanation(
        model, given, wanted, beam_size=beam_size or 1, max_length=max_length, step=step, lang=lang, device=device,
        source_language=source_language, target_language=target_language,
    )  # fmt: skip
    trace = whole.select(*(stage or ()), layer=layer, head=head, work_out=work_out or (), weights=weights or ())
    drawn = [] if pictures is None else _draw(trace, pictures, format_)
    plain = not (stage or work_out or weights) and (layer, head, numbers, step) == (None,) * 4
    _tell(trace, drawn, numbers, plain=plain, as_json=as_json)


def _shapes(config: list[str], sizes: tuple[int, int, int], *, as_json: bool) -> list[str]:
    from dragoman.inspection import explain_config, read_model_config

    plan = explain_config(read_model_config(config), src=sizes[0], tgt=sizes[1], batch=sizes[2])
    return [json.dumps(plan.to_dict(), ensure_ascii=False, allow_nan=False)] if as_json else plan.lines()


def _tell(trace: Trace, drawn: list[Picture], numbers: int | None, *, plain: bool, as_json: bool) -> None:
    """Write a trace; what there is to know of its pictures comes last, with the command that draws them again."""
    from dragoman.inspection import closing_lines

    paths = [str(picture.path) for picture in drawn]
    if as_json:
        with open_output(None) as stream:
            stream.writelines(trace.json(numbers=numbers != 0, pictures=paths))
            stream.write("\n")
    else:
        _write([*trace.lines(numbers=numbers), *closing_lines(trace, paths, more=plain)])
    sys.stdout.flush()
    notes = list(dict.fromkeys(picture.note for picture in drawn if picture.note))
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    if notes:
        print(f"draw again: {shlex.join(['dragoman', *sys.argv[1:]])}", file=sys.stderr)


def _refuse(option: str, why: str, *given: object) -> None:
    """Refuse what would change nothing beside the other options, instead of leaving it out in silence."""
    if any(one is not None and one != [] for one in given):
        raise typer.BadParameter(why, param_hint=option)


def _draw(trace: Trace, directory: Path, kind: str | None) -> list[Picture]:
    from dragoman.inspection import draw_trace

    return draw_trace(trace, directory, format=kind)


def _write(lines: list[str]) -> None:
    with open_output(None) as stream:
        stream.writelines(line + "\n" for line in lines)
