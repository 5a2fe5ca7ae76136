"""Verbs that judge and describe: evaluate, compare, info."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.bulk import Ray, Workers, check_alone, check_ray, cluster_of
from dragoman.cli.decoding import Read, Written
from dragoman.cli.metrics import Metrics, OneMetric, metric_of, metrics_of
from dragoman.cli.options import (
    BeamSize,
    DecodingSet,
    Device,
    Engine,
    Ensemble,
    Json,
    LengthPenalty,
    Lowercase,
    Model,
    OnBadText,
    Precision,
    Threads,
    Tokenize,
    check_writable,
    decoding_settings,
    naming,
    open_translator,
    print_json,
    tell,
)
from dragoman.cli.packed import fetched

if TYPE_CHECKING:
    from dragoman.ray import Cluster
    from dragoman.studies import Evaluation

Breakdown = Annotated[
    bool, typer.Option("--breakdown", help="Also by length, unknown pieces and rare words; count faulty outputs.")
]
Report = Annotated[Path | None, typer.Option(help="Also write all this here, as Markdown.", metavar="FILE")]
_AIDS = {"datastore": "with its datastore", "right to left": "ranked from right to left too"}
Language = Annotated[
    str | None, typer.Option(help="Two-letter code of the target language.  [default: the model's, or the suffix]")
]
Outputs = Annotated[
    Path | None,
    typer.Option(
        help="Score these lines, wherever they come from (- is standard input); no model is run.", metavar="FILE"
    ),
]
_STDIN = "/dev/stdin"


def evaluate(
    reference: Annotated[list[Path], typer.Option(help="Reference lines; repeatable.", metavar="FILE")],
    model: Annotated[
        Path | None,
        typer.Argument(help="A run or model directory; none with --outputs.", metavar="[MODEL]", callback=fetched),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source lines.", metavar="FILE")] = None,
    outputs: Outputs = None,
    metric: Metrics = None,
    group: Annotated[
        bool, typer.Option("--group", help="Lines with one source are one item, any answer right.")
    ] = False,
    breakdown: Breakdown = False,
    worst: Annotated[int, typer.Option(min=0, help="List so many sentences with the worst scores.")] = 0,
    report: Report = None,
    hypotheses: Annotated[Path | None, typer.Option(help="Also write the outputs here.", metavar="FILE")] = None,
    ensemble: Ensemble = None,
    beam_size: BeamSize = None, length_penalty: LengthPenalty = None,
    source_language: Read = None, target_language: Written = None,
    language: Language = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    on_bad_text: OnBadText = "stop",
    settings: DecodingSet = None,
    device: Device = "auto", engine: Engine = "auto", precision: Precision = "auto",
    threads: Threads = None,
    ray: Ray = None, workers: Workers = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Translate a test set and score the outputs. Each score comes with its interval and signature."""
    from dragoman.studies import evaluate_outputs

    metrics = metrics_of(metric or ["bleu,chrf"], language, lowercase, tokenize)
    chosen: dict[str, Any] = {"metrics": metrics, "group": group, "breakdown": breakdown, "worst": worst}
    chosen |= {"on_bad_text": on_bad_text, "report": tell}
    named = {"beam_size": beam_size, "length_penalty": length_penalty}
    asked = {"source_language": source_language, "target_language": target_language}
    how: dict[str, Any] = {"engine": engine, "device": device, "precision": precision, "threads": threads}
    _check_what_to_score(model, source, outputs)
    check_alone(ray, workers)
    if outputs is not None:
        _check_no_search(
            {"hypotheses": hypotheses, "ensemble": ensemble, "set": settings, "ray": ray, **named, **asked, **how}
        )
    for file, option in ((hypotheses, "--hypotheses"), (report, "--report")):
        check_writable(file, [*reference, source, outputs, hypotheses if option == "--report" else None], option)
    if outputs is not None:
        name, read = ("standard input", _STDIN) if outputs == Path("-") else (str(outputs), outputs)
        return _show(evaluate_outputs(read, reference, source, **chosen), name, report, as_json)
    assert model is not None
    assert source is not None
    models, search = [model, *(ensemble or [])], {"settings": settings, "named": named}
    if ray is None:
        result = _here(models, source, reference, search, how, {**chosen, **asked, "lowercase": lowercase})
    else:
        chosen |= asked
        result = _by_ray(models, source, reference, cluster_of(ray, workers, threads), search, how, chosen)
    if hypotheses is not None:
        _write_lines(hypotheses, result.hypotheses)
    return _show(result, " + ".join(map(str, models)), report, as_json)


def _here(
    models: Sequence[Path],
    source: Path,
    reference: Sequence[Path],
    search: dict[str, Any],
    how: dict[str, Any],
    chosen: dict[str, Any],
) -> Evaluation:
    from dragoman.studies import evaluate, training_words

    translator, options = open_translator(models[0], list(models[1:]), **search, **how)
    lowercase = chosen.pop("lowercase")
    if chosen["breakdown"]:
        chosen["frequencies"] = training_words(models[0], translator.tokenizers.target, lowercase=lowercase)
    return evaluate(translator, source, reference, decoding=options, **chosen)


def _by_ray(
    models: Sequence[Path],
    source: Path,
    reference: Sequence[Path],
    cluster: Cluster,
    search: dict[str, Any],
    how: dict[str, Any],
    chosen: dict[str, Any],
) -> Evaluation:
    from dragoman.ray import evaluate

    check_ray({"--on-bad-text": chosen.pop("on_bad_text") != "stop"})
    placed = {name: value for name, value in how.items() if name != "threads"}
    return evaluate(
        models, source, reference, cluster=cluster, settings=decoding_settings(**search), **placed, **chosen
    )


def compare(
    first: Annotated[Path, typer.Argument(help="Outputs of one system.", metavar="FIRST")],
    second: Annotated[Path, typer.Argument(help="Outputs of another.", metavar="SECOND")],
    reference: Annotated[Path, typer.Option(help="Reference lines.", metavar="FILE")],
    source: Annotated[
        Path | None, typer.Option(help="Source lines or recordings, for --breakdown.", metavar="FILE")
    ] = None,
    metric: OneMetric = None,
    breakdown: Breakdown = False,
    worst: Annotated[
        int, typer.Option(min=0, help="List so many sentences where either is furthest ahead of the other.")
    ] = 0,
    report: Report = None,
    language: Language = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    on_bad_text: OnBadText = "stop",
    as_json: Json = False,
) -> None:
    """Test whether two outputs differ by more than luck. Paired bootstrap and approximate randomisation."""
    from dragoman.evaluation import compare as run_comparison
    from dragoman.evaluation import contrast
    from dragoman.evaluation.fitting import resolved
    from dragoman.evaluation.report import comparison_report, contrast_tables, leads_text
    from dragoman.studies.judge import check_outputs
    from dragoman.studies.listening import seconds_of
    from dragoman.text import guess_language, read_texts

    check_writable(report, [first, second, reference, source], "--report")
    read = partial(read_texts, on_bad_text=on_bad_text, tell=tell)
    one, other, right = (list(read(path)) for path in (first, second, reference))
    for path, lines in ((first, one), (second, other)):
        check_outputs(lines, right, file=path)
    sources = None if source is None else list(read(source))
    asked = metric_of(metric, language, lowercase, tokenize)
    how, why = resolved(asked.in_language(guess_language([str(reference)])), right)
    if why:
        tell(why)
    result = run_comparison(one, other, right, how)
    parts = None
    if breakdown or worst or report is not None:
        seconds = None if source is None else seconds_of(source, sources or [])
        parts = contrast(one, other, right, sources, how, seconds=seconds, count=worst)
    if report is not None and parts is not None:
        with naming(report):
            report.write_text(comparison_report(result, parts), encoding="utf-8", newline="\n")
    if as_json:
        return print_json({**result.to_dict(), **({} if parts is None else {"breakdown": parts.to_dict()})})
    print(result)
    if parts is not None and breakdown:
        print("", *(f"{table.to_text()}\n" for table in contrast_tables(parts)), sep="\n", end="")
    if parts is not None and worst:
        print("", leads_text(parts), sep="\n")
    return None


def _check_what_to_score(model: Path | None, source: Path | None, outputs: Path | None) -> None:
    from dragoman.errors import ConfigError

    if (model is None) == (outputs is None):
        found = "neither" if model is None else "both"
        raise ConfigError("give a model, or --outputs", found=found, hint="a model is a run or model directory")
    if model is not None and source is None:
        raise ConfigError("a model needs sources", expected="--source")


def _check_no_search(chosen: Mapping[str, object]) -> None:
    from dragoman.errors import ConfigError

    if found := [f"--{name.replace('_', '-')}" for name, value in chosen.items() if value not in (None, [], "auto")]:
        raise ConfigError("without a model, this option has no effect", found=f"--outputs and {', '.join(found)}")


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    from dragoman.search.outputs import one_line

    with naming(path):
        path.write_text("".join(one_line(text) + "\n" for text in lines), encoding="utf-8", newline="\n")


def _show(result: Evaluation, name: str, report: Path | None, as_json: bool) -> None:
    """Scores and what else was asked for, on standard output and, if asked for, as a report that names the system."""
    from dragoman.evaluation.report import breakdown_tables, markdown_report, worst_text

    if report is not None:
        page = markdown_report(result.scores, result.breakdown, result.worst, system=_described(result, name))
        with naming(report):
            report.write_text(page, encoding="utf-8", newline="\n")
    if as_json:
        return print_json({"system": name, **result.to_dict()})
    print(*result.scores, sep="\n")
    for table in [] if result.breakdown is None else breakdown_tables(result.breakdown):
        print("", table.to_text(), sep="\n")
    if result.worst is not None:
        print("", worst_text(result.worst), sep="\n")
    return None


def _described(result: Evaluation, name: str) -> str:
    """The system behind the scores: its name, and of a model the search and the engine."""
    search = result.decoding
    if search is None:
        return name
    if search.sampling:
        how = f"sampling with seed {search.sampling_seed}"
    else:
        how = f"beam {search.beam_size}, length penalty {search.length_penalty:g} ({search.length_penalty_formula})"
    return ", ".join([f"{name}: {how}", *map(_AIDS.__getitem__, result.aids), f"engine {result.engine}"])


def info(model: Model, as_json: Json = False) -> None:
    """Tell what a run or model directory holds. How far it is, how good, shape, engine, what to give away."""
    from dragoman.errors import escaped
    from dragoman.training import info as describe

    found = describe(model)
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        if isinstance(value, dict) and value:
            print(f"{key}:")
            for name, entry in value.items():
                print(f"  {escaped(str(name))} = {escaped(str(entry))}")
        else:
            text = ", ".join(value) or "none" if isinstance(value, (dict, list)) else value
            print(f"{key}: {text:,}" if isinstance(text, int) else f"{key}: {escaped(str(text))}")
    if found["needed"]:
        print(f"to give it away: dragoman bundle {escaped(shlex.quote(str(model)))} --out DIR")
