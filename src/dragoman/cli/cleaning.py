"""The verb that cleans a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.blocks import Ray, Workers, blocks_by
from dragoman.cli.options import (
    Columns,
    Device,
    Json,
    Pairs,
    Source,
    SourceLanguage,
    Target,
    TargetLanguage,
    print_json,
    tell,
)
from dragoman.pace import silent


def clean(
    out: Annotated[Path, typer.Option(help="A new directory for what is kept, and the report.", metavar="DIR")],
    source: Source = None,
    target: Target = None,
    pairs: Pairs = None,
    columns: Columns = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A rule that is not asked; repeatable.", metavar="RULE")
    ] = None,
    scores: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Two runs, there and back: what they find worst is dropped too.", metavar="RUN RUN"),
    ] = None,
    keep_dropped: Annotated[
        bool, typer.Option("--keep-dropped", help="Write dropped.jsonl too: what was dropped, and why.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A threshold, as max_ratio=4; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    workers: Workers = None,
    ray: Ray = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Drop pairs that would do harm: repeated, misaligned, wrongly decoded, in other languages. Each rule reports."""
    from dragoman.cleaning import clean as run_cleaning
    from dragoman.config.cleaning import CleaningConfig
    from dragoman.config.reading import assigned
    from dragoman.text import PairFormat, ParallelCorpus

    form = PairFormat.of(columns, source_language, target_language)
    lines = ParallelCorpus.from_files(source or (), target or ())
    tables = ParallelCorpus.from_pairs(pairs or (), form=form)
    found = run_cleaning(
        ParallelCorpus(lines.aligned, tables.pairs, form=form),
        out,
        without=without or (),
        settings=CleaningConfig.from_dict(dict(assigned(settings or ()))),
        languages=(source_language, target_language),
        scores=scores,
        keep_dropped=keep_dropped,
        workers=blocks_by(ray, workers),
        device=device,
        report=silent if as_json else tell,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print(out)
