"""Making pairs and judging a model, with the translating done by Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.bulk import tables
from dragoman.bulk.columns import Synthesize, Translate, column_of
from dragoman.bulk.on_ray import LOCAL, Cluster, batches, by_actors, by_actors_of_files, checked, connected
from dragoman.data.filtering import Counts
from dragoman.evaluation import Metric
from dragoman.pace import Pace, silent
from dragoman.studies.given import Answers, Texts, read_test_set
from dragoman.studies.judge import Evaluation, check_metrics, evaluate_outputs
from dragoman.studies.synthesis import FAULTS, MAX_RATIO, Maker

_SHIPPED = 10_000  # rows that come back at a time
_ASKED = 256  # sources of a test set that go out at a time


def synthesize(
    model: str | Path | Sequence[str | Path],
    source: str | Path,
    *,
    cluster: Cluster | str = LOCAL,
    kind: str = "back-translation",
    tag: str | None = None,
    max_ratio: float = MAX_RATIO,
    keep_copies: bool = False,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
    counts: Counts | None = None,
    report: Callable[[str], None] = silent,
) -> Iterator[tuple[str, str]]:
    """Translate a file of lines by Ray and make training pairs of them, as `dragoman.synthesize` does on one machine.

    Args:
        model: a run or model directory that every machine sees under this path; several as an ensemble.
        source: lines of the language that the model reads; .gz, .bz2, .xz and .zst are decompressed.
        cluster: where, with how many actors; or only its address.
        kind: back-translation, self-training or distillation.
        tag: put before each source with a blank; "" for none; the usual one of the kind if None.
        max_ratio: leave out pairs whose token counts differ by more than this factor.
        keep_copies: keep outputs that repeat their line.
        settings: of decoding by name.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        counts: filled in with lines read, kept, and dropped by reason.
        report: takes a line of progress now and then.

    Returns:
        (source, target) pairs, in the order of the lines, made as they are asked for.

    Raises:
        ConfigError: there is no such kind, or options contradict each other.
        DragomanError: Ray is not installed, not to be reached, or gave up.
    """
    cluster = Cluster.of(cluster)
    Maker.of(kind, tag, max_ratio, keep_copies)
    tables.check_columns([Path(source)], tables.JSONL, "", ())  # that it can be opened
    paths, _ = checked(model, {**(settings or {}), "n_best": 1})
    given = {"model": list(paths), "kind": kind, "tag": tag, "max_ratio": max_ratio, "keep_copies": keep_copies,
             "settings": dict(settings or {}), "device": device, "engine": engine, "precision": precision,
             "threads": cluster.threads}  # fmt: skip
    return _pairs(Path(source), cluster, device, given, Counts(unit="lines") if counts is None else counts, report)


def _pairs(
    source: Path, cluster: Cluster, device: str, given: Mapping[str, Any], counts: Counts, report: Callable[[str], None]
) -> Iterator[tuple[str, str]]:
    pace = Pace(report, "translated lines", None)
    with connected(cluster):
        rows = by_actors_of_files([source], tables.TEXT, [0], cluster, device, Synthesize, given)
        for table in batches(rows.drop_columns([tables.LINE]), _SHIPPED):
            columns = (column_of(table, name, ()) for name in ("source", "target", "problem"))
            for made, target, reason in zip(*columns, strict=True):
                counts.read += 1
                if reason:
                    counts.dropped[reason if reason in FAULTS else "unreadable"] += 1
                else:
                    counts.kept += 1
                    yield made, target
            pace.at(counts.read)


def evaluate(
    model: str | Path | Sequence[str | Path],
    source: Texts,
    references: Answers,
    *,
    cluster: Cluster | str = LOCAL,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    group: bool = False,
    settings: Mapping[str, Any] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    bootstrap: int = 1000,
    breakdown: bool = False,
    worst: int = 0,
    device: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
    report: Callable[[str], None] = silent,
) -> Evaluation:
    """Translate a test set by Ray and score the outputs, as `dragoman.evaluate` does on one machine.

    The breakdown is that of `dragoman.evaluate_outputs`: whether the search or the model is to blame is not told.

    Args:
        model: a run or model directory that every machine sees under this path; several as an ensemble.
        source: a file of sources, or the sources themselves.
        references: of a file, another file, line by line, or several; of sources, for each a text or several.
        cluster: where, with how many actors; or only its address.
        metrics: `dragoman.evaluation.Metric`s, or names of them; without a language they are in the model's own.
        group: lines with the same source are one item with several references.
        settings: of decoding by name.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        bootstrap: resampled test sets for the intervals.
        breakdown: also break the scores down.
        worst: also list so many sentences with the worst scores.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        report: takes a line of plain text now and then.

    Raises:
        DataError: a file cannot be read, or they have different numbers of lines.
        ConfigError: a metric is unknown, options contradict each other, or the model has no such language.
        DragomanError: Ray is not installed, not to be reached, or gave up.
    """
    from dragoman.translation import Translator

    cluster = Cluster.of(cluster)
    sources, answers = read_test_set(source, references, group=group, report=report)
    paths, _ = checked(model, settings, (source_language, target_language))
    asked = {"source_language": source_language, "target_language": target_language}
    metrics = check_metrics(metrics, Translator.from_pretrained(paths[0], **asked).languages.target)
    given = {"model": list(paths), "settings": dict(settings or {}), "device": device, "engine": engine,
             "precision": precision, "threads": cluster.threads, **asked}  # fmt: skip
    outputs = _outputs(sources, cluster, device, given, report)
    return evaluate_outputs(
        outputs, answers, sources, metrics=metrics, bootstrap=bootstrap, breakdown=breakdown, worst=worst, report=report
    )


def _outputs(
    sources: Sequence[str], cluster: Cluster, device: str, given: Mapping[str, Any], report: Callable[[str], None]
) -> list[str]:
    """A translation for each source; one that has none is told."""
    if not sources:
        return []
    outputs: list[str] = []
    with connected(cluster):
        import pyarrow

        blocks = [sources[first : first + _ASKED] for first in range(0, len(sources), _ASKED)]
        asked = [pyarrow.table({"text": pyarrow.array(block, pyarrow.string())}) for block in blocks]
        rows = by_actors(import_module("ray.data").from_arrow(asked), cluster, device, Translate, given)
        for table in batches(rows, _SHIPPED):
            for line, reason in enumerate(column_of(table, "problem", ()), len(outputs) + 1):
                if reason:
                    report(f"source {line:,} has no translation: {reason}")
            outputs += column_of(table, "translation", ())
    return outputs
