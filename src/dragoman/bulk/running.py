"""A long file through several processes: each opens the model once and translates a part at a time."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bulk.lines import each_result
from dragoman.bulk.parts import BulkResult, Part, Parts, Problem, cut
from dragoman.config import DecodingConfig, Placement
from dragoman.config.placement import MOST_THREADS
from dragoman.errors import ConfigError, DragomanError
from dragoman.files import sum_of
from dragoman.pace import Pace, silent
from dragoman.text.opening import open_bytes
from dragoman.workers.processes import TRIES, begin, leave

if TYPE_CHECKING:
    from dragoman.translation import Translator

_MOST_LINES = 10_000_000  # of a part, which is held in memory
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Job:
    """What each worker needs to know.

    Attributes:
        models: directories, several as an ensemble.
        options: the search.
        placement: device, engine, precision and threads of each worker.
        prefix: what every output must begin with.
        columns: of `format_translation`: how outputs are printed.
        languages: of source and target, of a model for many languages; None: those of its import.
    """

    models: tuple[str, ...]
    options: DecodingConfig
    placement: Placement
    prefix: str = ""
    columns: Mapping[str, bool] = field(default_factory=dict)
    languages: tuple[str | None, str | None] = (None, None)


def translate_file(
    model: str | Path | Sequence[str | Path],
    source: str | Path, output: str | Path,
    *,
    workers: int | None = None, part_lines: int = 10_000,
    settings: Mapping[str, Any] | None = None, prefix: str = "",
    source_language: str | None = None, target_language: str | None = None,
    columns: Mapping[str, bool] | None = None,
    device: str = "auto", engine: str = "auto", precision: str = "auto",
    threads: int = 1,
    report: Callable[[str], None] = silent,
) -> BulkResult:  # fmt: skip
    """Translate a file of any length in several processes; as many lines come out as go in, in order.

    The same call again goes on where an earlier one stopped. A line that is not UTF-8, or that cannot be translated, is
    left empty and told; a worker that dies costs the part that it was at, which is done again.

    Args:
        model: a run or model directory; several as an ensemble.
        source: lines; .gz, .bz2, .xz and .zst are decompressed.
        output: a folder of parts (`000000.txt`, ...) if the name has no suffix, else one file.
        workers: processes; as many as there are processors if None.
        part_lines: lines of a part.
        settings: of decoding by name.
        prefix: what every output must begin with.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        columns: `scores`, `words` and `as_json` of `format_translation`.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        threads: of each process.
        report: takes a line of progress now and then.

    Raises:
        ConfigError: options contradict each other, the output is something else, or the model has no such language.
        DataError: the source cannot be read, or is damaged.
        ModelError: there is no such model.
    """
    from dragoman.translation import Translator

    models = [model] if isinstance(model, (str, Path)) else list(model)
    source, output = Path(source), Path(output)
    check_places(source, output, workers, part_lines)
    languages = {"source_language": source_language, "target_language": target_language}
    opened = Translator.from_pretrained(models, device=device, engine=engine, precision=precision, **languages)
    opened.tokenizers.check_reads()
    options = opened.options(dict(settings or {}))
    del opened
    placement = Placement(device, engine, precision, threads)
    paths, asked = tuple(str(Path(one)) for one in models), (source_language, target_language)
    job = Job(paths, options, placement, prefix, dict(columns or {}), asked)
    folder = output if not output.suffix else output.with_name(output.name + ".parts")
    parts = Parts(folder, plan_of(job, source, part_lines))
    run = _Run(job, parts, workers or os.cpu_count() or 1, report)
    result = run.through(cut(source, part_lines))
    if output.suffix and not result.left_out:
        parts.join(run.count, output)
        return BulkResult(output, result.lines, result.kept, result.problems)
    return result


def check_places(source: Path, output: Path, workers: int | None, part_lines: int) -> None:
    """Refuse before the work what would end in outputs that cannot be kept, or in a source that is gone.

    Raises:
        ConfigError: the output is something else, or a number is out of range.
    """
    for name, number, most in (("workers", workers, MOST_THREADS), ("part_lines", part_lines, _MOST_LINES)):
        if number is not None and not 1 <= number <= most:
            expected = f"a whole number from 1 to {most:,}"
            raise ConfigError(f"so many {name} cannot be had", expected=expected, found=number)
    if str(source) == "-" or (source.exists() and not source.is_file()):
        raise ConfigError("bulk translation reads a file", found=source, hint="write a stream into a file first")
    with open_bytes(source):
        pass
    if output.resolve() == source.resolve():
        raise ConfigError("the output would overwrite the input", file=output, hint="give another --output")
    if output.exists() and output.is_dir() == bool(output.suffix):
        raise ConfigError(
            "the output exists already, and is of another kind", file=output,
            expected="a file if its name has a suffix, else a folder of parts",
            found="a folder" if output.suffix else "a file", hint="give another --output",
        )  # fmt: skip


def plan_of(job: Job, source: Path, part_lines: int) -> dict[str, Any]:
    """Return what parts depend on: two calls that agree in this make the same ones."""
    files = [Path(one) if Path(one).is_file() else Path(one) / _WEIGHTS for one in job.models]
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in job.options.to_dict().items()}
    return {
        "format": 1,
        "source": source.name,
        "bytes": source.stat().st_size,
        "modified": source.stat().st_mtime_ns,
        "models": [sum_of(file) for file in files],
        "precision": job.placement.precision,
        "options": options,
        "prefix": job.prefix,
        "columns": dict(job.columns),
        "part_lines": part_lines,
        **({"languages": list(job.languages)} if any(job.languages) else {}),
    }


class _Run:
    """Hands parts to workers, a few ahead of them, and writes what comes back."""

    def __init__(self, job: Job, parts: Parts, workers: int, report: Callable[[str], None]) -> None:
        self.job, self.parts, self.workers, self.report = job, parts, workers, report
        self.count = self.lines = self.kept = 0
        self._deaths: Counter[int] = Counter()
        self._left_out: list[int] = []
        self._pace = Pace(report, "translated lines", None)
        self._new = 0

    def through(self, parts: Iterator[Part]) -> BulkResult:
        """Do all parts that are not done."""
        waiting: list[Part] = []
        ended = False
        while not ended or waiting:
            with self._pool() as pool:
                running: dict[Future[tuple[list[str], list[Problem]]], Part] = {}
                try:
                    while True:
                        while not ended and len(running) + len(waiting) < 2 * self.workers:
                            part = next(parts, None)
                            ended = part is None
                            if part is not None and not self._is_done(part):
                                waiting.append(part)
                        while waiting:
                            running[pool.submit(_translated, waiting[0])] = waiting[0]
                            del waiting[0]  # not before: a pool whose worker has died takes nothing
                        if not running:
                            break
                        for future in wait(running, return_when=FIRST_COMPLETED).done:
                            self._take(running[future], *future.result())
                            del running[future]
                except BrokenProcessPool:
                    waiting = [*self._after_death(list(running.values())), *waiting]
                except BaseException:  # what is under way would be waited for, and be lost
                    leave(pool)
                    raise
        problems = [one for number in range(self.count) for one in self.parts.problems(number)]
        return BulkResult(self.parts.folder, self.lines, self.kept, tuple(problems), tuple(self._left_out))

    def _pool(self) -> ProcessPoolExecutor:
        # Not forked: what this process has opened, threads and all, is no business of theirs.
        return ProcessPoolExecutor(self.workers, get_context("spawn"), _open, (self.job,))

    def _is_done(self, part: Part) -> bool:
        self.count, self.lines = part.number + 1, self.lines + len(part.lines)
        done = self.parts.is_done(part.number)
        self.kept += len(part.lines) * done
        return done

    def _take(self, part: Part, lines: list[str], problems: list[Problem]) -> None:
        self.parts.write(part.number, "".join(line + "\n" for line in lines).encode(), problems)
        self._new += len(part.lines)
        self._pace.at(self._new)

    def _after_death(self, running: list[Part]) -> list[Part]:
        """What is to be done again after a worker has died: all that was under way, since nobody knows whose it was."""
        self.report(f"a worker has died; {len(running)} parts that were under way are done again")
        again = []
        for part in running:
            self._deaths[part.number] += 1
            if self._deaths[part.number] < TRIES:
                again.append(part)
            else:
                self.report(f"part {part.number} is left out: workers died at it {TRIES} times")
                self._left_out.append(part.number)
        time.sleep(0.1)  # what killed it may need a moment
        return again


_WORKER: dict[str, Any] = {}


def _open(job: Job) -> None:
    """Open the model, once in each worker; what is wrong with it is told by the first part."""
    begin(job.placement.threads or 1)
    from dragoman.translation import Translator

    place = job.placement
    _WORKER.clear()
    try:
        translator = Translator.from_pretrained(
            job.models, device=place.device, engine=place.engine, precision=place.precision,
            source_language=job.languages[0], target_language=job.languages[1],
        )  # fmt: skip
    except DragomanError as error:
        _WORKER["error"] = error
    else:
        _WORKER.update(job=job, translator=translator)


def _translated(part: Part) -> tuple[list[str], list[Problem]]:
    """The lines of a part, printed, and those that could not be translated."""
    if "error" in _WORKER:
        raise _WORKER["error"]
    printed = partial(_printed, _WORKER["translator"], _WORKER["job"])
    return each_result(printed, part.lines, part.first, "")


def _printed(translator: Translator, job: Job, texts: list[str], first: int) -> list[str]:
    from dragoman.translation import format_translation

    results = translator.translate_lines(texts, job.options, prefix=job.prefix)
    found = []
    for number, result in enumerate(results, first):
        found += format_translation(result, number, **job.columns)
    return found
