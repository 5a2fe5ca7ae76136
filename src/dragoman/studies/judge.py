"""Judging a model on a test set: translate, score, and look where the faults are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from dragoman.config import DecodingConfig
from dragoman.data import TokenStore
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import (
    Breakdown,
    ErrorKinds,
    Score,
    WorstSentences,
    break_down,
    count_words,
    score,
    worst_sentences,
)
from dragoman.evaluation.metrics import METRICS, Metric, ignore_case
from dragoman.pace import paced, silent
from dragoman.sequences.source import Source
from dragoman.shown import html_table
from dragoman.studies.given import Answers, Texts, answers_of, first_file, is_file, read_test_set, texts_of
from dragoman.studies.listening import seconds_of, sources_as
from dragoman.text import Tokenizer, guess_language
from dragoman.text.lines import BadText
from dragoman.text.unknown import count_unknown
from dragoman.translation.known import known_hypotheses
from dragoman.translation.notes import tell_notes
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator

_SHOWN = 5


@dataclass(frozen=True)
class Evaluation:
    """Outputs for a test set and their scores.

    Attributes:
        scores: one per metric, with interval and signature.
        sources: what was translated: each distinct source once, if they were grouped; empty if not known.
        hypotheses: the output for each.
        references: what was accepted for each.
        decoding: the search that was used; None for outputs that were made elsewhere.
        engine: what ran the model, and in which precision; None for outputs that were made elsewhere.
        aids: what the search asked besides the left-to-right model (`Translator.aids`).
        truncated: numbers of the sources, from 1, that were too long and were cut.
        unfinished: numbers of the outputs, from 1, that the model did not end.
        breakdown: scores of the test set's parts, if asked for.
        worst: sentences with the worst scores, if asked for.
    """

    scores: list[Score]
    sources: list[str]
    hypotheses: list[str]
    references: list[tuple[str, ...]]
    decoding: DecodingConfig | None
    engine: str | None = None
    aids: tuple[str, ...] = ()
    truncated: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    breakdown: Breakdown | None = None
    worst: WorstSentences | None = None

    def __repr__(self) -> str:
        scores = "; ".join(one.brief for one in self.scores)
        return f"{type(self).__name__}({len(self.hypotheses):,} lines: {scores or 'not scored'})"

    def _repr_html_(self) -> str:
        """For notebooks: the scores with their intervals, and the first outputs."""
        spreads = ["" if one.low is None else f"{one.low:.2f} to {one.high:.2f}" for one in self.scores]
        rows = [(one.label, f"{one.value:.2f}", spread) for one, spread in zip(self.scores, spreads, strict=True)]
        scores = html_table(rows, ("metric", "score", "95 % interval"), f"{len(self.hypotheses):,} lines")
        sources = self.sources or [""] * len(self.hypotheses)
        lines = [
            (source, output, " / ".join(answers))
            for source, output, answers in islice(zip(sources, self.hypotheses, self.references, strict=True), _SHOWN)
        ]
        return scores + html_table(lines, ("source", "output", "reference"))

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, search and what else was asked for as plain values, for JSON."""
        tree: dict[str, Any] = {"lines": len(self.hypotheses), "scores": [one.to_dict() for one in self.scores]}
        if self.decoding is not None:
            tree["decoding"], tree["engine"] = self.decoding.to_dict(none=False), self.engine
            tree["aids"] = self.aids
            tree["truncated"], tree["unfinished"] = self.truncated, self.unfinished
        if self.breakdown is not None:
            tree["breakdown"] = self.breakdown.to_dict()
        if self.worst is not None:
            tree["worst"] = self.worst.to_dict()
        return tree


def evaluate(
    model: Translator | str | Path,
    source: Texts,
    references: Answers,
    *,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    group: bool = False, decoding: DecodingConfig | None = None,
    source_language: str | None = None, target_language: str | None = None,
    bootstrap: int = 1000,
    breakdown: bool = False, worst: int = 0,
    frequencies: Mapping[str, int] | None = None, on_bad_text: BadText = "stop",
    report: Callable[[str], None] = silent,
) -> Evaluation:  # fmt: skip
    """Translate a test set and score the outputs against one or more references of each source.

    Args:
        model: a translator, or a run or model directory.
        source: a file of sources, or the sources themselves.
        references: of a file, another file, line by line, or several; of sources, for each a text or several.
        metrics: `dragoman.evaluation.Metric`s, or names of them; without a language they are in the model's own.
        group: lines with the same source are one item with several references (as in a pronunciation dictionary).
        decoding: the search; the model's own options if None.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        bootstrap: resampled test sets for the intervals.
        breakdown: also break the scores down: by length, unknown pieces, rare words, faults.
        worst: also list so many sentences with the worst scores, by what fits sentences of the first metric.
        frequencies: how often words stand in the training targets; None for what a run directory knows.
        on_bad_text: what a line that is not UTF-8 does: "stop", "replace" (what is wrong), or "skip" (it is empty).
        report: takes a line of plain text now and then: how far the translation is.

    Raises:
        DataError: a file cannot be read, or they have different numbers of lines.
        ConfigError: a metric is unknown, a number is out of range, or the model has no such language.
    """
    sources, answers = read_test_set(source, references, group=group, on_bad_text=on_bad_text, report=report)
    translator = model if isinstance(model, Translator) else Translator.from_pretrained(model)
    translator = translator.with_languages(source_language, target_language)
    sources = sources_as(translator.tokenizers, source, sources)
    options, read = decoding or translator.decoding, translator.tokenizers.source
    reads = breakdown and translator.tokenizers.sound is None
    checked = check_metrics(metrics, translator.languages.target)
    lines = paced(sources, report, "translated", len(sources))
    results = list(translator.translate_lines(lines, options))
    tell_notes(results, options, translator.languages.source, report)
    if breakdown and frequencies is None and not isinstance(model, Translator):
        frequencies = training_words(model, translator.tokenizers.target, lowercase=ignore_case(checked))
    return _judge(
        Evaluation(
            [], sources, [one.text for one in results], answers, options, translator.engine, translator.aids(options),
            truncated=tuple(number for number, one in enumerate(results, 1) if one.truncated),
            unfinished=tuple(number for number, one in enumerate(results, 1) if not one.finished),
        ),
        source,
        metrics=checked, bootstrap=bootstrap, breakdown=breakdown, worst=worst,
        frequencies=frequencies,
        unknown=[count_unknown(read, read.encode(text)) for text in sources] if reads else None,
        errors=None if options.sampling or not breakdown
        else error_kinds(translator, results, answers, options, ignore_case(checked)),
    )  # fmt: skip


def evaluate_outputs(
    outputs: Texts,
    references: Answers,
    source: Texts | None = None,
    *,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    group: bool = False,
    bootstrap: int = 1000,
    breakdown: bool = False,
    worst: int = 0,
    frequencies: Mapping[str, int] | None = None,
    on_bad_text: BadText = "stop",
    report: Callable[[str], None] = silent,
) -> Evaluation:
    """Score outputs that may come from anywhere; no model is needed. Give files everywhere, or lists everywhere.

    Args:
        outputs: a file of outputs, line by line, or the outputs; grouped, one for each distinct source.
        references: one or several files of references; or for each output a text, or several.
        source: a file of sources, or the sources, if at hand: groups outputs by their length, and shows copies.
        metrics: `dragoman.evaluation.Metric`s, or names of them; without a language they are in the one that the
            suffix of the references tells.
        group: as for `evaluate`; needs the sources.
        bootstrap: resampled test sets for the intervals.
        breakdown: also break the scores down.
        worst: also list so many sentences with the worst scores.
        frequencies: how often words stand in the training targets of the system, if known.
        on_bad_text: as for `evaluate`.
        report: takes a line of plain text about lines that are not text.

    Raises:
        DataError: a file cannot be read, or they have different numbers of lines.
        ConfigError: a metric is unknown, or a number is out of range.
    """
    if source is None and group:
        raise DataError("outputs are grouped by their sources", expected="sources")
    hypotheses = texts_of(outputs, "outputs", on_bad_text=on_bad_text, report=report)
    file = first_file(outputs, references)
    read = partial(read_test_set, on_bad_text=on_bad_text, report=report)
    if source is not None:
        lines, answers = read(source, references, group=group)
    else:
        lines, answers = ([], answers_of(references)) if file is None else read(file, references)
    unit = "distinct source" if group else "reference"
    check_outputs(hypotheses, answers, file=outputs if is_file(outputs) else None, unit=unit)
    checked = check_metrics(metrics, guess_language([] if file is None else [file]))
    return _judge(
        Evaluation([], [] if source is None else lines, hypotheses, answers, None), source,
        metrics=checked, bootstrap=bootstrap, breakdown=breakdown, worst=worst,
        frequencies=frequencies,
        unknown=None,
        errors=None,
    )  # fmt: skip


def check_outputs(
    outputs: Sequence[str], answers: Sequence[object], *, file: str | PathLike[str] | None, unit: str = "reference"
) -> None:
    """Refuse outputs that are not one for each answer.

    Args:
        outputs: lines of a file, or a list.
        answers: what they are judged by.
        file: where the outputs are from, if that is one.
        unit: what there must be one for each of, in words.

    Raises:
        DataError: they are more, or fewer.
    """
    if len(outputs) != len(answers):
        expected, found = f"{len(answers):,} lines, one for each {unit}", f"{len(outputs):,}"
        raise DataError("as many outputs as references are needed", file=file, expected=expected, found=found)


def training_words(run: str | Path, tokenizer: Tokenizer, *, lowercase: bool = False) -> Counter[str] | None:
    """Return how often each word stands in the targets a run was trained on; None where the run does not hold them.

    Args:
        run: a run directory.
        tokenizer: of its targets.
        lowercase: count lower-case words.

    Raises:
        DataError: the data of the run are damaged.
    """
    folder = Path(run) / "data" / "train"
    if not folder.is_dir():
        return None
    store = TokenStore.open(folder)
    targets = (tokenizer.decode(store.target(index).tolist()) for index in range(len(store)))
    return count_words(targets, lowercase=lowercase)


def error_kinds(
    translator: Translator,
    results: Sequence[Translation],
    references: Sequence[Sequence[str]],
    options: DecodingConfig,
    lowercase: bool = False,
) -> ErrorKinds:
    """Return for each output that is no reference whether the search or the model is to blame.

    Args:
        translator: that wrote them.
        results: its outputs; those of blank sources have no error.
        references: what is right for each; the one that the model likes best counts.
        options: of the search that found them.
        lowercase: ignore case, as the scores do then; blanks around a line never count.
    """
    target = translator.tokenizers.target
    encode, pieces, unk = target.encode, target.pieces, target.unk

    def plain(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    kinds: dict[str, list[int]] = {"written": [], "model": [], "search": [], "unknown": []}
    asked: list[tuple[int, Source, list[int]]] = []
    for number, (result, answers) in enumerate(zip(results, references, strict=True), 1):
        if not result.source.strip():
            continue
        known = [ids for ids in map(encode, answers) if unk not in ids]
        if plain(result.text) in map(plain, answers) or result.tokens in [tuple(pieces(ids)) for ids in known]:
            kinds["written"].append(number)
        elif not known:
            kinds["unknown"].append(number)
        else:
            read = translator.tokenizers.encode_source(result.source).cut(options.max_source_length)
            asked += [(number, read, ids) for ids in known]
    best: dict[int, float] = {}
    plan = translator.plan(options)
    scored = known_hypotheses(plan, [one[1] for one in asked], [one[2] for one in asked])
    for (number, _, _), one in zip(asked, scored, strict=True):
        best[number] = max(one.score, best.get(number, one.score))
    for number, value in best.items():
        kinds["search" if value > results[number - 1].score else "model"].append(number)
    return ErrorKinds(**{name: tuple(numbers) for name, numbers in kinds.items()})


def check_metrics(metrics: Sequence[Metric | str], language: str | None) -> list[Metric]:
    """Return metrics in a language, unless they say one of their own; refused before anything is translated for them.

    Raises:
        ConfigError: there is none; one, or its tokenizer, is unknown or cannot be used here; or the language is no
            code of one.
    """
    if not metrics:
        raise ConfigError("there is no metric to score by", expected=", ".join(METRICS))
    checked = [Metric.of(metric).in_language(language) for metric in metrics]
    for metric in checked:
        metric.check()
    return checked


def _judge(
    outputs: Evaluation,
    given: Texts | None,
    *,
    metrics: Sequence[Metric],
    bootstrap: int,
    breakdown: bool,
    worst: int,
    frequencies: Mapping[str, int] | None,
    unknown: Sequence[int] | None,
    errors: ErrorKinds | None,
) -> Evaluation:
    """The same with scores, and with what else was asked for."""
    lines, answers, sources = outputs.hypotheses, outputs.references, outputs.sources or None
    scores = score(lines, answers, metrics=metrics, bootstrap=bootstrap)
    parts = sentences = None
    if breakdown:
        parts = break_down(
            lines, answers, sources, metrics=metrics, frequencies=frequencies, unknown=unknown, bootstrap=bootstrap,
            seconds=None if sources is None else seconds_of(given, sources),
            cut=None if outputs.decoding is None else outputs.unfinished, errors=errors,
        )  # fmt: skip
    if worst:
        sentences = worst_sentences(lines, answers, sources, metric=metrics[0], count=worst)
    return replace(outputs, scores=scores, breakdown=parts, worst=sentences)
