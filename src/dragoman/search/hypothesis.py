"""What searches find, and how it is ranked. Needs no PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import DecodingConfig
from dragoman.errors import ModelError

# Stands for the logarithm of 0 where a token is forced: less than any output has, and what follows still counts.
IMPOSSIBLE = -1e9


@dataclass(frozen=True)
class Hypothesis:
    """One finished output.

    Attributes:
        tokens: ids, without `<s>` and `</s>`.
        log_probability: natural logarithm of the probability of the tokens and the `</s>` after them.
        score: what hypotheses are ranked by (`hypothesis_score`).
        token_log_probabilities: one per token, then that of `</s>`; their sum is `log_probability`.
        right_to_left: the same as `log_probability`, right to left; None where nobody asked.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...] = ()
    right_to_left: float | None = None


def make_hypothesis(
    tokens: Sequence[int], values: Sequence[float], options: DecodingConfig, limit: int | None = None
) -> Hypothesis:
    """Make a hypothesis of tokens and their log-probabilities, that of `</s>` included, added up from the left.

    Args:
        tokens: ids, without `</s>`.
        values: one for each, and for `</s>`.
        options: how it is ranked.
        limit: of its tokens, where one was set: there it may have no `</s>` that counts.
    """
    total, length = added_up(values), len(values)
    if options.end_at_limit == "none" and limit is not None and 0 < limit < length:
        length -= 1
    score = hypothesis_score(total, length, options.length_penalty, options.length_penalty_formula)
    return Hypothesis(tuple(tokens), total, score, tuple(values))


def added_up(values: Sequence[float]) -> float:
    """Return the sum of log-probabilities, added from the left."""
    total = 0.0
    for value in values:  # not `sum`, which rounds otherwise from Python 3.12 on
        total += value
    return total


def hypothesis_score(log_probability: float, length: int, alpha: float, formula: str = "gnmt") -> float:
    """Return the score that hypotheses are ranked by; for one log-probability it never falls with the length.

    Args:
        log_probability: of all tokens, `</s>` included; at most 0.
        length: how many they are, at least 1.
        alpha: 0 ranks by log-probability alone.
        formula: `gnmt` or `power`, a quotient (`length_penalty`); or `reward`, `log_probability` + alpha * `length`
            (He et al. 2016; Murray and Chiang 2018).
    """
    if formula == "reward":
        return log_probability + alpha * length
    return log_probability / length_penalty(length, alpha, formula)


def length_penalty(length: int, alpha: float, formula: str = "gnmt") -> float:
    """Return the divisor of a log-probability; `length` counts the tokens and `</s>`, not `<s>`.

    Args:
        length: at least 1.
        alpha: 0 is no penalty.
        formula: `gnmt`, ((5 + length) / 6) ** alpha (Wu et al. 2016, used in the paper, section 6.1); or `power`,
            length ** alpha (fairseq, Marian, CTranslate2).
    """
    return (((5 + length) / 6) if formula == "gnmt" else float(length)) ** alpha


def check_numbers(log_probs: Sequence[float]) -> None:
    """Refuse to go on with log-probabilities that are not numbers.

    Raises:
        ModelError: one is NaN: the weights are damaged, or overflow in this precision.
    """
    if any(map(math.isnan, log_probs)):
        raise ModelError(
            "the model gives NaN instead of probabilities", hint="try --device cpu, or an earlier checkpoint"
        )


def check_possible(found: Sequence[Sequence[object]]) -> None:
    """Refuse rows without any output.

    Raises:
        ModelError: there is one.
    """
    if not all(found):
        raise ModelError(
            "the model finds every output impossible", hint="a forced prefix may be one it cannot continue"
        )
