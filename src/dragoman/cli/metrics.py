"""How verbs are told what to judge by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.evaluation import Metric

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        help="Some of bleu, chrf, chrf++, ter, exact, wer, word_error, per, cer; repeatable.  [default: bleu,chrf]",
        metavar="NAME",
    ),
]
OneMetric = Annotated[
    list[str] | None,
    typer.Option(
        help="One of those of evaluate; auto: bleu, or chrf or exact where most references are too short.  "
        "[default: auto]",
        metavar="NAME",
    ),
]


def metrics_of(given: Sequence[str], language: str | None, lowercase: bool, tokenize: str | None) -> list[Metric]:
    """Return the metrics that were named, with commas or one by one, each once.

    Raises:
        ConfigError: an option is for none of them.
    """
    from dragoman.errors import ConfigError
    from dragoman.evaluation import Metric

    names = list(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))
    cut = [name for name in names if name in ("auto", "bleu")]
    if names and tokenize is not None and not cut:
        raise ConfigError("none of the metrics uses a tokenizer", expected="bleu", found="--tokenize")
    if names and language is not None and not cut and "ter" not in names:
        found = f"--language and {', '.join(names)}"
        raise ConfigError("none of the metrics depends on the language", expected="bleu or ter", found=found)
    return [Metric(name, language, lowercase, tokenize if name in cut else None) for name in names]


def metric_of(given: Sequence[str] | None, language: str | None, lowercase: bool, tokenize: str | None) -> Metric:
    """Return the one metric that was named; the one that fits where none was.

    Raises:
        ConfigError: there are several, or an option is not for it.
    """
    from dragoman.errors import ConfigError

    named = metrics_of(given or ["auto"], language, lowercase, tokenize)
    if len(named) != 1:
        found = ", ".join(one.name for one in named) or "none"
        raise ConfigError("outputs are judged by a single metric here", expected="--metric once", found=found)
    return named[0]
