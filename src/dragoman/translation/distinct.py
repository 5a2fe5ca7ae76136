"""Lists of several outputs: each text once, and as many as were asked for where a wider beam finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest

Find = Callable[[Sequence[SearchRequest]], list[list[Hypothesis]]]
Decode = Callable[[Sequence[int]], str]

# A beam is widened to so many times its size, at most; and to no more than the search takes.
MOST_TIMES, WIDEST = 8, 1024


def distinct_texts(
    find: Find, requests: Sequence[SearchRequest], found: Sequence[Sequence[Hypothesis]], decode: Decode
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each request without those whose text a better one has, filled up to `n_best` again.

    Different pieces may make one text. What is missing then comes from the same search with more outputs, then with
    beams of twice the size and more. The first stays what it was: what a wider beam likes better is left out, so that a
    list goes on from the same best output, by falling scores. Drawn outputs stay as they are: they may repeat.

    Args:
        find: the search.
        requests: a batch.
        found: of each request, best first.
        decode: makes the text of tokens.
    """
    lists = [list(some) for some in found]
    rows = [row for row, one in enumerate(requests) if one.options.n_best > 1 and not one.options.sampling]
    for row in rows:
        lists[row] = _once(lists[row], decode)
    for times in (1, *(2**power for power in range(1, MOST_TIMES.bit_length()))):
        rows = [row for row in rows if len(lists[row]) < requests[row].options.n_best]
        wider = [_wider(requests[row], times) for row in rows]
        if not rows:
            break
        for row, more in zip(rows, find(wider), strict=True):
            best, most = lists[row][0], requests[row].options.n_best
            others = [one for one in more if one.score <= best.score]
            ranked = sorted([*lists[row][1:], *others], key=lambda one: -one.score)
            lists[row] = _once([best, *ranked], decode)[:most]
    return lists


def _once(hypotheses: Sequence[Hypothesis], decode: Decode) -> list[Hypothesis]:
    first: dict[str, Hypothesis] = {}
    for one in hypotheses:
        first.setdefault(decode(one.tokens), one)
    return list(first.values())


def _wider(request: SearchRequest, times: int) -> SearchRequest:
    """The same request with all outputs of a beam of so many times the size."""
    size = min(WIDEST, times * request.options.beam_size)
    return request.with_options(request.options.replace({"beam_size": size, "n_best": size}))
