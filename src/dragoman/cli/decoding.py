"""Verbs that run models: translate, complete, score."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    BeamSize,
    DecodingSet,
    Device,
    Engine,
    Ensemble,
    Json,
    LengthPenalty,
    Model,
    Precision,
    argument_text,
    begun,
    decoding_settings,
    input_lines,
    open_output,
    open_translator,
    tell,
    told,
)

if TYPE_CHECKING:
    from dragoman.language import TextScore
    from dragoman.search import PairScore


def translate(
    model: Model,
    input_: Annotated[
        Path | None, typer.Option("--input", help="Source lines.  [default: standard input]", metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write.  [default: standard output]", metavar="FILE")
    ] = None,
    ensemble: Ensemble = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    nbest: Annotated[int | None, typer.Option(help="Print so many outputs each: line number, score, text.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each, as --nbest does too.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Print i-j pairs of pieces after each.")] = False,
    words: Annotated[bool, typer.Option("--word-alignments", help="The same of words between blanks.")] = False,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw outputs instead of searching.")] = False,
    prefix: Annotated[str, typer.Option(help="What every output must begin with.")] = "",
    buffer: Annotated[
        int | None,
        typer.Option(help="Lines that wait for each other; 1 answers each at once.  [default: 2048]", min=1),
    ] = None,
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Translate lines. As many come out as went in, in order, empty ones kept."""
    from dragoman.translation import format_translation

    named = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": nbest, "sampling": sampling or None}
    translator, options = open_translator(
        model, ensemble, settings, named, device=device, engine=engine, precision=precision
    )
    interactive = buffer is None and input_ is None and sys.stdin.isatty()
    chunk, aligned = 1 if interactive else buffer or 2048, alignments or words
    lines = translator.translate_lines(
        input_lines(input_, output), options, prefix=argument_text(prefix), chunk=chunk, alignments=aligned
    )
    results = begun(lines, output, input_)
    with open_output(output) as stream:
        for number, result in enumerate(results, 1):
            if result.truncated:
                limit = len(result.source_tokens)
                tell(f"warning: line {number} is longer than {limit} tokens and was cut there")
            for line in format_translation(
                result, number, n_best=nbest is not None, scores=scores, words=words, as_json=as_json
            ):
                stream.write(line + "\n")
            if number % chunk == 0:
                stream.flush()


def complete(
    model: Model,
    prompt: Annotated[
        str | None, typer.Argument(help="The beginning.  [default: one a line]", metavar="PROMPT", show_default=False)
    ] = None,
    input_: Annotated[
        Path | None, typer.Option("--input", help="Prompts, one a line.  [default: standard input]", metavar="FILE")
    ] = None,
    beam_size: BeamSize = None,
    nbest: Annotated[
        int | None, typer.Option(help="Print so many outputs each; of a file: number, score, text.")
    ] = None,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw instead of searching.")] = False,
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    r"""Continue a prompt: causal and Markov models. A masked model fills each <mask> in it (\<mask> is plain text)."""
    from dragoman.language import Filler, format_outputs, load_completer

    alone = _prompt_alone(prompt, input_)
    given = {"beam_size": beam_size, "n_best": nbest, "sampling": sampling or None}
    changes = decoding_settings(settings, given)
    completer = load_completer(model, device=device, engine=engine, precision=precision)
    lines = input_lines(input_) if alone is None else iter([argument_text(alone)])
    if isinstance(completer, Filler):
        results = completer.fill_lines(lines, n_best=completer.n_best(changes))
    else:
        results = completer.complete_lines(lines, completer.options(changes))
    with open_output(None) as stream:
        for number, outputs in enumerate(results, 1):
            place = None if alone is not None else number
            for line in format_outputs(outputs, place, n_best=nbest is not None, as_json=as_json):
                stream.write(line + "\n")


def _prompt_alone(prompt: str | None, input_: Path | None) -> str | None:
    """The one prompt, or None if prompts come line by line; at a terminal, where nothing was given, the empty one."""
    from dragoman.errors import ConfigError

    if prompt is not None and input_ is not None:
        raise ConfigError("give a prompt or a file of prompts, not both", found=f"{prompt!r} and --input {input_}")
    if prompt is None and input_ is None and sys.stdin.isatty():
        return ""
    return prompt


def score(
    model: Model,
    text: Annotated[
        Path | None, typer.Option(help="Lines for a model of one text.  [default: standard input]", metavar="FILE")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="For pairs: source lines.", metavar="FILE")] = None,
    target: Annotated[Path | None, typer.Option(help="Target lines, aligned.", metavar="FILE")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also print each piece with its log-probability.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="With --json: end with an object of the sums.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Tell how likely each line or pair is. A natural log-probability each, `</s>` included; perplexity at the end.

    A Transformer is run by its PyTorch modules in float32 here, whatever `translate` chooses.
    """
    from dragoman.files import json_text
    from dragoman.language import TextSummary, format_score

    if source is None and target is None:
        scores: Iterator[PairScore | TextScore] = _text_scores(model, text, device)
    else:
        scores = _pair_scores(model, text, source, target, device)
    total = TextSummary()
    with open_output(None) as stream:
        for one in scores:
            stream.write(format_score(one, tokens=tokens, as_json=as_json) + "\n")
            total += TextSummary.of(one)
        if as_json and summary:
            stream.write(json_text({"summary": total.to_dict()}) + "\n")
    if not (as_json and summary):
        print(total, file=sys.stderr)


def _text_scores(model: Path, text: Path | None, device: str) -> Iterator[TextScore]:
    from dragoman.language import TextScorer

    chunk = 1 if text is None and sys.stdin.isatty() else 2048
    return TextScorer.from_pretrained(model, device=device).score_lines(input_lines(text), chunk=chunk)


def _pair_scores(
    model: Path, text: Path | None, source: Path | None, target: Path | None, device: str
) -> Iterator[PairScore]:
    from dragoman.errors import ConfigError, ModelError
    from dragoman.language.loading import family_of
    from dragoman.text import ParallelCorpus
    from dragoman.translation import Translator

    if text is not None or source is None or target is None:
        given = {"--text": text, "--source": source, "--target": target}
        found = ", ".join(name for name, value in given.items() if value is not None)
        raise ConfigError("give --text, or --source and --target", found=found)
    if (family := family_of(model)) != "transformer":
        hint = "give the lines to be scored with --text, or on standard input"
        message = f"a {family} model scores lines of one text, not pairs"
        raise ModelError(message, file=model, found="--source, --target", hint=hint)
    pairs = list(ParallelCorpus.from_files([source], [target]))
    translator = Translator.from_pretrained(model, device=device, engine="module")
    return translator.score_pairs(told(((pair.source, pair.target) for pair in pairs), "pairs:", len(pairs)))
