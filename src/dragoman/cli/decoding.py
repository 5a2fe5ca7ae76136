"""Verbs that run models: translate, complete, score."""

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
    decoding_settings,
    input_lines,
    open_output,
    print_json,
)


def translate(
    model: Model,
    input_: Annotated[
        Path | None, typer.Option("--input", help="Source lines.  [default: standard input]", metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write.  [default: standard output]", metavar="FILE")
    ] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option(help="Further models that decide with it; repeatable.", metavar="MODEL")
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    nbest: Annotated[int | None, typer.Option(help="Print so many outputs each: line number, score, text.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each output.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Print i-j pairs of pieces after each.")] = False,
    words: Annotated[bool, typer.Option("--word-alignments", help="The same of words between blanks.")] = False,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw outputs instead of searching.")] = False,
    prefix: Annotated[str, typer.Option(help="What every output must begin with.")] = "",
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    as_json: Json = False,
) -> None:
    """Translate lines. As many come out as went in, in order, empty ones kept."""
    from dragoman.decoding import Translator, format_translation

    translator = Translator.from_pretrained([model, *(ensemble or [])], device=device, engine=engine)
    given = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": nbest, "sampling": sampling or None}
    options = translator.options(decoding_settings(settings, given))
    interactive = input_ is None and sys.stdin.isatty()
    chunk, aligned = 1 if interactive else 2048, alignments or words
    lines = translator.translate_lines(input_lines(input_), options, prefix=prefix, chunk=chunk, alignments=aligned)
    with open_output(output, input_) as stream:
        for number, result in enumerate(lines, 1):
            if result.truncated:
                limit = len(result.source_tokens)
                print(f"warning: line {number} is longer than {limit} tokens and was cut there", file=sys.stderr)
            for line in format_translation(
                result, number, n_best=nbest is not None, scores=scores, words=words, as_json=as_json
            ):
                stream.write(line + "\n")
            if interactive:
                stream.flush()


def complete(
    model: Model,
    prompt: Annotated[str, typer.Argument(help="The beginning.", metavar="PROMPT", show_default=False)] = "",
    beam_size: BeamSize = None,
    nbest: Annotated[int | None, typer.Option(help="Print so many continuations.")] = None,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw instead of searching.")] = False,
    settings: DecodingSet = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue a prompt with a decoder-only model."""
    from dataclasses import asdict

    from dragoman.decoding import Completer

    completer = Completer.from_pretrained(model, device=device)
    given = {"beam_size": beam_size, "n_best": nbest, "sampling": sampling or None}
    for one in completer.complete([prompt], completer.options(decoding_settings(settings, given)))[0]:
        print_json(asdict(one), indent=None) if as_json else print(one.text)


def score(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source lines.", metavar="FILE")],
    target: Annotated[Path, typer.Option(help="Target lines, aligned.", metavar="FILE")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Also print each piece with its log-probability.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Tell how likely each given target is. One natural log-probability a line, `</s>` included."""
    from dataclasses import asdict

    from dragoman.decoding import Translator
    from dragoman.text import ParallelCorpus

    pairs = list(ParallelCorpus.from_files([source], [target]))
    translator = Translator.from_pretrained(model, device=device)
    for result in translator.score([pair.source for pair in pairs], [pair.target for pair in pairs]):
        if as_json:
            print_json(asdict(result), indent=None)
            continue
        pieces = zip((*result.tokens, "</s>"), result.token_scores, strict=True)
        detail = "\t" + " ".join(f"{piece}:{value:.3f}" for piece, value in pieces) if tokens else ""
        print(f"{result.log_probability:.4f}{detail}")
