"""The metric that suits references: BLEU needs some of four tokens, names and single words have none."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from dragoman.evaluation.metrics import (
    BLEU_ORDER,
    Metric,
    count_tokens,
    short_references,
    tokenizer_of,
    unspaced,
)
from dragoman.evaluation.references import References

# A line of one token that is longer is no word, but a sentence in a script that BLEU's tokenizer does not cut.
_LONGEST_WORD = 20
# Scores of fewer lines are said to be vague.
_FEWEST_LINES = 100
# The name that stands for the metric that fits.
AUTO = "auto"


def fitting_metric(references: References, like: Metric | None = None) -> tuple[Metric, str]:
    """Return the metric that can tell outputs for these references apart, and why.

    BLEU where half of them, or more, have four tokens; else exact match where most are single words, and chrF for the
    rest. Blank references do not count.

    Args:
        references: one for each line, or several.
        like: with the language, case and tokenizer of BLEU.

    Raises:
        ConfigError: there is no such tokenizer, or it is not installed.
    """
    like = like or Metric("bleu")
    lists = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    texts = [some[0] for some in lists]
    if (like.tokenize or tokenizer_of(like.language)) == "13a" and unspaced(lists):
        return Metric("chrf", like.language, like.lowercase), "the references look Chinese or Japanese"
    tokens = [count for count in count_tokens(like, lists) if count]
    if short_references(tokens) is None:
        return like, f"most references have {BLEU_ORDER} tokens or more"
    words = 2 * sum(count == 1 for count in tokens) > len(tokens)
    if words and median(len(text.strip()) for text in texts if text.strip()) <= _LONGEST_WORD:
        return Metric("exact", like.language, like.lowercase), "most references are single words"
    enough = sum(count >= BLEU_ORDER for count in tokens)
    why = f"BLEU needs references of {BLEU_ORDER} tokens, and {enough:,} of {len(tokens):,} are so long"
    return Metric("chrf", like.language, like.lowercase), why


def heard_metric(references: References, like: Metric) -> tuple[Metric, str]:
    """Return the metric of transcriptions of what these references say, and why.

    Args:
        references: one for each line, or several.
        like: with the language and case.
    """
    lists = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    if unspaced(lists):
        return Metric("cer", like.language, like.lowercase), "characters that were heard wrong"
    return Metric("wer", like.language, like.lowercase), "words that were heard wrong"


def resolved(metric: Metric | str, references: References) -> tuple[Metric, str | None]:
    """Return the metric that `auto` stands for, and why unless it is BLEU; any other metric as it is.

    Args:
        metric: with the language, case and tokenizer of BLEU, or a name.
        references: one for each line, or several.
    """
    metric = Metric.of(metric)
    if metric.name != AUTO:
        return metric, None
    fitting, why = fitting_metric(references, replace(metric, name="bleu"))
    return fitting, None if fitting.name == "bleu" else f"judged by {fitting.name}: {why}"


def doubt_size(lines: int) -> str | None:
    """Return what so few held-out lines can tell, in words; None where they are enough to tell models apart."""
    if lines >= _FEWEST_LINES:
        return None
    # The normal interval of a share of one half.
    within = min(50.0, 98 / math.sqrt(lines))
    unit = "pair" if lines == 1 else "pairs"
    return (
        f"a dev set of {lines:,} {unit} is small: one of them is {100 / lines:.3g} points, "
        f"and a score of 50 is known to within {within:.0f} points (95 %); a few hundred tell models apart"
    )
