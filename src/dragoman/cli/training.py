"""Verbs that make models: train, prepare, average, merge, demo.

The options of `train` and `prepare` that are settings bear their names, and are handed on by name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.blocks import Ray, Workers, blocks_by
from dragoman.cli.options import (
    Columns,
    Config,
    DevPairs,
    DevSource,
    DevTarget,
    DevText,
    Family,
    Json,
    Pairs,
    Set,
    Source,
    SourceLanguage,
    Target,
    TargetLanguage,
    Text,
    make_settings,
    print_json,
    tell,
)
from dragoman.cli.packed import fetched
from dragoman.pace import silent

SourceAudio = Annotated[
    list[str] | None,
    typer.Option(
        help="Instead of --source: lists of recordings (.tsv), a line each: path, or path, start and end in seconds; "
        "paths relative to the list.",
        metavar="FILE",
    ),
]
DevSourceAudio = Annotated[
    list[str] | None, typer.Option(help="Held-out recordings, listed alike; with --dev-target.", metavar="FILE")
]

AddTokens = Annotated[
    str | None, typer.Option(help="With --init-from: tokens to append to its vocabulary, one a line.", metavar="FILE")
]


def train(
    out: Annotated[Path, typer.Option(help="The run directory.", metavar="DIR")],
    source: Source = None,
    source_audio: SourceAudio = None,
    target: Target = None,
    pairs: Pairs = None,
    dev_source: DevSource = None,
    dev_source_audio: DevSourceAudio = None,
    dev_target: DevTarget = None,
    dev_pairs: DevPairs = None,
    columns: Columns = None,
    text: Text = None,
    dev_text: DevText = None,
    family: Family = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    on_bad_text: Annotated[
        str | None,
        typer.Option(help="What a line that is not UTF-8 does: stop, replace what is wrong in it, or skip it."),
    ] = None,
    prepared: Annotated[
        str | None, typer.Option(help="Instead: a directory made by `dragoman prepare`.", metavar="DIR")
    ] = None,
    config: Config = None,
    settings: Set = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and dropout.")] = None,
    init_from: Annotated[
        str | None,
        typer.Option(help="Fine-tune: start from the weights of this run.", metavar="DIR", callback=fetched),
    ] = None,
    add_tokens: AddTokens = None,
    max_minutes: Annotated[
        str | None,
        typer.Option("--time", help="Time for the whole run: 20m, 1h30m, 90s; the schedule ends then.", metavar="TIME"),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    devices: Annotated[
        int, typer.Option(help="Train in so many processes of this machine, each with a GPU of its own.", min=1)
    ] = 1,
    restarts: Annotated[
        int, typer.Option(help="Of several processes: how often all start again after one has died.", min=0)
    ] = 3,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Tell nothing on standard error.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model on pairs of sequences, or on one text. What you leave open is chosen from corpus and device."""
    chosen = make_settings(locals())
    if devices > 1:
        from dragoman.distributed.launching import launch

        launch(devices, restarts, sys.argv[1:])
    from dragoman.training import train as run_training

    run = run_training(chosen, resume=resume, quiet=quiet)
    if as_json:
        from dataclasses import asdict

        print_json({"directory": str(run.directory), "progress": asdict(run.progress)})
    raise typer.Exit(run.exit_status)


def prepare(
    out: Annotated[Path, typer.Option(help="Where to put the prepared data.", metavar="DIR")],
    source: Source = None,
    source_audio: SourceAudio = None,
    target: Target = None,
    pairs: Pairs = None,
    dev_source: DevSource = None,
    dev_source_audio: DevSourceAudio = None,
    dev_target: DevTarget = None,
    dev_pairs: DevPairs = None,
    columns: Columns = None,
    text: Text = None,
    dev_text: DevText = None,
    family: Family = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    on_bad_text: Annotated[
        str | None,
        typer.Option(help="What a line that is not UTF-8 does: stop, replace what is wrong in it, or skip it."),
    ] = None,
    config: Config = None,
    settings: Set = None,
    workers: Workers = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Read, check, tokenise and store a corpus. `train --prepared` then starts from it, as often as you like."""
    chosen = make_settings(locals())
    from dragoman.data import prepare as run_preparation

    data = run_preparation(chosen, out, workers=blocks_by(ray, workers), report=silent if as_json else print)
    if as_json:
        print_json({"directory": str(data.directory), "report": data.report.to_dict()})


def average(
    run: Annotated[Path, typer.Argument(help="A run directory.", metavar="RUN")],
    last: Annotated[int, typer.Option(help="How many checkpoints, counted from the last.", min=1)],
    out: Annotated[Path, typer.Option(help="The model directory to make.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Average a run's last checkpoints into a new model directory. A best one kept from long ago is none of them."""
    from dragoman.training import average as run_averaging

    made = run_averaging(run, last, out)
    if as_json:
        print_json({"directory": str(made.directory), "steps": list(made.steps)})
        return
    tell(f"the average of the checkpoints of steps {', '.join(f'{step:,}' for step in made.steps)}")
    print(made.directory)


def merge(
    adapter: Annotated[Path, typer.Argument(help="An adapter, or the run that trained it.", metavar="ADAPTER")],
    out: Annotated[Path, typer.Option(help="The model directory to make.", metavar="DIR")],
    base: Annotated[
        Path | None, typer.Option(help="Its base.  [default: where it was in training]", metavar="MODEL")
    ] = None,
) -> None:
    """Put an adapter into its base for good: a new model directory."""
    from dragoman.training import merge as run_merging

    print(run_merging(adapter, out, base))


def demo(
    out: Annotated[
        Path | None, typer.Option(help="The run directory; runs/demo, or runs/demo-sound.", metavar="DIR")
    ] = None,
    direction: Annotated[str | None, typer.Option(help="zh-en or en-zh; of sounds en-en or zh-en.")] = None,
    sound: Annotated[bool, typer.Option("--sound", help="Spoken commands instead of texts.")] = False,
    time: Annotated[
        str | None, typer.Option(help="With --sound: train for 30m, 1h instead of four minutes.", metavar="TIME")
    ] = None,
) -> None:
    """Train a small Chinese-English model, and show it at work. The corpus ships with the package."""
    from dragoman.demo import run_demo, run_sound_demo
    from dragoman.demo.show import DIRECTIONS

    if sound:
        language = {None: "en", "en-en": "en", "zh-en": "zh"}.get(direction)
        if language is None:
            raise typer.BadParameter("expected en-en or zh-en", param_hint="--direction")
        raise typer.Exit(run_sound_demo(out or Path("runs/demo-sound"), language=language, time=time).exit_status)
    if time is not None:
        raise typer.BadParameter("only with --sound", param_hint="--time")
    out, direction = out or Path("runs/demo"), direction or "zh-en"
    if direction not in DIRECTIONS:
        raise typer.BadParameter(f"expected {' or '.join(DIRECTIONS)}", param_hint="--direction")
    raise typer.Exit(run_demo(out, direction=direction).exit_status)
