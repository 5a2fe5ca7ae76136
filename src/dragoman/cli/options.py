"""What several verbs share: their options, how settings come together, where lines come from and go to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import typer

from dragoman.cli.packed import opened
from dragoman.pace import paced

if TYPE_CHECKING:
    from dragoman.config import DecodingConfig, TrainConfig
    from dragoman.text.lines import BadText
    from dragoman.translation import Translator

T = TypeVar("T")

Model = Annotated[Path, typer.Argument(help="A model: its directory, or one file.", metavar="MODEL", callback=opened)]
Source = Annotated[
    list[str] | None, typer.Option(help="Source lines; repeatable, .gz is read as it is.", metavar="FILE")
]
Target = Annotated[list[str] | None, typer.Option(help="Target lines, aligned with --source.", metavar="FILE")]
Pairs = Annotated[
    list[str] | None,
    typer.Option(help="Instead, or besides: pairs in .tsv, .csv, .jsonl, .tmx, .parquet; repeatable.", metavar="FILE"),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Which columns of --pairs are meant: source=2,target=3, or names of the first line, of .jsonl keys or of "
        "languages: source=German,target=English.",
        metavar="COLUMNS",
    ),
]
DevSource = Annotated[
    list[str] | None, typer.Option(help="Held-out sources; split off training if absent.", metavar="FILE")
]
DevTarget = Annotated[list[str] | None, typer.Option(help="Held-out targets.", metavar="FILE")]
DevPairs = Annotated[list[str] | None, typer.Option(help="Held-out pairs.", metavar="FILE")]
Text = Annotated[
    list[str] | None,
    typer.Option(help="For models of one text: lines, each a sequence; repeatable, .gz too.", metavar="FILE"),
]
DevText = Annotated[
    list[str] | None, typer.Option(help="Held-out lines; split off training if absent.", metavar="FILE")
]
Family = Annotated[
    str | None,
    typer.Option(
        help="transformer for pairs; for a text causal, masked, zeroth-order, first-order, second-order, skips, "
        "masked-skips or matrix-skips.  [default: transformer]"
    ),
]
SourceLanguage = Annotated[
    str | None, typer.Option(help="Two-letter code.  [default: the suffix of the files, if it is one]", metavar="CODE")
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--target-language", "--language", help="The same of the target, or of a text.", metavar="CODE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Engine = Annotated[str, typer.Option(help="How the model is run: auto, native, packed or module.")]
Precision = Annotated[str, typer.Option(help="Of products: auto, float32, int8 or bfloat16.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(help="More models that decide too; repeatable.", metavar="MODEL", callback=opened),
]
BeamSize = Annotated[
    int | None, typer.Option(help="Hypotheses kept, at most 1024; 1 is greedy search.  [default: the model's]")
]
LengthPenalty = Annotated[float | None, typer.Option(help="alpha of the length penalty.  [default: the model's]")]
Threads = Annotated[
    int | None, typer.Option(help="Processor threads that work at most.  [default: OMP_NUM_THREADS, or all]", min=1)
]
OnBadText = Annotated[
    Literal["stop", "replace", "skip"],
    typer.Option(
        help="What a line that is not UTF-8 does: stop; replace what is wrong in it by U+FFFD; skip, which leaves it "
        "empty, so that as many lines come out as go in."
    ),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
Tokenize = Annotated[
    str | None,
    typer.Option(
        help="sacreBLEU's tokenizer for BLEU: none where lines are tokens; spm and the like are downloaded by it.  "
        "[default: the language's]"
    ),
]
Config = Annotated[Path | None, typer.Option(help="A TOML file of settings.", metavar="FILE")]
DecodingSet = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any decoding setting, as key=value; repeatable.", metavar="KEY=VALUE"),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting, as key=value or section.key=value; repeatable.", metavar="KEY=VALUE"),
]


def make_settings(values: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of the config file, changed by `--set`, then by the named options.

    Args:
        values: the arguments of a verb by name; those that are settings of `data`, `model` or `training` have the
            settings' names. Prepared data take the place of files that the config file names.
    """
    from dragoman.config import SECTIONS, file_keys, make_config, merge, read_toml

    def given(section: str) -> dict[str, Any]:
        names = values.keys() & SECTIONS[section].settings.keys()
        return {name: values[name] for name in sorted(names) if values[name] not in (None, [])}

    file = read_toml(values["config"]) if values["config"] is not None else {}
    if values.get("prepared") and "data" in file:
        file["data"] = {key: value for key, value in file["data"].items() if key not in (*file_keys(), "repeat")}
    assigned = _assigned(values["settings"] or [])
    named = {section: given(section) for section in ("data", "model", "training")}
    for section, options in named.items():
        _check_once(assigned.get(section, {}), options)
    return make_config(merge(file, assigned, {"out": str(values["out"]), **named}))


def _assigned(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The values of `--set` as a tree of sections.

    Raises:
        ConfigError: one key has two values.
    """
    from dragoman.config import parse_assignments
    from dragoman.errors import ConfigError

    tree: dict[str, dict[str, Any]] = {}
    for one in settings:
        for section, values in parse_assignments([one]).items():
            for key, value in values.items():
                if tree.setdefault(section, {}).setdefault(key, value) not in (value,):  # nan != nan, but is in (nan,)
                    found = f"{tree[section][key]!r} and {value!r}"
                    raise ConfigError(f"{section}.{key} is given twice, and only one can count", found=found)
    return tree


def _check_once(assigned: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Refuse a setting that `--set` and an option of its own give different values.

    Raises:
        ConfigError: there is one.
    """
    from dragoman.errors import ConfigError

    for key in assigned.keys() & named.keys():
        if str(assigned[key]) != str(named[key]):
            found = f"--set {key}={assigned[key]} and {named[key]}"
            raise ConfigError(f"{key} is given twice, and only one can count", found=found)


def decoding_settings(settings: list[str] | None, named: dict[str, Any]) -> dict[str, Any]:
    """Return the decoding settings of `--set`, changed by the named options.

    Raises:
        ConfigError: another setting than one of decoding is among them.
    """
    from dragoman.errors import ConfigError

    tree: dict[str, dict[str, Any]] = {}
    if settings:  # without any, what reads them need not be imported
        tree = _assigned(settings)
    decoding = tree.pop("decoding", {})
    if tree:
        found = ", ".join(f"{section}.{key}" for section, values in tree.items() for key in values)
        raise ConfigError("only decoding settings can be changed here", found=found)
    options = {key: value for key, value in named.items() if value is not None}
    _check_once(decoding, options)
    return {**decoding, **options}


def open_translator(
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
    """Return the translator of one model or several; the search is changed by `--set`, then named options."""
    from dragoman.translation import Translator

    use_threads(threads)
    translator = Translator.from_pretrained(
        [model, *(ensemble or [])], device=device, engine=engine, precision=precision
    )
    return translator, translator.options(decoding_settings(settings, named))


def use_threads(count: int | None) -> None:
    """Let at most so many threads work: whatever is loaded from now on asks the environment.

    Raises:
        ConfigError: they are too many.
    """
    if count is None:
        return
    from dragoman.config import Placement

    Placement(threads=count)
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def input_lines(path: Path | None, output: Path | None = None, on_bad_text: BadText = "stop") -> Iterator[str]:
    """Yield the lines of a file, or of standard input; write to standard error now and then how many were used up.

    Args:
        path: the file; standard input if None.
        output: where what is made of them goes; standard output if None.
        on_bad_text: what becomes of a line that is not text; one that is skipped is empty.

    Raises:
        DataError: a line of the file is not text and must be: before any is used.
    """
    from dragoman.text.lines import check_text, count_lines, read_texts, stream_texts
    from dragoman.text.opening import is_stream

    if path is not None and str(path) != "-" and is_stream(path):
        return told(_pipe_lines(path, on_bad_text), "lines:", output=output)
    if path is None or str(path) == "-":
        stream = cast(BufferedIOBase, sys.stdin.buffer)
        lines = stream_texts(stream, "standard input", on_bad_text=on_bad_text, tell=tell)
        return lines if sys.stdin.isatty() else told(lines, "lines:", output=output)
    # A file that cannot be read is told now, not when the output has been emptied for it.
    total = check_text(path) if on_bad_text == "stop" else count_lines(path)
    return told(read_texts(path, on_bad_text=on_bad_text, tell=tell), "lines:", total, output=output)


def _pipe_lines(path: Path, on_bad_text: BadText) -> Iterator[str]:
    """Of a pipe, as they come."""
    from dragoman.errors import DataError
    from dragoman.text.lines import stream_texts

    try:
        with open(path, "rb") as stream:
            yield from stream_texts(stream, str(path), on_bad_text=on_bad_text, tell=tell)
    except OSError as error:
        raise DataError("cannot read the file", file=path, found=error.strerror or error) from error


def told(items: Iterable[T], what: str, total: int | None = None, *, output: Path | None = None) -> Iterator[T]:
    """Yield the same items, and write to standard error now and then how many were used up.

    Args:
        items: what is worked on.
        what: are counted.
        total: how many there are, if that is known.
        output: where what is made of them goes; standard output, None, shows it by itself if it is a terminal.
    """
    if output is None and sys.stdout.isatty():
        return iter(items)
    return paced(items, tell, what, total)


def tell(line: str) -> None:
    """Write a line to standard error at once; a reader who has gone away loses it, not the work."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        # What is left in the buffer would be written again when Python ends, which would fail with it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def argument_text(text: str) -> str:
    """Return a text from the command line, whose bytes are UTF-8 whatever the locale made of them.

    Raises:
        DataError: they are not.
    """
    from dragoman.errors import DataError

    try:
        return os.fsencode(text).decode()
    except UnicodeError as error:
        raise DataError("an argument is not text", expected="UTF-8", found=ascii(text)) from error


@contextmanager
def open_output(path: Path | None) -> Iterator[Any]:
    """Open a file (compressed as its name says) or standard output as UTF-8 with LF line ends, whatever the locale."""
    if path is None:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False) as stream:
            yield stream
        return
    from dragoman.text.opening import create_text

    with naming(path), create_text(path) as stream:
        yield stream


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have what the system says of a full disk or the like name the file that is written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def begun(items: Iterator[T], output: Path | None, source: Path | None) -> Iterator[T]:
    """Return the same items, the first made already: what is wrong is said before the output is opened.

    Args:
        items: what will be written.
        output: where to; standard output if None.
        source: what they are made of; standard input if None.

    Raises:
        ConfigError: the output is the input.
        OSError: it cannot be written.
    """
    from dragoman.errors import ConfigError

    if output is not None and source is None and _is_read(output):
        raise ConfigError("the output would overwrite the input", file=output, hint="give another --output")
    check_writable(output, [source], "--output")
    return chain(list(islice(items, 1)), items)


def check_not_among(path: Path | None, inputs: Sequence[Path | None], option: str) -> None:
    """Refuse to write over what is read.

    Raises:
        ConfigError: the file, given by `option`, is one of the inputs.
    """
    from dragoman.errors import ConfigError

    if path is not None and any(_are_same(path, one) for one in inputs if one is not None):
        raise ConfigError("the output would overwrite the input", file=path, hint=f"give another {option}")


def _are_same(path: Path, other: Path) -> bool:
    """Whether both are one file, by whatever name."""
    try:
        return path.samefile(other)
    except OSError:  # one is not there yet
        return path.resolve() == other.resolve()


def _is_read(path: Path) -> bool:
    """Whether standard input comes from this file; /dev/null, which may be both, is none."""
    with suppress(OSError, ValueError):
        return path.is_file() and os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    return False


def check_writable(path: Path | None, inputs: Sequence[Path | None], option: str) -> None:
    """Find out before the work, not after it, whether a file can be written; what it holds stays, none stays none.

    Raises:
        ConfigError: the file, given by `option`, is one of the inputs.
        OSError: it cannot be written.
    """
    check_not_among(path, inputs, option)
    if path is None or path.is_fifo():  # whoever reads the pipe would take this for all there is
        return
    there = path.exists()
    path.open("ab").close()
    if not there:
        path.unlink()


def check_directory(model: Path) -> None:
    """Find out before the work, not after it, whether a model directory can be changed.

    Raises:
        SaveError: it cannot.
    """
    from dragoman.errors import SaveError

    if model.is_dir() and not os.access(model, os.W_OK):
        raise SaveError("the model directory cannot be written to", file=model)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print JSON on standard output."""
    from dragoman.files import json_text

    print(json_text(value, indent=indent))
