"""Bidirectional reranking: outputs ranked by both directions, left to right and right to left (Liu et al. 2016).

A model that writes from left to right judges an end by a beginning that may be wrong already; one that writes from
right to left errs elsewhere. What both find likely is right more often than what one of them does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.search.hypothesis import Hypothesis, hypothesis_score

# Both directions count alike, as in the article.
SHARE = 0.5


def right_to_left_share(options: DecodingConfig, learned: bool) -> float:
    """Return the share of the right-to-left direction in what outputs are ranked by.

    Args:
        options: `right_to_left_weight` is that share; half where unset and learned. Where there is but one output for a
            source, or outputs are drawn, nothing is ranked: 0.
        learned: whether the model learned that direction.

    Raises:
        ConfigError: it is wanted and was not learned.
    """
    weight = options.right_to_left_weight
    if weight and not learned:
        hint = "train with model.right_to_left = true, or leave decoding.right_to_left_weight out"
        raise ConfigError("the model did not learn to read from right to left", found=weight, hint=hint)
    weight = SHARE if weight is None and learned else weight or 0.0
    return weight if options.is_beam_search else 0.0


def reranked(
    found: Sequence[Hypothesis], right_to_left: Sequence[float], share: float, options: DecodingConfig
) -> list[Hypothesis]:
    """Return the `n_best` of the hypotheses of one source, best first, ranked by both directions.

    The hypotheses' own log-probabilities stay those from left to right; their `score` is of both.

    Args:
        found: all that a search finished.
        right_to_left: the log-probability of each in that direction.
        share: of the latter in the score.
        options: with the length penalty, and how many are wanted.
    """
    both = [
        scored_by_both(hypothesis, value, share, options)
        for hypothesis, value in zip(found, right_to_left, strict=True)
    ]
    return sorted(both, key=lambda hypothesis: -hypothesis.score)[: options.n_best]


def scored_by_both(hypothesis: Hypothesis, right_to_left: float, share: float, options: DecodingConfig) -> Hypothesis:
    """Return a hypothesis with a score of both directions.

    Args:
        hypothesis: with its log-probability from left to right.
        right_to_left: the same in the other direction.
        share: of the latter in the score.
        options: with the length penalty.
    """
    both = (1 - share) * hypothesis.log_probability + share * right_to_left
    length = len(hypothesis.tokens) + 1
    score = hypothesis_score(both, length, options.length_penalty, options.length_penalty_formula)
    return replace(hypothesis, score=score, right_to_left=right_to_left)
