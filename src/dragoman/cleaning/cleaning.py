"""Cleaning a parallel corpus: two readings, the second of which writes what no rule drops, and a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import numpy as np

from dragoman.cleaning.facts import Facts, find_facts, side_key
from dragoman.cleaning.languages import LanguageRule
from dragoman.cleaning.report import SAMPLES, CleanReport, Dropped, RuleCount
from dragoman.cleaning.rules import PAIR_RULES, RULES
from dragoman.cleaning.scoring import PairScorer, worst
from dragoman.config.cleaning import CleaningConfig
from dragoman.data.repetitions import is_marked
from dragoman.errors import ConfigError, DataError
from dragoman.files import flush_directory, remove_orphans, temporary_sibling, written_as
from dragoman.pace import Pace, silent
from dragoman.text import Pair, ParallelCorpus, ReadCounts
from dragoman.text.corpus import guess_language
from dragoman.text.lines import chunks

_AT_ONCE = 2000
REPORT, TEXT = "report.json", "report.txt"
DROPPED, SCORES = "dropped.jsonl", "scores.f32"


def clean(
    corpus: ParallelCorpus,
    out: str | Path,
    *,
    without: Sequence[str] = (),
    settings: CleaningConfig | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    scores: tuple[str | Path, str | Path] | None = None,
    keep_dropped: bool = False,
    device: str = "auto",
    report: Callable[[str], None] = silent,
) -> CleanReport:
    """Read a parallel corpus as a stream, and write the pairs that no rule drops, with a report on each rule.

    The same input and settings give the same bytes. The directory appears whole or not at all.

    Args:
        corpus: the pairs; a line that is not text is dropped, whatever its `on_bad_text`.
        out: a new directory for `source.txt`, `target.txt`, `report.json` and `report.txt`.
        without: names of rules that are not asked (`RULES`).
        settings: thresholds.
        languages: two-letter codes of source and target; guessed from the names of files if None. The language of a
            side is asked for only where it is known, and the package py3langid is there.
        scores: two runs, from source to target and from target to source: the pairs that they find worst are dropped.
        keep_dropped: also write `dropped.jsonl`: rule, file, line and texts of each pair that was dropped.
        device: where models run.
        report: takes lines of plain text: progress, and the report.

    Raises:
        ConfigError: there is no such rule, or nothing is left to do.
        DataError: a file cannot be read, or the directory has something in it.
        ModelError: a run cannot be opened.
    """
    directory, settings = Path(out), settings or CleaningConfig()
    rules = _asked(without, scored=scores is not None)
    if not corpus.files:
        raise ConfigError("there is nothing to clean", hint="give --source and --target, or --pairs")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError("the directory has something in it", file=directory, hint="choose another")
    corpus = ParallelCorpus(corpus.aligned, corpus.pairs, "skip", corpus.form)
    sides = [[pair[side] for pair in corpus.aligned] for side in (0, 1)]
    known = tuple(given or guess_language(files) for given, files in zip(languages, sides, strict=True))
    language, why = LanguageRule.open(known, settings) if "language" in rules else (None, "")
    if why:
        report(f"language: not asked, for {why}")
        rules = tuple(rule for rule in rules if rule != "language")
    readings = _Readings(corpus, rules, settings, language)
    found = _written(directory, readings, scores, device, report, keep_dropped=keep_dropped)
    for line in found.lines():
        report(line)
    return found


def _written(
    directory: Path,
    readings: _Readings,
    scores: tuple[str | Path, str | Path] | None,
    device: str,
    report: Callable[[str], None],
    *,
    keep_dropped: bool,
) -> CleanReport:
    """Do the work beside the directory, and put it there when all is done."""
    remove_orphans(directory)
    temporary = temporary_sibling(directory)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with written_as(temporary, directory):
            temporary.mkdir(parents=True)
            readings.find_facts(temporary / "hashes", report)
            found = readings.write(temporary, scores, device, report, keep_dropped=keep_dropped)
            (temporary / REPORT).write_text(found.to_json() + "\n", encoding="utf-8")
            (temporary / TEXT).write_text("\n".join(found.lines()) + "\n", encoding="utf-8")
            flush_directory(temporary)
            if directory.is_dir():
                directory.rmdir()
            temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return found


def _asked(without: Sequence[str], *, scored: bool) -> tuple[str, ...]:
    for name in without:
        if name not in RULES or name in ("unreadable", "score"):
            can = ", ".join(rule for rule in RULES if rule not in ("unreadable", "score"))
            raise ConfigError("there is no such rule to leave out", expected=can, found=name)
    return tuple(rule for rule in RULES if rule not in without and (scored or rule != "score"))


class _Readings:
    """Both readings; the second asks the rules, batch by batch, each only what those before it have left."""

    def __init__(
        self,
        corpus: ParallelCorpus,
        rules: tuple[str, ...],
        settings: CleaningConfig,
        language: LanguageRule | None,
    ) -> None:
        self._corpus, self._rules, self._settings, self._language = corpus, rules, settings, language
        self._facts: Facts

    def find_facts(self, folder: Path, report: Callable[[str], None]) -> None:
        """Read the corpus for the first time; the folder is for hashes, and goes again."""
        self._facts = find_facts(self._corpus, folder, frozenset(self._rules), self._settings, report)
        shutil.rmtree(folder, ignore_errors=True)

    def judged(self, reading: ReadCounts, pace: Pace) -> Iterator[list[tuple[Pair, str | None]]]:
        """Yield the pairs, some at a time, each with the rule that drops it; scores are not asked."""
        place = 0
        for pairs in chunks(self._corpus.read(reading), _AT_ONCE):
            faults: list[str | None] = [None] * len(pairs)
            for rule in self._rules:
                left = [i for i, fault in enumerate(faults) if fault is None]
                for i in self._breaking(rule, pairs, left, place):
                    faults[i] = rule
            place += len(pairs)
            pace.at(place)
            yield list(zip(pairs, faults, strict=True))

    def _breaking(self, rule: str, pairs: list[Pair], left: list[int], first: int) -> Iterator[int]:
        """Which of the pairs that are left break a rule."""
        facts, settings = self._facts, self._settings
        marks = {"shifted": facts.shifted, "duplicate": facts.duplicate, "near duplicate": facts.near}.get(rule)
        if marks is not None:
            yield from (i for i in left if is_marked(marks, first + i))
        elif rule == "exchanged" and left:
            sources, targets = [pairs[i].source for i in left], [pairs[i].target for i in left]
            yield from np.array(left)[facts.profiles.exchanged(sources, targets, counted=True)].tolist()
        elif rule == "language" and self._language is not None:
            yield from (i for i in left if self._language.is_other(pairs[i].source, pairs[i].target))
        elif rule in PAIR_RULES:
            one = PAIR_RULES[rule]
            found = {i for i in left if one(pairs[i].source, pairs[i].target, facts.usual, settings)}
            if rule == "boilerplate":
                found |= {i for i in left if self._is_everywhere(pairs[i])}
            yield from found

    def _is_everywhere(self, pair: Pair) -> bool:
        most = self._settings.max_repeats
        return any(counts[side_key(text)] > most for counts, text in zip(self._facts.repeats, pair[:2], strict=True))

    def write(
        self,
        folder: Path,
        scores: tuple[str | Path, str | Path] | None,
        device: str,
        report: Callable[[str], None],
        *,
        keep_dropped: bool,
    ) -> CleanReport:
        """Write what is kept, and return the report."""
        counts, reading = {rule: RuleCount() for rule in self._rules}, ReadCounts()
        total, kept = self._facts.pairs, 0
        bad = None if scores is None else self._worst(folder / SCORES, scores, device, report)
        pace, place = Pace(report, "second reading: pairs", total), 0
        with ExitStack() as files:
            source, target = (files.enter_context(_new(folder / f"{side}.txt")) for side in ("source", "target"))
            dropped = files.enter_context(_new(folder / DROPPED)) if keep_dropped else None
            for judged in self.judged(reading, pace):
                for pair, rule in judged:
                    if rule is None and bad is not None:
                        rule = "score" if is_marked(bad, place) else None
                        place += 1
                    if rule is None:
                        kept += 1
                        source.write(f"{pair.source}\n")
                        target.write(f"{pair.target}\n")
                        continue
                    one = Dropped(pair.file, pair.line, pair.source, pair.target)
                    counts[rule].add(one)
                    if dropped is not None:
                        dropped.write(json.dumps({"rule": rule, **one.to_dict()}, ensure_ascii=False) + "\n")
        counts["unreadable"].count = reading.skipped + reading.incomplete
        slips = [str(slip) for slip in self._facts.slips]
        return CleanReport(reading.read, kept, counts, slips, self._facts.usual, self._settings, self._corpus.files)

    def _worst(
        self, file: Path, runs: tuple[str | Path, str | Path], device: str, report: Callable[[str], None]
    ) -> np.ndarray:
        """A bit for each pair that the other rules keep: whether it is among the worst."""
        scorer, pace = PairScorer.open(runs, device=device), Pace(report, "scored: pairs", self._facts.pairs)
        with file.open("wb") as stream:
            for judged in self.judged(ReadCounts(), pace):
                good = [pair for pair, rule in judged if rule is None]
                stream.write(scorer.scores(good).astype("<f4").tobytes())
        bits = worst(np.fromfile(file, "<f4"), self._settings.drop_share)
        file.unlink()
        return bits


def _new(path: Path) -> TextIO:
    return path.open("x", encoding="utf-8", errors="surrogatepass", newline="\n")


__all__ = ["RULES", "SAMPLES", "clean"]
