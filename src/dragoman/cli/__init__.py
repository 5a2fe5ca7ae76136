"""The command line: each verb parses, calls one public function, and prints.

Everything heavy is imported inside the verb that needs it, so that `dragoman --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from dragoman.cli.cleaning import clean
from dragoman.cli.decoding import complete, score, translate
from dragoman.cli.explain import explain
from dragoman.cli.exporting import bundle, export, pack, push, quantize
from dragoman.cli.importing import import_model
from dragoman.cli.inspecting import inspect
from dragoman.cli.judging import compare, evaluate, info
from dragoman.cli.listening import transcribe
from dragoman.cli.looking import plot, settings
from dragoman.cli.serving import serve
from dragoman.cli.training import average, demo, merge, prepare, train
from dragoman.cli.tuning import remember, synthesize, tune
from dragoman.cli.verb import Verb

VERBS = (
    train, prepare, clean, translate, transcribe, evaluate, compare, tune, remember, synthesize, score, complete,
    explain, inspect, average, merge, info, plot, bundle, import_model, export, pack, push, quantize, settings, serve,
    demo,
)  # fmt: skip


def make_app(verbs: Sequence[Callable[..., None]] = VERBS) -> typer.Typer:
    """Return the command line with all its verbs, or some of them."""
    app = typer.Typer(
        name="dragoman",
        help="Train, run, judge and see through the encoder-decoder Transformer.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)  # without one a verb alone would be the whole command
    for verb in verbs:
        app.command(name_of(verb), cls=Verb)(verb)
    return app


def name_of(verb: Callable[..., None]) -> str:
    """Return how a verb is called on the command line: one that is a word of Python names its object too."""
    return verb.__name__.removesuffix("_model")


def _print_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"dragoman {version('dragoman')}")
        raise typer.Exit
    return wanted


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake is one message on standard error and an exit status, no traceback."""
    from dragoman.errors import DragomanError

    _fill_closed_streams()
    _let_threads_sleep()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)  # whatever the locale says
    try:
        try:
            # The options of the other verbs take longer to set up than a sentence to translate.
            named = [verb for verb in VERBS if name_of(verb) in sys.argv[1:2]]
            make_app(named or VERBS)(prog_name="dragoman")
        finally:
            sys.stdout.flush()
    except DragomanError as error:
        told, status = True, error.exit_code
        if "RANK" in os.environ:  # one of several processes of a training
            from dragoman.distributed.torchrun import leave_status

            told, status = leave_status(error)
        if told:
            print(f"dragoman: {error}", file=sys.stderr)
        raise SystemExit(status) from None
    except (MemoryError, RuntimeError) as error:
        # PyTorch's words on the CPU and on a GPU; an illegal access of memory is our mistake and keeps its traceback.
        too_little = "DefaultCPUAllocator: " in str(error) or "out of memory" in str(error)
        if not (too_little or isinstance(error, MemoryError)):
            raise
        hint = "give shorter lines or fewer at once (--buffer), or take a smaller model"
        if sys.argv[1:2] == ["train"]:
            hint = "lower training.batch_tokens and raise training.accumulate as much, or take a smaller model"
        print(f"dragoman: there is too little memory\n  to do:    {hint}", file=sys.stderr)
        raise SystemExit(1) from None
    except OSError as error:
        # What is left cannot be written: Python would try, and complain, again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Whoever read our output and has gone needs no message; a full disk or a forbidden place does.
        if not isinstance(error, BrokenPipeError):
            place = "" if error.filename is None else f"{error.filename}: "
            print(f"dragoman: {place}{error.strerror or error}", file=sys.stderr)
        raise SystemExit(1) from None


def _let_threads_sleep() -> None:
    """PyTorch's threads that wait for each other sleep after a short while; what is set outside stands.

    By themselves they spin for long, many times in a step. Where another program has a core, they spin on the one that
    is left, and the thread that they wait for waits for them (`benchmarks/bench_waiting.py`).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # read by libgomp when PyTorch loads it


def _fill_closed_streams() -> None:
    """Standard streams that were closed: nothing comes from them, and nothing can be written, which is then told.

    A file that is opened later would else get their number, and our output with it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # For reading only: whoever writes hears that he cannot. Of messages nobody would.
            place = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if place != number:
                os.dup2(place, number)
                os.close(place)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
