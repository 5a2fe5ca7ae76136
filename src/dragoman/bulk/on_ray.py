"""Bulk translation on many machines by Ray Data: autoscaling actors with a model each, results in order, resumable.

Ray reads, distributes, retries and scales; the driver only writes what comes, part by part, as `translate_file` of this
room does. Needs the extra `ray`, which is imported when it is first used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings, simplefilter

from dragoman.bulk import tables
from dragoman.bulk.columns import column_of
from dragoman.bulk.parts import BulkResult, Parts, Problem
from dragoman.bulk.running import TRIES, Job, check_places, plan_of
from dragoman.config import DecodingConfig, Placement
from dragoman.errors import ConfigError
from dragoman.pace import Pace, silent
from dragoman.workers.cluster import LOCAL, Cluster, joined, ray_package

if TYPE_CHECKING:
    import pyarrow

_BATCH = 2048  # rows that an actor translates at a time: enough for full batches of like length
_BLOCK_BYTES = 64 << 10  # of what Ray hands on: small, so that a short file keeps many actors busy too
_PLAIN = {"scores": False, "as_json": False}  # columns of lines, as the command line has them


def translate_file(
    model: str | Path | Sequence[str | Path],
    source: str | Path, output: str | Path,
    *,
    cluster: Cluster | str = LOCAL,
    columns: tuple[str, str] = ("text", "translation"),
    part_lines: int = 10_000, scores: bool = False,
    settings: Mapping[str, Any] | None = None, prefix: str = "",
    source_language: str | None = None, target_language: str | None = None,
    device: str = "auto", engine: str = "auto", precision: str = "auto",
    report: Callable[[str], None] = silent,
) -> BulkResult:  # fmt: skip
    """Translate a file of any length by Ray: lines, JSON objects or Parquet; N rows come out for N rows, in order.

    Tables keep all their columns, and get the translation and the reason where there is none (`problem`). The same call
    again goes on where an earlier one stopped. Of an actor that dies, what it was at is done again.

    Args:
        model: a run or model directory that every machine sees under this path; several as an ensemble.
        source: lines, .jsonl, .parquet or a folder of .parquet files; lines may be compressed.
        output: a folder of parts like the source, if the name has no suffix, else one file.
        cluster: where, with how many actors; or only its address.
        columns: of texts and of translations; the first counts for tables and JSON objects only.
        part_lines: rows of a part.
        scores: add a column `score`; not of lines.
        settings: of decoding by name.
        prefix: what every output must begin with.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        report: takes a line of progress now and then.

    Raises:
        ConfigError: options contradict each other, the output is something else, or the model has no such language.
        DataError: the source cannot be read, is damaged, or lacks the column.
        ModelError: there is no such model.
        DragomanError: Ray is not installed, not to be reached, or gave up.
    """
    source, output = Path(source), Path(output)
    cluster = Cluster.of(cluster)
    files, read = tables.files_of(source), tables.kind_of(source)
    name, target, made = _layout(files, read, output, columns, scores, part_lines)
    new = (target, "problem", *(["score"] if scores else []))
    asked = (source_language, target_language)
    paths, options = checked(model, settings, asked)
    job = Job(paths, options, Placement(device, engine, precision, cluster.threads), prefix, languages=asked)
    plan = _plan(job, source, files, part_lines, {"of": name, "made": list(new)} if made != tables.TEXT else _PLAIN)
    parts = Parts(output if not output.suffix else output.with_name(output.name + ".parts"), plan, made)
    given = {"model": list(paths), "source": name, "target": target, "score": "score" if scores else None,
             "settings": dict(settings or {}), "prefix": prefix, "device": device, "engine": engine,
             "precision": precision, "threads": cluster.threads, "source_language": source_language,
             "target_language": target_language}  # fmt: skip
    run, opened = _Writing(parts, read, target, part_lines, report), tables.TranslateFile
    with connected(cluster):
        how = {"kind": read, "keep": made != tables.TEXT, "given": given}
        rows = by_actors_of_files(files, read, run.rows_kept(files), cluster, device, opened, how)
        run.through(batches(rows, part_lines))
    return run.result(output, files[0], (name, *new))


def _layout(
    files: Sequence[Path], read: str, output: Path, columns: tuple[str, str], scores: bool, part_lines: int
) -> tuple[str, str, str]:
    """The columns of texts and translations, and the suffix of the parts; what cannot be is refused."""
    check_places(files[0], output, None, part_lines)
    made = tables.check_layout(read, output)
    name, target = columns if read != tables.TEXT else (tables.LINE, columns[1])
    if made == tables.TEXT and scores:
        raise ConfigError(
            "an output of lines has no column of scores", found="scores", hint="give an --output that ends in .jsonl"
        )
    tables.check_columns(files, read, name, [target, "problem", *(["score"] if scores else [])])
    return name, target, made


def _plan(
    job: Job, source: Path, files: Sequence[Path], part_lines: int, columns: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """What parts depend on; of lines as `dragoman.bulk` has it, so that either goes on with what the other began."""
    plan = {**plan_of(job, files[0], part_lines), "columns": columns}
    if source.is_dir():
        told = [file.stat() for file in files]
        plan |= {"source": source.name, "bytes": sum(one.st_size for one in told), "files": len(files)}
        plan["modified"] = max(one.st_mtime_ns for one in told)
    return plan


class _Writing:
    """Writes rows part by part, in their order: what is done is always a beginning."""

    def __init__(self, parts: Parts, read: str, target: str, part_lines: int, report: Callable[[str], None]) -> None:
        self.parts, self.read, self.target, self.part_lines = parts, read, target, part_lines
        self.count = next(number for number in count() if not parts.is_done(number))
        self.lines = self.kept = 0
        self._pace = Pace(report, "translated lines", None)

    def rows_kept(self, files: Sequence[Path]) -> list[int]:
        """How many rows of each file are in parts that are done."""
        left, skipped = self.count * self.part_lines, []
        for file in files:
            rows = tables.count_rows(file, self.read)
            skipped.append(left if rows is None else min(left, rows))
            left -= skipped[-1]
        if self.count:  # the last part may be shorter
            last = tables.count_of_part(self.parts.file(self.count - 1), self.parts.suffix)
            self.kept = self.lines = (self.count - 1) * self.part_lines + last
        return skipped

    def through(self, rows: Iterator[pyarrow.Table]) -> None:
        for table in rows:
            reasons = enumerate(column_of(table, "problem", ()), self.lines + 1)
            problems = [Problem(number, reason) for number, reason in reasons if reason]
            data = tables.part_bytes(table, self.read, self.parts.suffix, self.target)
            self.parts.write(self.count, data, problems)
            self.count, self.lines = self.count + 1, self.lines + table.num_rows
            self._pace.at(self.lines - self.kept)

    def result(self, output: Path, source: Path, names: Sequence[str]) -> BulkResult:
        problems = [one for number in range(self.count) for one in self.parts.problems(number)]
        if output.suffix:
            table = self.parts.suffix == tables.PARQUET and not self.count
            empty = tables.empty_schema(source, self.read, names[0], names[1:]) if table else None
            tables.join(self.parts, self.count, output, empty)
        return BulkResult(output, self.lines, self.kept, tuple(problems))


def checked(
    model: str | Path | Sequence[str | Path],
    settings: Mapping[str, Any] | None,
    languages: tuple[str | None, str | None] = (None, None),
) -> tuple[tuple[str, ...], DecodingConfig]:
    """Return the whole paths of models, and the search: what is wrong with either is told here, not by an actor.

    Args:
        model: its directory, or several.
        settings: of decoding by name.
        languages: of source and target, of a model for many; None: those of its import.

    Raises:
        ConfigError: options contradict each other, or the model has no such language.
        ModelError: there is no such model.
    """
    from dragoman.translation import Translator

    models = [model] if isinstance(model, (str, Path)) else list(model)
    opened = Translator.from_pretrained(models, source_language=languages[0], target_language=languages[1])
    opened.tokenizers.check_reads()
    return tuple(os.path.abspath(one) for one in models), opened.options(dict(settings or {}))


@contextmanager
def connected(cluster: Cluster) -> Generator[Any, None, None]:
    """Have Ray and its datasets at hand, quietly; see `joined`.

    Raises:
        DragomanError: it is not installed, not to be reached, or gave up at a task.
    """
    data = ray_package("ray.data")
    with joined(cluster) as ray:
        context = data.DataContext.get_current().copy()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.target_max_block_size = _BLOCK_BYTES
        context.execution_options.preserve_order = True
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what goes wrong is told once, by us
        with data.DataContext.current(context), catch_warnings():
            # Reading is one task for each file, and hands on many blocks.
            filterwarnings("ignore", "The minimum number of concurrent actors", UserWarning)
            yield ray


def by_actors_of_files(
    files: Sequence[Path], kind: str, skip: Sequence[int], cluster: Cluster, device: str, made: type,
    given: Mapping[str, Any],
) -> Any:  # fmt: skip
    """Return a dataset of the rows of files, mapped by actors.

    Args:
        files: read in their order, each by one task.
        kind: what they hold.
        skip: rows to leave out at the beginning of each.
        cluster: as for `by_actors`, as are the rest.
        device: of the models.
        made: class of what each actor opens.
        given: what it is opened with.
    """
    data = import_module("ray.data")
    items = [{"file": os.path.abspath(file), "skip": rows} for file, rows in zip(files, skip, strict=True)]
    rows = data.from_items(items, override_num_blocks=len(items))
    # Reading waits for the disk: it must not wait for a processor that the actors have.
    rows = rows.map_batches(_read, batch_size=1, num_cpus=0.01, fn_kwargs={"kind": kind})
    return by_actors(rows, cluster, device, made, given)


def _read(batch: Mapping[str, Any], kind: str) -> Iterator[pyarrow.Table]:
    for file, rows in zip(batch["file"], batch["skip"], strict=True):
        yield from tables.read_rows(str(file), kind, int(rows))


def by_actors(rows: Any, cluster: Cluster, device: str, made: type, given: Mapping[str, Any]) -> Any:
    """Return a dataset mapped by autoscaling actors.

    Args:
        rows: the dataset.
        cluster: how many there may be, and with what.
        device: of their models.
        made: class of what each opens.
        given: what it is opened with.
    """
    ray, data = import_module("ray"), import_module("ray.data")
    there = ray.cluster_resources()
    # One of those of a local Ray is for reading.
    fewest, most = cluster.bounds(int(there.get("CPU", 1)) - (cluster.address == LOCAL))
    gpus = cluster.gpus
    if gpus is None:
        gpus = 1 if device not in ("cpu", "mps") and there.get("GPU") else 0
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # of retries, until they have names of their own there
        return rows.map_batches(
            made,
            fn_constructor_kwargs=dict(given),
            batch_size=_BATCH,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=fewest, max_size=most),
            num_cpus=cluster.threads,
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=TRIES - 1,  # a row that ends every actor must not do so for ever
            udf_modifying_row_count=False,
        )


def batches(rows: Any, size: int) -> Iterator[pyarrow.Table]:
    """Yield the rows of a dataset as tables of so many, in order; the last may have fewer."""
    for table in rows.iter_batches(batch_size=size, batch_format="pyarrow"):
        if table.num_rows:
            yield table
