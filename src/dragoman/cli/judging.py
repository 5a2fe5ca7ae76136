"""Verbs that judge and describe: evaluate, compare, info."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import (
    BeamSize,
    DecodingSet,
    Device,
    Engine,
    Json,
    LengthPenalty,
    Model,
    Precision,
    decoding_settings,
    print_json,
)


def evaluate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source lines.", metavar="FILE")],
    reference: Annotated[list[Path], typer.Option(help="Reference lines; repeatable.", metavar="FILE")],
    metric: Annotated[
        str, typer.Option(help="bleu, chrf, chrf++, ter, exact, wer, word_error, per, cer.")
    ] = "bleu,chrf",
    group: Annotated[
        bool, typer.Option("--group", help="Lines with one source are one item, any answer right.")
    ] = False,
    hypotheses: Annotated[Path | None, typer.Option(help="Also write the outputs here.", metavar="FILE")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Translate a test set and score the outputs. Each score comes with its interval and signature."""
    from dragoman.decoding import Translator
    from dragoman.decoding import evaluate as run_evaluation
    from dragoman.decoding.output import one_line

    translator = Translator.from_pretrained(model, device=device, engine=engine, precision=precision)
    options = translator.options(
        decoding_settings(settings, {"beam_size": beam_size, "length_penalty": length_penalty})
    )
    metrics = [name.strip() for name in metric.split(",") if name.strip()]
    result = run_evaluation(
        translator, source, reference, metrics=metrics, group=group, decoding=options, lowercase=lowercase
    )
    for number in result.truncated:
        print(f"warning: source {number} is too long and was cut", file=sys.stderr)
    if hypotheses is not None:
        lines = "".join(one_line(text) + "\n" for text in result.hypotheses)
        hypotheses.write_text(lines, encoding="utf-8", newline="\n")
    if as_json:
        print_json(result.to_dict())
    else:
        for score in result.scores:
            print(score)


def compare(
    first: Annotated[Path, typer.Argument(help="Outputs of one system.", metavar="FIRST")],
    second: Annotated[Path, typer.Argument(help="Outputs of another.", metavar="SECOND")],
    reference: Annotated[Path, typer.Option(help="Reference lines.", metavar="FILE")],
    metric: Annotated[str, typer.Option(help="As for evaluate.")] = "bleu",
    language: Annotated[str | None, typer.Option(help="Two-letter code of the target language.")] = None,
    as_json: Json = False,
) -> None:
    """Test whether two outputs differ by more than luck. Paired bootstrap and approximate randomisation."""
    from dragoman.evaluation import compare as run_comparison
    from dragoman.text import read_lines

    one, other, right = ([line.text for line in read_lines(path)] for path in (first, second, reference))
    result = run_comparison(one, other, right, metric, target_language=language)
    print_json(result.to_dict()) if as_json else print(result)


def info(model: Model, as_json: Json = False) -> None:
    """Tell what a model directory holds. Shape, vocabularies, languages, decoding, engine, checkpoints."""
    from dragoman.training import describe_model

    found = describe_model(model)
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        if isinstance(value, dict) and value:
            print(f"{key}:")
            for name, entry in value.items():
                print(f"  {name} = {entry}")
        else:
            text = ", ".join(value) or "none" if isinstance(value, (dict, list)) else value
            print(f"{key}: {text:,}" if isinstance(text, int) else f"{key}: {text}")
