"""What a search finished and how it was ranked, with a known target among it: who is wrong, the search or the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.config import DecodingConfig
from dragoman.inspection.facts import RankedHypothesis
from dragoman.search.hypothesis import Hypothesis, hypothesis_score
from dragoman.stages.words import say


def ranked_hypotheses(
    found: Sequence[Hypothesis],
    target: Hypothesis | None,
    text: Callable[[Sequence[int]], str],
    options: DecodingConfig,
) -> tuple[RankedHypothesis, ...]:
    """Return the outputs of a search, best first, the target in its place; none where there is nothing to rank.

    Args:
        found: best first.
        target: what should have been found, if that is known.
        text: the string of some ids.
        options: of the search.
    """
    if target is not None and target.tokens not in [hypothesis.tokens for hypothesis in found]:
        found = sorted([*found, target], key=lambda hypothesis: -hypothesis.score)
    elif len(found) < 2 and target is None:
        return ()
    wanted = None if target is None else target.tokens
    return tuple(
        RankedHypothesis(
            text=text(hypothesis.tokens),
            length=len(hypothesis.tokens) + 1,
            log_probability=hypothesis.log_probability,
            right_to_left=hypothesis.right_to_left,
            alone=_alone(hypothesis, options),
            score=hypothesis.score,
            found=hypothesis is not target,
            wanted=hypothesis.tokens == wanted,
        )
        for hypothesis in found
    )


def _alone(hypothesis: Hypothesis, options: DecodingConfig) -> float:
    alpha, formula = options.length_penalty, options.length_penalty_formula
    return hypothesis_score(hypothesis.log_probability, len(hypothesis.tokens) + 1, alpha, formula)


def ranked_by(options: DecodingConfig, share: float) -> str:
    """Return the formula of a score, as the columns of a ranking name its parts.

    Args:
        options: with the length penalty.
        share: of the right-to-left direction; 0 if outputs are ranked by one.
    """
    both = f"({1 - share:g} · log P→ + {share:g} · log P←)" if share else "log P"
    alpha = options.length_penalty
    if alpha == 0:
        return both.strip("()")
    if options.length_penalty_formula == "reward":
        return f"{both.strip('()')} + {alpha:g} · {say('length')}"
    length = say("length")
    base = f"((5 + {length}) / 6)" if options.length_penalty_formula == "gnmt" else length
    return f"{both} / {base}" + ("" if alpha == 1 else f"^{alpha:g}")


def verdict_of(ranking: Sequence[RankedHypothesis], *, greedy: bool) -> tuple[str, str]:
    """Return why a known target was not written, in a word or two and as a sentence; nothing twice if none is known.

    The kinds are `none`, `search error`, `model error`, and `open`: a greedy search has compared no whole outputs, so
    that what it wrote says nothing of what the model prefers.

    Args:
        ranking: with the target among what was found.
        greedy: whether the search was.
    """
    wanted = next((hypothesis for hypothesis in ranking if hypothesis.wanted), None)
    written = next((hypothesis for hypothesis in ranking if hypothesis.found), None)
    if wanted is None or written is None:
        return "", ""
    if wanted is written:
        return "none", say("The target is what is written.")
    if wanted.score > written.score:
        return "search error", say(
            "The target scores higher than what is written, and was not found: a search error. A wider beam may help."
        )
    if greedy:
        return "open", say(
            "What greedy search wrote scores higher than the target. It compared no whole outputs: see what a beam "
            "finds (--beam-size 4) before the model is blamed."
        )
    return "model error", say("What is written scores higher than the target: a model error. No wider beam would help.")
