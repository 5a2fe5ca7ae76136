"""Verbs that run models: translate, complete, score."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli.bulk import Columns, PartLines, Ray, Workers, translate_in_parts
from dragoman.cli.options import (
    BeamSize,
    DecodingSet,
    Device,
    Engine,
    Ensemble,
    Json,
    LengthPenalty,
    Model,
    OnBadText,
    Precision,
    Threads,
    argument_text,
    begun,
    decoding_settings,
    input_lines,
    open_output,
    open_translator,
    tell,
    told,
    use_threads,
)
from dragoman.pace import SECONDS

if TYPE_CHECKING:
    from dragoman.config import DecodingConfig
    from dragoman.language import TextScore
    from dragoman.search import PairScore
    from dragoman.text.lines import BadText
    from dragoman.translation import Translator
    from dragoman.translation.notes import Notes
    from dragoman.translation.results import Translation


Typed = Annotated[
    str | None,
    typer.Argument(help="What to translate.  [default: lines]", metavar="TEXT", show_default=False),
]
Adapter = Annotated[
    Path | None, typer.Option(help="An adapter over the model, or the run that trained it.", metavar="DIR")
]
Input = Annotated[Path | None, typer.Option("--input", help="Source lines.  [default: standard input]", metavar="FILE")]
Output = Annotated[Path | None, typer.Option(help="Where to write.  [default: standard output]", metavar="FILE")]
Buffer = Annotated[
    int | None,
    typer.Option(help="Lines that wait for each other; 1 answers each at once.  [default: 2048]", min=1),
]
Read = Annotated[
    str | None,
    typer.Option(
        "--source-language", help="Of a model for many: one that it reads.  [default: of its import]", metavar="CODE"
    ),
]
Written = Annotated[
    str | None,
    typer.Option(
        "--target-language", help="Of a model for many: one that it writes.  [default: of its import]", metavar="CODE"
    ),
]
Unknown = Annotated[
    Literal["forbid", "copy", "keep"] | None,
    typer.Option(
        help="Unknown words of outputs: never written (forbid), the source word that each looked at (copy), or U+FFFD "
        "(keep).  [default: the model's]"
    ),
]


def translate(
    model: Model,
    text: Typed = None,
    input_: Input = None,
    output: Output = None,
    ensemble: Ensemble = None,
    adapter: Adapter = None,
    source_language: Read = None,
    target_language: Written = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    nbest: Annotated[int | None, typer.Option(help="Print so many outputs each: line number, score, text.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each, as --nbest does too.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Print i-j pairs of pieces after each.")] = False,
    words: Annotated[bool, typer.Option("--word-alignments", help="The same of words between blanks.")] = False,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw outputs instead of searching.")] = False,
    unknown: Unknown = None,
    prefix: Annotated[str, typer.Option(help="What every output must begin with.")] = "",
    on_bad_text: OnBadText = "stop",
    buffer: Buffer = None,
    workers: Workers = None,
    part_lines: PartLines = 10_000,
    ray: Ray = None,
    columns: Columns = None,
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Translate lines, or a text. As many come out as went in, in order, empty ones kept.

    What was cut, unknown or in another language is told at the end, on standard error.
    """
    from dragoman.translation import format_translation
    from dragoman.translation.notes import Notes

    typed = _typed_lines(text, input_)
    named = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": nbest}
    named |= {"sampling": sampling or None, "unknown": unknown}
    how = {"device": device, "engine": engine, "precision": precision}
    if workers is not None or ray is not None:
        translate_in_parts(locals())
        return
    translator, options = _opened(adapter, model, ensemble, settings, named, **how, threads=threads)
    translator = translator.with_languages(source_language, target_language)
    interactive = buffer is None and input_ is None and typed is None and sys.stdin.isatty()
    chunk, aligned = 1 if interactive else buffer or 2048, alignments or words
    sources = input_lines(input_, output, on_bad_text) if typed is None else iter(typed)
    lines = translator.translate_lines(sources, options, prefix=argument_text(prefix), chunk=chunk, alignments=aligned)
    notes = Notes(options, translator.languages.source)
    shown = output is None and sys.stdout.isatty()
    results = _watched(begun(lines, output, input_), notes, live=interactive, short=shown or typed is not None)
    form = {"n_best": nbest is not None, "scores": scores, "words": words, "as_json": as_json}
    with open_output(output) as stream:
        for number, result in results:
            stream.writelines(f"{line}\n" for line in format_translation(result, number, **form))
            if number % chunk == 0:
                stream.flush()


def _opened(
    adapter: Path | None,
    model: Path,
    ensemble: list[Path] | None,
    settings: list[str] | None,
    named: dict[str, Any],
    *,
    device: str,
    engine: str,
    precision: str,
    threads: int | None = None,
) -> tuple[Translator, DecodingConfig]:
    """What `open_translator` returns, also of a model with an adapter; one that listens is refused."""
    if adapter is None:
        translator, options = open_translator(
            model, ensemble, settings, named, device=device, engine=engine, precision=precision, threads=threads
        )
    else:
        from dragoman.config import Placement
        from dragoman.translation.adapted import open_adapted

        use_threads(threads)
        translator = open_adapted([model, *(ensemble or [])], adapter, Placement(device, engine, precision))
        options = translator.options(decoding_settings(settings, named))
    translator.tokenizers.check_reads()
    return translator, options


def _watched(
    results: Iterator[Translation], notes: Notes, *, live: bool, short: bool
) -> Iterator[tuple[int, Translation]]:
    """The same results with their numbers; what is to be told of them and how fast they came follows the last one.

    If `live`, it follows each one; of what is `short`, or seen as it comes, the speed is not told.
    """
    from dragoman.errors import DragomanError

    began, number = time.monotonic(), 0
    try:
        for number, result in enumerate(results, 1):
            notes.add(number, result)
            yield number, result
            if live:
                _tell_notes(notes)
    except DragomanError:
        _tell_notes(notes)
        raise
    _tell_notes(notes)
    seconds = time.monotonic() - began
    if not (live or short) and (sys.stderr.isatty() or seconds >= SECONDS):
        tell(f"{number:,} lines in {seconds:,.1f} seconds, {number / max(seconds, 1e-9):,.1f} a second")


def _tell_notes(notes: Notes) -> None:
    for line in notes.lines():
        tell(f"warning: {line}")
    notes.clear()


def _typed_lines(text: str | None, input_: Path | None) -> list[str] | None:
    """The lines of a text among the arguments; None if there is none.

    Raises:
        ConfigError: there is a file of lines too, or the text is the name of one.
    """
    from dragoman.errors import ConfigError

    if text is None:
        return None
    if input_ is not None:
        found = f"{text!r} and --input {input_}"
        raise ConfigError("give a text or a file of lines, not both", found=found)
    if "\n" not in text and len(text) < 256 and Path(text).is_file():
        raise ConfigError("a text is translated, and this is a file", found=text, hint=f"--input {text}")
    return argument_text(text).removesuffix("\n").split("\n")


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
    on_bad_text: OnBadText = "stop",
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    r"""Continue a prompt: causal and Markov models. A masked model fills each <mask> in it (\<mask> is plain text)."""
    from dragoman.files import json_text
    from dragoman.language import Filler, format_outputs, load_completer
    from dragoman.text.lines import LineNumbers

    alone = _prompt_alone(prompt, input_)
    given = {"beam_size": beam_size, "n_best": nbest, "sampling": sampling or None}
    changes = decoding_settings(settings, given)
    completer = load_completer(model, device=device, engine=engine, precision=precision)
    texts = None if alone is None else [argument_text(alone)]
    lines = input_lines(input_, on_bad_text=on_bad_text) if texts is None else iter(texts)
    if isinstance(completer, Filler):
        why, count = "too long, or without a <mask> to fill", completer.n_best(changes)
        results = iter(completer.fill(texts, n_best=count)) if texts else completer.fill_lines(lines, n_best=count)
    else:
        why, options = "too long to be continued", completer.options(changes)
        results = iter(completer.complete(texts, options)) if texts else completer.complete_lines(lines, options)
    number, left, cut = 0, LineNumbers(), LineNumbers()
    with open_output(None) as stream:
        for number, outputs in enumerate(results, 1):
            place = None if alone is not None else number
            if not outputs:
                left.add(number)
                stream.write((json_text({"line": number, "text": None}) if as_json else "") + "\n")
            elif not getattr(outputs[0], "finished", True):
                cut.add(number)
            for line in format_outputs(outputs, place, n_best=nbest is not None, as_json=as_json):
                stream.write(line + "\n")
    if cut.count:
        tell(f"warning: outputs that the model did not end, cut at the limit: {cut.count:,} of {number:,} ({cut})")
    if left.count:
        tell(f"warning: {left.count:,} lines were {why}, and have an empty line each: {left}")


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
    on_bad_text: OnBadText = "stop",
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Tell how likely each line or pair is. A natural log-probability each, `</s>` included; perplexity at the end.

    A Transformer is run by its PyTorch modules in float32 here, whatever `translate` chooses. What is too long, or not
    text, has nan (JSON: null).
    """
    from dragoman.files import json_text
    from dragoman.language import TextSummary, format_score
    from dragoman.text.lines import LineNumbers

    if summary and not as_json:
        raise typer.BadParameter("it is for programs, and goes with --json", param_hint="--summary")
    use_threads(threads)
    if source is None and target is None:
        scores: Iterator[PairScore | TextScore] = _text_scores(model, text, device, on_bad_text)
    else:
        scores = _pair_scores(model, text, source, target, device, on_bad_text)
    total, left = TextSummary(), LineNumbers()
    chunk = 1 if sys.stdin.isatty() else 2048
    with open_output(None) as stream:
        for number, one in enumerate(scores, 1):
            stream.write(format_score(one, tokens=tokens, as_json=as_json) + "\n")
            part = TextSummary.of(one)
            total += part
            if part.unscored:
                left.add(number)
            if number % chunk == 0:
                stream.flush()
        if as_json and summary:
            stream.write(json_text({"summary": total.to_dict()}) + "\n")
    if left.count:
        tell(f"warning: {left.count:,} could not be scored, being too long or not text: {left}")
    if not (as_json and summary):
        print(total, file=sys.stderr)


def _text_scores(model: Path, text: Path | None, device: str, on_bad_text: BadText) -> Iterator[TextScore]:
    from dragoman.language import TextScorer

    chunk = 1 if text is None and sys.stdin.isatty() else 2048
    scorer = TextScorer.from_pretrained(model, device=device)
    return scorer.score_lines(input_lines(text, on_bad_text=on_bad_text), chunk=chunk)


def _pair_scores(
    model: Path, text: Path | None, source: Path | None, target: Path | None, device: str, on_bad_text: BadText
) -> Iterator[PairScore]:
    from dragoman.errors import ConfigError, ModelError
    from dragoman.language.loading import family_of
    from dragoman.translation import Translator

    if text is not None or source is None or target is None:
        given = {"--text": text, "--source": source, "--target": target}
        found = ", ".join(name for name, value in given.items() if value is not None)
        raise ConfigError("give --text, or --source and --target", found=found)
    if (family := family_of(model)) != "transformer":
        hint = "give the lines to be scored with --text, or on standard input"
        message = f"a {family} model scores lines of one text, not pairs"
        raise ModelError(message, file=model, found="--source, --target", hint=hint)
    total, pairs = _aligned(source, target, on_bad_text)
    translator = Translator.from_pretrained(model, device=device, engine="module")
    if translator.tokenizers.sound is not None:
        pairs = _of_recordings(pairs, source)
    return translator.score_pairs(told(pairs, "pairs:", total))


def _of_recordings(pairs: Iterator[tuple[str, str] | None], listing: Path) -> Iterator[tuple[str, str] | None]:
    """The same pairs, the sources of which are lines of a list of recordings, with whole paths."""
    from dragoman.audio.listing import Recording

    folder = str(listing.resolve().parent)
    for number, pair in enumerate(pairs, 1):
        if pair is not None:
            pair = str(Recording.of_line(pair[0], folder=folder, file=str(listing), line=number)), pair[1]
        yield pair


def _aligned(source: Path, target: Path, on_bad_text: BadText) -> tuple[int, Iterator[tuple[str, str] | None]]:
    """How many pairs of lines two files have, and the pairs; None for one that is skipped.

    Raises:
        DataError: they have different numbers of lines, or a line is not text and must be.
    """
    from dragoman.text import ParallelCorpus
    from dragoman.text.lines import check_text, count_lines, scan_lines

    count = check_text if on_bad_text == "stop" else count_lines
    total = count(source)
    if count(target) != total:
        for _ in ParallelCorpus.from_files([source], [target], on_bad_text="replace"):
            pass  # says where they part
    both = zip(*(scan_lines(path, on_bad_text=on_bad_text) for path in (source, target)), strict=False)
    return total, (None if left.problem or right.problem else (left.text, right.text) for left, right in both)
