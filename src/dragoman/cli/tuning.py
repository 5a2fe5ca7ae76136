"""Verbs that make more of a model: tune, remember, synthesize."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dragoman.cli.bulk import Ray, Workers, check_alone, check_ray, cluster_of, whole
from dragoman.cli.metrics import OneMetric, metric_of
from dragoman.cli.options import (
    BeamSize,
    Columns,
    DecodingSet,
    Device,
    Engine,
    Ensemble,
    Json,
    Lowercase,
    Model,
    OnBadText,
    Pairs,
    Precision,
    Source,
    Target,
    Threads,
    Tokenize,
    argument_text,
    begun,
    check_directory,
    decoding_settings,
    input_lines,
    open_output,
    open_translator,
    print_json,
    tell,
)
from dragoman.pace import silent

if TYPE_CHECKING:
    from dragoman.config import DecodingConfig

T = TypeVar("T")
_OfDirection = Annotated[str | None, typer.Option(help="Of the right-to-left direction, likewise.", metavar="LIST")]
_OfFrames = Annotated[str | None, typer.Option(help="Of what is read off frames of sound, likewise.", metavar="LIST")]


def tune(
    model: Model,
    source: Annotated[Path, typer.Option(help="Held-out source lines.", metavar="FILE")],
    reference: Annotated[list[Path], typer.Option(help="Reference lines; repeatable.", metavar="FILE")],
    metric: OneMetric = None,
    group: Annotated[
        bool, typer.Option("--group", help="Lines with one source are one item, any answer right.")
    ] = False,
    beam_sizes: Annotated[str, typer.Option(help="To try, separated by commas.", metavar="LIST")] = "1,2,4,8",
    length_penalties: Annotated[
        str, typer.Option(help="alphas to try with each beam.", metavar="LIST")
    ] = "0,0.4,0.8,1.2,1.6",
    formulas: Annotated[str, typer.Option(help="Some of gnmt, power, reward.", metavar="LIST")] = "gnmt",
    knn_weights: Annotated[
        str | None, typer.Option(help="Of a datastore, to try with each of these.", metavar="LIST")
    ] = None,
    right_to_left_weights: _OfDirection = None,
    ctc_weights: _OfFrames = None,
    save: Annotated[bool, typer.Option("--save", help="Make the best search the model's own.")] = False,
    ensemble: Ensemble = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    on_bad_text: OnBadText = "stop",
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Find the best search on held-out lines. Beam sizes, length penalties and shares are tried, each in full."""
    from dragoman.studies import save_decoding
    from dragoman.studies import tune as run_tuning
    from dragoman.training.card import retell_search

    tried: dict[str, Any] = {
        "metric": metric_of(metric, None, lowercase, tokenize),
        "on_bad_text": on_bad_text,
        "beam_sizes": _listed(beam_sizes, int, "--beam-sizes"),
        "length_penalties": _listed(length_penalties, float, "--length-penalties"),
        "formulas": _listed(formulas, str, "--formulas"),
        "knn_weights": _listed(knn_weights, float, "--knn-weights"),
        "right_to_left_weights": _listed(right_to_left_weights, float, "--right-to-left-weights"),
        "ctc_weights": _listed(ctc_weights, float, "--ctc-weights"),
    }
    how: dict[str, Any] = {"device": device, "engine": engine, "precision": precision, "threads": threads}
    translator, options = open_translator(model, ensemble, settings, {}, **how)
    if save:
        check_directory(model)
    result = run_tuning(translator, source, reference, group=group, decoding=options, report=tell, **tried)
    if save:
        outputs = min(translator.decoding.n_best, result.best.decoding.beam_size)  # one each was tried
        save_decoding(model, result.best.decoding.replace({"n_best": outputs}))
        retell_search(model, result.best)
    if as_json:
        print_json({**result.to_dict(), "saved": save})
        return
    print(*result.lines(), sep="\n")
    what = "saved" if save else "kept" if result.all_equal else "best"
    print(f"{what}:", _settings_of(result.best.decoding, translator.decoding))


def _settings_of(best: DecodingConfig, own: DecodingConfig) -> str:
    """What was tried of a search, and what else is not the model's own."""
    from dragoman.studies.tuning import TUNED

    values, before = best.to_dict(none=False), own.to_dict(none=False)
    changed = [name for name, value in values.items() if name not in {*TUNED, "n_best"} and value != before.get(name)]
    return ", ".join(f"{name} = {values[name]}" for name in (*TUNED, *changed) if name in values)


def remember(
    model: Model,
    source: Source = None,
    target: Target = None,
    pairs: Pairs = None,
    columns: Columns = None,
    dev_source: Annotated[
        list[str] | None,
        typer.Option(
            help="Held-out sources, which tell how much to heed what is remembered.  [default: the run's]",
            metavar="FILE",
        ),
    ] = None,
    dev_target: Annotated[list[str] | None, typer.Option(help="Held-out targets.", metavar="FILE")] = None,
    add: Annotated[bool, typer.Option("--add", help="Keep what is remembered already.")] = False,
    on_bad_text: OnBadText = "stop",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Let a model look up known pairs while it translates. Those of its training, or others: nothing is learned anew.

    They become `datastore.safetensors` in the model directory, which is searched from then on.
    """
    from dragoman.training import remember as run_remembering

    check_directory(model)
    made = run_remembering(
        model,
        source=source or (),
        target=target or (),
        pairs=pairs or (),
        dev_source=dev_source or (),
        dev_target=dev_target or (),
        add=add,
        device=device,
        on_bad_text=on_bad_text,
        columns=columns,
        report=silent if as_json else print,
    )
    if as_json:
        print_json({"tokens": len(made), "pairs": made.pairs, "dimensions": made.states.shape[1]})


def synthesize(
    model: Model,
    output: Annotated[Path, typer.Option(help="The pairs: .tsv or .jsonl.", metavar="FILE")],
    input_: Annotated[
        Path | None, typer.Option("--input", help="Lines to translate.  [default: standard input]", metavar="FILE")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="back-translation (outputs become sources), self-training or distillation.")
    ] = "back-translation",
    tag: Annotated[
        str | None, typer.Option(help='Put before each source.  [default: <bt>, <st>, or for distillation none: ""]')
    ] = None,
    max_ratio: Annotated[float, typer.Option(help="Drop pairs more unequal than this in tokens.", min=1)] = 3.0,
    keep_copies: Annotated[bool, typer.Option("--keep-copies", help="Keep outputs that repeat their line.")] = False,
    ensemble: Ensemble = None,
    beam_size: BeamSize = None,
    sampling: Annotated[bool, typer.Option("--sampling", help="Draw outputs instead of searching.")] = False,
    on_bad_text: OnBadText = "stop",
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    ray: Ray = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Make training pairs from text of one language. What became of the lines is told at the end."""
    from dragoman.data.filtering import Counts
    from dragoman.studies.synthesis import synthesize as run_synthesis

    row = _layout(output)
    _check_tag(tag or "")
    named = {"beam_size": beam_size, "sampling": sampling or None, "n_best": 1}
    how = {"device": device, "engine": engine, "precision": precision}
    counts = Counts(unit="lines")
    chosen: dict[str, Any] = {"kind": kind, "tag": None if tag is None else argument_text(tag), "max_ratio": max_ratio}
    chosen |= {"keep_copies": keep_copies, "counts": counts}
    check_alone(ray, workers)
    if ray is None:
        translator, options = open_translator(model, ensemble, settings, named, **how, threads=threads)
        pairs = run_synthesis(translator, input_lines(input_, output, on_bad_text), decoding=options, **chosen)
    else:
        from dragoman.ray import synthesize as by_ray

        check_ray({"--on-bad-text replace": on_bad_text == "replace"})
        pairs = by_ray(
            [model, *(ensemble or [])], whole(input_, "--input"), cluster=cluster_of(ray, workers, threads),
            settings=decoding_settings(settings, named), report=tell, **how, **chosen,
        )  # fmt: skip
    made = begun(pairs, output, input_)
    with open_output(output) as stream:
        for source, target in made:
            stream.write(row(source, target) + "\n")
    print_json(counts.to_dict()) if as_json else print(counts)


def _check_tag(tag: str) -> None:
    from dragoman.errors import ConfigError

    if any(separator in tag for separator in "\t\n\r"):
        raise ConfigError("this cannot be a tag", expected="no TAB, no end of a line", found=repr(tag))


def _layout(path: Path) -> Callable[[str, str], str]:
    """How a pair is written to a file.

    Raises:
        ConfigError: its suffix does not tell.
    """
    from dragoman.errors import ConfigError
    from dragoman.files import json_text

    if path.suffix == ".tsv":
        return "{}\t{}".format
    if path.suffix == ".jsonl":
        return lambda source, target: json_text({"source": source, "target": target})
    raise ConfigError("the suffix does not tell the format", file=path, expected=".tsv or .jsonl")


def _listed(text: str | None, kind: Callable[[str], T], option: str) -> list[T]:
    """The members of a list with commas; none of a list that was not given.

    Raises:
        ConfigError: one of them is none of its kind, or there is none.
    """
    from dragoman.errors import ConfigError

    if text is None:
        return []
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise ConfigError(f"{option} is a list of numbers with commas", found=text) from error
    if not values:
        raise ConfigError(f"{option} is empty", expected="one value or more")
    return values
