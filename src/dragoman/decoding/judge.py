"""Judging a model on a test set: translate, then score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config import DecodingConfig
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.evaluation import Score, group_references, score
from dragoman.text import read_lines


@dataclass(frozen=True)
class Evaluation:
    """A model's outputs for a test set and their scores.

    Attributes:
        scores: one per metric, with interval and signature.
        sources: what was translated: each distinct source once, if they were grouped.
        hypotheses: the output for each.
        references: what was accepted for each.
        decoding: the search that was used.
        truncated: numbers of the sources, from 1, that were too long and were cut.
    """

    scores: list[Score]
    sources: list[str]
    hypotheses: list[str]
    references: list[tuple[str, ...]]
    decoding: DecodingConfig
    truncated: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Scores and search as plain values, for JSON."""
        search = self.decoding.model_dump(exclude_defaults=False, exclude_none=True)
        return {"lines": len(self.sources), "scores": [one.to_dict() for one in self.scores], "decoding": search}


def evaluate(
    model: Translator | str | Path,
    source: str | Path,
    references: str | Path | Sequence[str | Path],
    *,
    metrics: Sequence[str] = ("bleu", "chrf"),
    group: bool = False,
    decoding: DecodingConfig | None = None,
    lowercase: bool = False,
    bootstrap: int = 1000,
) -> Evaluation:
    """Translate a file and score the output against one or more reference files.

    Args:
        model: a translator, or a run or model directory.
        source: file of sources.
        references: file of references, line by line, or several such files.
        metrics: names from `dragoman.evaluation.METRICS`.
        group: lines with the same source are one item with several references (as in a pronunciation dictionary).
        decoding: the search; the model's own options if None.
        lowercase: ignore case.
        bootstrap: resampled test sets for the intervals.

    Raises:
        DataError: a file cannot be read, or they have different numbers of lines.
    """
    sources, answers = read_test_set(source, references, group=group)
    translator = model if isinstance(model, Translator) else Translator.from_pretrained(model)
    options = decoding or translator.decoding
    results = translator.translate_with(sources, options)
    hypotheses = [one.text for one in results]
    truncated = tuple(number for number, one in enumerate(results, 1) if one.truncated)
    scores = score(
        hypotheses,
        answers,
        metrics=metrics,
        target_language=translator.languages.target,
        lowercase=lowercase,
        bootstrap=bootstrap,
    )
    return Evaluation(scores, sources, hypotheses, answers, options, truncated)


def read_test_set(
    source: str | Path, references: str | Path | Sequence[str | Path], *, group: bool = False
) -> tuple[list[str], list[tuple[str, ...]]]:
    """The sources and, for each, its references.

    Raises:
        DataError: a file cannot be read, or they have different numbers of lines.
    """
    files = [references] if isinstance(references, (str, Path)) else list(references)
    sources = [line.text for line in read_lines(source)]
    columns = [[line.text for line in read_lines(file)] for file in files]
    for file, column in zip(files, columns, strict=True):
        if len(column) != len(sources):
            raise DataError(
                "sources and references have different numbers of lines",
                file=file,
                expected=f"{len(sources):,} lines, as in {source}",
                found=f"{len(column):,}",
            )
    if not group:
        return sources, list(zip(*columns, strict=True))
    everywhere = [text for column in columns for text in column]
    return group_references(sources * len(columns), everywhere)
