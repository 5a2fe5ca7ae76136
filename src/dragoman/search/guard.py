"""A guard against loops: an output that went in circles until the length limit is searched for once more.

Only what the model did not end by itself can be a loop here, and a limit that was set by hand is left alone: so the
guard changes no output that the model ended, and it costs nothing where there is no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest, changed


class Guarded(NamedTuple):
    """What a guarded search finds.

    Attributes:
        hypotheses: of each request, best first.
        again: whether they are those of the second search.
    """

    hypotheses: list[list[Hypothesis]]
    again: list[bool]


def is_finished(hypothesis: Hypothesis, max_length: int) -> bool:
    """Return whether the model ended the output itself: at `max_length` tokens nothing but `</s>` is allowed."""
    return len(hypothesis.tokens) < max_length


def is_loop(tokens: Sequence[int], size: int) -> bool:
    """Return whether an output goes in circles: it repeats itself, and ends without anything new.

    Half of the n-grams of this size, or more, repeat earlier ones, and all in its last quarter do (what lists or counts
    on brings new ones up to its end). Never with fewer n-grams than 2 sizes.
    """
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    if len(grams) < 2 * size or 2 * len(set(grams)) > len(grams):
        return False
    end = len(grams) - max(1, len(grams) // 4)
    return set(grams[end:]) <= set(grams[:end])


def without_loops(request: SearchRequest, found: Sequence[Hypothesis]) -> SearchRequest | None:
    """Return the request that is to be searched once more, repeating no n-gram; None if the first search will do.

    What the second search finds counts only if its best hypothesis is finished. Nothing is searched again if n-grams
    are not repeated anyway, or if `max_length` is set: then it is not loops that outputs are cut for.

    Args:
        request: the option `loop_guard` is the size of the n-grams, 0 searches nothing again.
        found: its hypotheses, best first.
    """
    if not _loops(found[0], request):
        return None
    return request.with_options(changed(request.options, "no_repeat_ngram", request.options.loop_guard))


def _loops(best: Hypothesis, request: SearchRequest) -> bool:
    options = request.options
    size = options.loop_guard
    guarded = size and not options.no_repeat_ngram and options.max_length is None
    return bool(guarded) and not is_finished(best, request.max_length) and is_loop(best.tokens, size)
