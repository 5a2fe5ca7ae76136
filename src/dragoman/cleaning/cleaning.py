"""Cleaning a parallel corpus: what is read and found of it, step by step, and what is written in the end.

The corpus is read for facts, for the verdicts of the rules, with models for scores, and once more to be written. What
each reading finds is kept block by block beside the output, so that a call that was stopped goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from dragoman.cleaning.facts import WINDOW, Facts, look, merged, windows
from dragoman.cleaning.judging import KEPT, VERDICTS, Block, Judging, judge
from dragoman.cleaning.languages import LanguageRule
from dragoman.cleaning.near import Likeness, Sets
from dragoman.cleaning.report import SAMPLES, CleanReport, Dropped, RuleCount
from dragoman.cleaning.rules import RULES
from dragoman.cleaning.scoring import PairScorer, worst
from dragoman.cleaning.work import LAYOUT, Blocks, Work, begun, facts_of
from dragoman.config.cleaning import CleaningConfig
from dragoman.data.large import unfinished
from dragoman.errors import ConfigError, DataError
from dragoman.files import flush_directory, sum_of, written_as
from dragoman.pace import Pace, silent
from dragoman.text import ParallelCorpus, ReadCounts
from dragoman.text.corpus import guess_language
from dragoman.text.lines import chunks
from dragoman.workers import Cluster, Workers, open_workers

Later = Sequence[tuple[str, np.ndarray]]
BLOCK = 10_000  # pairs of a block of verdicts
REPORT, TEXT = "report.json", "report.txt"
DROPPED = "dropped.jsonl"


def clean(
    corpus: ParallelCorpus,
    out: str | Path,
    *,
    without: Sequence[str] = (),
    settings: CleaningConfig | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    scores: tuple[str | Path, str | Path] | None = None,
    keep_dropped: bool = False,
    workers: int | Cluster = 1,
    device: str = "auto",
    report: Callable[[str], None] = silent,
) -> CleanReport:
    """Read a parallel corpus as a stream, and write the pairs that no rule drops, with a report on each rule.

    The same input and settings give the same bytes, whoever works. The directory appears whole or not at all. The same
    call goes on where an earlier one was stopped.

    Args:
        corpus: the pairs; a line that is not text is dropped, whatever its `on_bad_text`.
        out: a new directory for `source.txt`, `target.txt`, `report.json` and `report.txt`.
        without: names of rules that are not asked (`RULES`).
        settings: thresholds.
        languages: two-letter codes of source and target; guessed from the names of files if None. The language of a
            side is asked for only where it is known, and the package py3langid is there.
        scores: two runs, from source to target and from target to source: the pairs that they find worst are dropped.
        keep_dropped: also write `dropped.jsonl`: rule, file, line and texts of each pair that was dropped.
        workers: processes of this machine, or where Ray runs. What is compared with all pairs, and models, stay here.
        device: where models run.
        report: takes lines of plain text: progress, and the report.

    Raises:
        ConfigError: there is no such rule, or nothing is left to do.
        DragomanError: Ray is not installed, not to be reached, or gave up.
        DataError: a file cannot be read, or the directory has something in it.
        ModelError: a run cannot be opened.
    """
    directory, settings = Path(out), settings or CleaningConfig()
    rules = _asked(without, scored=scores is not None)
    if not corpus.files:
        raise ConfigError("there is nothing to clean", hint="give --source and --target, or --pairs")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError("the directory has something in it", file=directory, hint="choose another")
    if directory.resolve() == Path.cwd():
        raise DataError("what is kept needs a directory of its own", found="the current one", hint="give another")
    corpus, folder = ParallelCorpus(corpus.aligned, corpus.pairs, "skip", corpus.form), unfinished(directory)
    known, rules = _languages_of(corpus, languages, rules, settings, report)
    given = _Given(corpus, rules, settings, known, scores, device, keep_dropped)
    plan = given.plan()
    with open_workers(workers) as at_work, written_as(folder, directory), begun(folder, plan, report) as work:
        found = _Cleaning(given, work, at_work, report).through(work.folder / "out")
        if directory.is_dir():
            directory.rmdir()
        (work.folder / "out").rename(directory)
    flush_directory(directory.parent)
    for line in found.lines():
        report(line)
    return found


def _languages_of(
    corpus: ParallelCorpus,
    languages: tuple[str | None, str | None],
    rules: tuple[str, ...],
    settings: CleaningConfig,
    report: Callable[[str], None],
) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """The languages of both sides, and the rules without that of languages if it cannot be asked."""
    sides = [[pair[side] for pair in corpus.aligned] for side in (0, 1)]
    known = tuple(given or guess_language(files) for given, files in zip(languages, sides, strict=True))
    why = LanguageRule.open(known, settings)[1] if "language" in rules else ""
    if why:
        report(f"language: not asked, for {why}")
    return known, tuple(rule for rule in rules if rule != "language" or not why)


def _asked(without: Sequence[str], *, scored: bool) -> tuple[str, ...]:
    for name in without:
        if name not in RULES or name in ("unreadable", "score"):
            can = ", ".join(rule for rule in RULES if rule not in ("unreadable", "score"))
            raise ConfigError("there is no such rule to leave out", expected=can, found=name)
    return tuple(rule for rule in RULES if rule not in without and (scored or rule != "score"))


@dataclass(frozen=True)
class _Given:
    """What was asked for."""

    corpus: ParallelCorpus
    rules: tuple[str, ...]
    settings: CleaningConfig
    languages: tuple[str | None, ...]
    runs: tuple[str | Path, str | Path] | None
    device: str
    keep_dropped: bool

    def plan(self) -> dict[str, Any]:
        """Return all that facts, verdicts and scores depend on."""
        return {
            "layout": LAYOUT,
            "files": facts_of(self.corpus.files),
            "form": repr(self.corpus.form),
            "rules": list(self.rules),
            "settings": self.settings.to_dict(),
            "languages": list(self.languages),
            "runs": [_sums(Path(run)) for run in self.runs or ()],
            "sizes": [WINDOW, BLOCK],
        }


def _sums(run: Path) -> dict[str, str]:
    """What tells a model from others: its files, but not those of its training."""
    files = sorted(run.iterdir()) if run.is_dir() else [run]
    return {file.name: sum_of(file) for file in files if file.is_file() and file.name[0] != "."}


class _Cleaning:
    """The readings, one after the other; each begins with the first block that is not there."""

    def __init__(self, given: _Given, work: Work, workers: Workers, report: Callable[[str], None]) -> None:
        self._given, self._work, self._workers, self._report = given, work, workers, report
        self._facts: Facts

    def through(self, out: Path) -> CleanReport:
        """Do what is left to do, and write the output."""
        rules, later = frozenset(self._given.rules), list[tuple[str, np.ndarray]]()
        looked, judged = self._work.blocks("facts"), self._work.blocks("verdicts")
        self._look(looked, rules)
        self._facts = merged(looked.each(), self._work.scratch("hashes"), rules)
        judging = Judging.of(self._given.rules, self._given.settings, self._given.languages, self._facts)
        self._judge(judged, judging)
        if judging.compares:
            later.append(("near duplicate", self._near(judged)))
        if self._given.runs is not None:
            later.append(("score", self._worst(judged, later, self._given.runs)))
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        found = self._write(out, _verdicts(judged, later))
        (out / REPORT).write_text(found.to_json() + "\n", encoding="utf-8")
        (out / TEXT).write_text("\n".join(found.lines()) + "\n", encoding="utf-8")
        flush_directory(out)
        return found

    def _look(self, blocks: Blocks, rules: frozenset[str]) -> None:
        done, place = len(blocks), sum(int(sizes[0]) for sizes in blocks.each("pairs"))
        pace = Pace(self._report, "first reading: pairs", None, place)
        pairs = islice(self._given.corpus.read(), place, None)
        for number, found in enumerate(self._workers.map(look, rules, windows(pairs, rules)), done):
            blocks.write(number, found)
            place += int(found["pairs"][0])
            pace.at(place)

    def _judge(self, blocks: Blocks, judging: Judging) -> None:
        done, place = len(blocks), sum(map(len, blocks.each("verdicts")))
        pace = Pace(self._report, "second reading: pairs", self._facts.pairs, place)
        for number, found in enumerate(self._workers.map(judge, judging, self._blocks(place)), done):
            blocks.write(number, found)
            place += len(found["verdicts"])
            pace.at(place)

    def _blocks(self, place: int) -> Iterator[Block]:
        """The blocks of the corpus from a place on, which is where one begins."""
        for pairs in chunks(islice(self._given.corpus.read(), place, None), BLOCK):
            if place + len(pairs) > self._facts.pairs:
                raise self._has_changed()
            yield Block.of([pair[:2] for pair in pairs], self._facts, place)
            place += len(pairs)
        if place < self._facts.pairs:
            raise self._has_changed()

    def _has_changed(self) -> DataError:
        hint = "give the same command again: all is done anew"
        return DataError("the corpus has changed while it was read", file=self._given.corpus.files[0], hint=hint)

    def _near(self, judged: Blocks) -> np.ndarray:
        """Of the pairs that are kept so far, which are like an earlier one, bool [kept]."""
        likeness = Likeness(self._work.scratch("near"), self._given.settings.near_similarity)
        for arrays in judged.each():
            likeness.add(Sets(arrays["members"], arrays["sizes"], arrays["bands"]))
        return likeness.found()

    def _worst(self, judged: Blocks, later: Later, runs: tuple[str | Path, str | Path]) -> np.ndarray:
        """Of the pairs that the other rules keep, which are among the worst, bool [kept]."""
        scorer, blocks = PairScorer.open(runs, device=self._given.device), self._work.blocks("scores")
        done, pairs, place = len(blocks), self._given.corpus.read(), 0
        pace = Pace(self._report, "scored: pairs", self._facts.pairs)
        for number, verdicts in enumerate(_verdicts(judged, later)):
            some = list(islice(pairs, len(verdicts)))
            if number >= done:
                good = [pair for pair, verdict in zip(some, verdicts, strict=True) if verdict == KEPT]
                blocks.write(number, {"scores": scorer.scores(good).astype(np.float32)})
            place += len(some)
            pace.at(place)
        scores = np.concatenate([np.zeros(0, np.float32), *blocks.each("scores")])
        return np.unpackbits(worst(scores, self._given.settings.drop_share))[: len(scores)].astype(bool)

    def _write(self, folder: Path, verdicts: Iterable[np.ndarray]) -> CleanReport:
        """Write what is kept, and return the report."""
        given, facts = self._given, self._facts
        counts, reading, kept = {rule: RuleCount() for rule in given.rules}, ReadCounts(), 0
        with ExitStack() as files:
            source, target = (files.enter_context(_new(folder / f"{side}.txt")) for side in ("source", "target"))
            dropped = files.enter_context(_new(folder / DROPPED)) if given.keep_dropped else None
            each = (verdict for some in verdicts for verdict in some.tolist())
            for pair, verdict in zip_longest(given.corpus.read(reading), each):
                if pair is None or verdict is None:
                    raise self._has_changed()
                if verdict == KEPT:
                    kept += 1
                    source.write(f"{pair.source}\n")
                    target.write(f"{pair.target}\n")
                    continue
                rule, one = VERDICTS[verdict], Dropped(pair.file, pair.line, pair.source, pair.target)
                counts[rule].add(one)
                if dropped is not None:
                    dropped.write(json.dumps({"rule": rule, **one.to_dict()}, ensure_ascii=False) + "\n")
        counts["unreadable"].count = reading.skipped + reading.incomplete
        slips = [str(slip) for slip in facts.slips]
        return CleanReport(reading.read, kept, counts, slips, facts.usual, given.settings, given.corpus.files)


def _verdicts(judged: Blocks, later: Later) -> Iterator[np.ndarray]:
    """The verdicts, block by block, those of later rules too, each of which marks some of what those before it keep."""
    begins = [0] * len(later)
    for verdicts in judged.each("verdicts"):
        for number, (rule, marks) in enumerate(later):
            left = np.flatnonzero(verdicts == KEPT)
            begin, begins[number] = begins[number], begins[number] + len(left)
            verdicts[left[marks[begin : begin + len(left)]]] = VERDICTS.index(rule)
        yield verdicts


def _new(path: Path) -> TextIO:
    return path.open("x", encoding="utf-8", errors="surrogatepass", newline="\n")


__all__ = ["RULES", "SAMPLES", "clean"]
