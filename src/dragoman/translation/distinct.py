"""Lists of several outputs: each text once, and as many as were asked for where a wider beam finds them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest, changed

Decode = Callable[[Sequence[int]], str]
# A search, step by step, as in `translation.plan`.
Search = Callable[[SearchRequest], Generator[Any, Any, list[Hypothesis]]]

# A beam is widened to so many times its size, at most; and to no more than the search takes.
MOST_TIMES, WIDEST = 32, 1024


def distinct_texts(
    request: SearchRequest, found: Sequence[Hypothesis], decode: Decode, search: Search
) -> Generator[Any, Any, list[Hypothesis]]:
    """Return the hypotheses of a request without those whose text a better one has, filled up to `n_best` again.

    Different pieces may make one text. What is missing then comes from the same search with more outputs, then with
    beams of twice the size and more. The first stays what it was: what a wider beam likes better is left out, so that a
    list goes on from the same best output, by falling scores. Drawn outputs stay as they are: they may repeat.

    Args:
        request: what was searched for.
        found: best first.
        decode: makes the text of tokens.
        search: yields what it needs.
    """
    if request.options.n_best == 1 or request.options.sampling:
        return list(found)
    kept = _once(found, decode)
    for times in (2**power for power in range(MOST_TIMES.bit_length())):
        if len(kept) >= request.options.n_best:
            break
        more = yield from search(_wider(request, times))
        best, *others = kept
        ranked = sorted([*others, *(one for one in more if one.score <= best.score)], key=lambda one: -one.score)
        kept = _once([best, *ranked], decode)
    return kept[: request.options.n_best]


def _once(hypotheses: Sequence[Hypothesis], decode: Decode) -> list[Hypothesis]:
    first: dict[str, Hypothesis] = {}
    for one in hypotheses:
        first.setdefault(decode(one.tokens), one)
    return list(first.values())


def _wider(request: SearchRequest, times: int) -> SearchRequest:
    """The same request with all outputs of a beam of so many times the size."""
    size = min(WIDEST, times * request.options.beam_size)
    return request.with_options(changed(changed(request.options, "beam_size", size), "n_best", size))
