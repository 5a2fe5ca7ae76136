"""The command line: each verb parses, calls one public function, and prints.

Everything heavy is imported inside the verb that needs it, so that `dragoman --help` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from dragoman.config import TrainConfig

app = typer.Typer(
    name="dragoman",
    help="Train, run, judge and see through the encoder-decoder Transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[Path, typer.Argument(help="A run directory or model directory.", metavar="MODEL")]
Source = Annotated[
    list[str] | None, typer.Option(help="Source lines; repeatable, .gz is read as it is.", metavar="FILE")
]
Target = Annotated[list[str] | None, typer.Option(help="Target lines, aligned with --source.", metavar="FILE")]
Pairs = Annotated[list[str] | None, typer.Option(help="Instead: .tsv with two columns, or .jsonl.", metavar="FILE")]
DevSource = Annotated[
    list[str] | None, typer.Option(help="Held-out sources; split off training if absent.", metavar="FILE")
]
DevTarget = Annotated[list[str] | None, typer.Option(help="Held-out targets.", metavar="FILE")]
DevPairs = Annotated[list[str] | None, typer.Option(help="Held-out pairs.", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Engine = Annotated[str, typer.Option(help="How the model is run: auto or module.")]
BeamSize = Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy search.  [default: the model's]")]
LengthPenalty = Annotated[float | None, typer.Option(help="alpha of the length penalty.  [default: the model's]")]
Config = Annotated[Path | None, typer.Option(help="A TOML file of settings.", metavar="FILE")]
DecodingSet = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any decoding setting, as key=value; repeatable.", metavar="KEY=VALUE"),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting, as key=value or section.key=value; repeatable.", metavar="KEY=VALUE"),
]


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="The run directory.", metavar="DIR")],
    source: Source = None,
    target: Target = None,
    pairs: Pairs = None,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    dev_pairs: DevPairs = None,
    prepared: Annotated[
        str | None, typer.Option(help="Instead: a directory made by `dragoman prepare`.", metavar="DIR")
    ] = None,
    config: Config = None,
    settings: Set = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and dropout.")] = None,
    init_from: Annotated[
        str | None, typer.Option(help="Fine-tune: start from the weights of this run.", metavar="DIR")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Tell nothing on standard error.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model on pairs of sequences. What you leave open is chosen from the corpus and the device."""
    files = {
        "source": source, "target": target, "pairs": pairs, "dev_source": dev_source, "dev_target": dev_target,
        "dev_pairs": dev_pairs, "prepared": prepared,
    }  # fmt: skip
    chosen = _config(out, config, settings, files, {"seed": seed, "init_from": init_from, "device": device})
    from dragoman.training import train as run_training

    run = run_training(chosen, resume=resume, quiet=quiet)
    if as_json:
        from dataclasses import asdict

        _print_json({"directory": str(run.directory), "progress": asdict(run.progress)})
    raise typer.Exit(run.exit_status)


@app.command()
def prepare(
    out: Annotated[Path, typer.Option(help="Where to put the prepared data.", metavar="DIR")],
    source: Source = None,
    target: Target = None,
    pairs: Pairs = None,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    dev_pairs: DevPairs = None,
    config: Config = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Read, check, tokenise and store a corpus. `train --prepared` then starts from it, as often as you like."""
    files = {
        "source": source, "target": target, "pairs": pairs, "dev_source": dev_source, "dev_target": dev_target,
        "dev_pairs": dev_pairs,
    }  # fmt: skip
    chosen = _config(out, config, settings, files, {})
    from dragoman.data import prepare as run_preparation

    data = run_preparation(chosen, out, report=_silent if as_json else print)
    if as_json:
        _print_json({"directory": str(data.directory), "report": data.report.to_dict()})


@app.command()
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
    options = translator.options(_decoding(settings, given))
    interactive = input_ is None and sys.stdin.isatty()
    chunk, aligned = 1 if interactive else 2048, alignments or words
    lines = translator.translate_lines(_input_lines(input_), options, prefix=prefix, chunk=chunk, alignments=aligned)
    with _output(output, input_) as stream:
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


@app.command()
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
    as_json: Json = False,
) -> None:
    """Translate a test set and score the outputs. Each score comes with its interval and signature."""
    from dragoman.decoding import Translator
    from dragoman.decoding import evaluate as run_evaluation
    from dragoman.decoding.output import one_line

    translator = Translator.from_pretrained(model, device=device)
    options = translator.options(_decoding(settings, {"beam_size": beam_size, "length_penalty": length_penalty}))
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
        _print_json(result.to_dict())
    else:
        for score in result.scores:
            print(score)


@app.command()
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
    _print_json(result.to_dict()) if as_json else print(result)


@app.command()
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
            _print_json(asdict(result), indent=None)
            continue
        pieces = zip((*result.tokens, "</s>"), result.token_scores, strict=True)
        detail = "\t" + " ".join(f"{piece}:{value:.3f}" for piece, value in pieces) if tokens else ""
        print(f"{result.log_probability:.4f}{detail}")


@app.command()
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
    for one in completer.complete([prompt], completer.options(_decoding(settings, given)))[0]:
        _print_json(asdict(one), indent=None) if as_json else print(one.text)


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A run directory.", metavar="RUN")],
    last: Annotated[int, typer.Option(help="How many checkpoints, counted from the last.", min=1)],
    out: Annotated[Path, typer.Option(help="The model directory to make.", metavar="DIR")],
) -> None:
    """Average a run's last checkpoints into a new model directory."""
    from dragoman.training import average_run

    print(average_run(run, last, out))


@app.command()
def info(model: Model, as_json: Json = False) -> None:
    """Tell what a model directory holds. Shape, vocabularies, languages, decoding, engine, checkpoints."""
    from dragoman.training import describe_model

    found = describe_model(model)
    if as_json:
        _print_json(found)
        return
    for key, value in found.items():
        if isinstance(value, dict) and value:
            print(f"{key}:")
            for name, entry in value.items():
                print(f"  {name} = {entry}")
        else:
            text = ", ".join(value) or "none" if isinstance(value, (dict, list)) else value
            print(f"{key}: {text:,}" if isinstance(text, int) else f"{key}: {text}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The run directory.", metavar="DIR")] = Path("runs/demo"),
    direction: Annotated[str, typer.Option(help="zh-en or en-zh.")] = "zh-en",
) -> None:
    """Train a small Chinese-English model, and show it at work. The corpus ships with the package."""
    from dragoman.demo import run_demo
    from dragoman.demo.show import DIRECTIONS

    if direction not in DIRECTIONS:
        raise typer.BadParameter(f"expected {' or '.join(DIRECTIONS)}", param_hint="--direction")
    raise typer.Exit(run_demo(out, direction=direction).exit_status)


def _config(
    out: Path, file: Path | None, settings: list[str] | None, files: dict[str, Any], training: dict[str, Any]
) -> TrainConfig:
    """A config file, then `--set`, then the named options."""
    from dragoman.config import make_config, merge, parse_assignments, read_toml

    def given(values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if value not in (None, [])}

    tree = merge(
        read_toml(file) if file is not None else {},
        parse_assignments(settings or []),
        {"out": str(out), "data": given(files), "training": given(training)},
    )
    return make_config(tree)


def _decoding(settings: list[str] | None, named: dict[str, Any]) -> dict[str, Any]:
    from dragoman.config import parse_assignments
    from dragoman.errors import ConfigError

    decoding = (tree := parse_assignments(settings or [])).pop("decoding", {})
    if tree:
        found = ", ".join(f"{section}.{key}" for section, values in tree.items() for key in values)
        raise ConfigError("only decoding settings can be changed here", found=found)
    return {**decoding, **{key: value for key, value in named.items() if value is not None}}


def _input_lines(path: Path | None) -> Iterator[str]:
    from dragoman.text import read_lines, scan_stream

    lines = scan_stream(cast(BufferedIOBase, sys.stdin.buffer), "standard input") if path is None else read_lines(path)
    return (line.text for line in lines)


def _output(path: Path | None, source: Path | None) -> Any:
    """The file or standard output as UTF-8 with LF line ends, whatever the locale says; never over the source."""
    from dragoman.errors import ConfigError

    if path is not None and source is not None and path.resolve() == source.resolve():
        raise ConfigError("the output would overwrite the input", file=path, hint="give another --output")
    target = sys.stdout.fileno() if path is None else path
    return open(target, "w", encoding="utf-8", newline="\n", closefd=path is not None)


def _print_json(value: object, indent: int | None = 2) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=indent))


def _silent(_: str) -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake is one message on standard error and an exit status, no traceback."""
    from dragoman.errors import DragomanError

    try:
        try:
            app(prog_name="dragoman")
        finally:
            sys.stdout.flush()
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        # What is left cannot be written: Python would try, and complain, again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Whoever read our output and has gone needs no message; a full disk or a forbidden place does.
        if not isinstance(error, BrokenPipeError):
            place = "" if error.filename is None else f"{error.filename}: "
            print(f"dragoman: {place}{error.strerror or error}", file=sys.stderr)
        raise SystemExit(1) from None
