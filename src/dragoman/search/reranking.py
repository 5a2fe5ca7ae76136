"""Searches whose outputs are ranked by both readings, from left to right and from right to left (Liu et al. 2016).

A model that writes from left to right judges an end by a beginning that may be wrong already; one that writes from
right to left errs elsewhere. What both find likely is right more often than what one of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.search.hypothesis import Hypothesis, IdRequest, hypothesis_score

Search = Callable[[IdRequest], list[list[Hypothesis]]]
# Of a batch: its framed sources, and outputs of each; gives the log-probability of each output read backwards.
Reader = Callable[[Sequence[Sequence[int]], Sequence[Sequence[Sequence[int]]]], list[list[float]]]
# Both readings count alike, as in the article.
WEIGHT = 0.5


def in_directions(search: Search, read: Reader, options: DecodingConfig, right_to_left: bool) -> Search:
    """A search as the options want it: from left to right alone, or its outputs ranked by both readings.

    Args:
        search: from left to right.
        read: reads outputs from right to left.
        options: of the search (`right_to_left_share`).
        right_to_left: whether the model learned the latter.

    Raises:
        ConfigError: it is wanted and was not learned.
    """
    weight = right_to_left_share(options, right_to_left)
    return partial(search_both_ways, search, read, weight) if weight else search


def right_to_left_share(options: DecodingConfig, right_to_left: bool) -> float:
    """The share of the reading from right to left in what outputs are ranked by.

    Args:
        options: `right_to_left_weight` is that share; half where unset and learned. Where there is but one output for a
            source, or outputs are drawn, nothing is ranked: 0.
        right_to_left: whether the model learned that.

    Raises:
        ConfigError: it is wanted and was not learned.
    """
    weight = options.right_to_left_weight
    if weight and not right_to_left:
        hint = "train with model.right_to_left = true, or leave decoding.right_to_left_weight out"
        raise ConfigError("the model did not learn to read from right to left", found=weight, hint=hint)
    weight = WEIGHT if weight is None and right_to_left else weight or 0.0
    return weight if options.is_beam_search else 0.0


def search_both_ways(search: Search, read: Reader, weight: float, request: IdRequest) -> list[list[Hypothesis]]:
    """All that a beam finishes, ranked by the mean of both log-probabilities, each with its share; the `n_best` of it.

    The hypotheses' own log-probabilities stay those from left to right; their `score` is of both.

    Args:
        search: finds outputs from left to right.
        read: tells their log-probabilities from right to left.
        weight: the share of the latter.
        request: the batch.
    """
    options = request.options
    found = search(replace(request, options=options.replace({"n_best": options.beam_size})))
    behind = read(request.framed, [[one.tokens for one in hypotheses] for hypotheses in found])
    ranked = []
    for hypotheses, values in zip(found, behind, strict=True):
        both = [ranked_by_both(one, value, weight, options) for one, value in zip(hypotheses, values, strict=True)]
        ranked.append(sorted(both, key=lambda one: -one.score)[: options.n_best])
    return ranked


def ranked_by_both(one: Hypothesis, behind: float, weight: float, options: DecodingConfig) -> Hypothesis:
    """A hypothesis whose score is of both readings.

    Args:
        one: with its log-probability from left to right.
        behind: the same from right to left.
        weight: the share of the latter.
        options: with the length penalty.
    """
    both = (1 - weight) * one.log_probability + weight * behind
    length = len(one.tokens) + 1
    score = hypothesis_score(both, length, options.length_penalty, options.length_penalty_formula)
    return replace(one, score=score, right_to_left=behind)
