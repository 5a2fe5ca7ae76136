"""Lists of several outputs: each text once, and as many as were asked for where a wider beam finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest

Find = Callable[[Sequence[SearchRequest]], list[list[Hypothesis]]]
Decode = Callable[[Sequence[int]], str]

# A beam is widened to so many times its size, at most; and to no more than the search takes.
MOST_TIMES, WIDEST = 32, 1024


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
        wider = _wider([requests[row] for row in rows], times)
        # As many hypotheses at once as the batch had, so that memory stays what it was.
        each = max(1, len(requests) // times)
        for start in range(0, len(rows), each):
            for row, more in zip(rows[start : start + each], find(wider[start : start + each]), strict=True):
                lists[row] = _filled(lists[row], more, requests[row].options.n_best, decode)
    return lists


def _filled(first: Sequence[Hypothesis], more: Sequence[Hypothesis], most: int, decode: Decode) -> list[Hypothesis]:
    """The best of a list, then its others and some more, ranked together."""
    best, *others = first
    ranked = sorted([*others, *(one for one in more if one.score <= best.score)], key=lambda one: -one.score)
    return _once([best, *ranked], decode)[:most]


def _once(hypotheses: Sequence[Hypothesis], decode: Decode) -> list[Hypothesis]:
    first: dict[str, Hypothesis] = {}
    for one in hypotheses:
        first.setdefault(decode(one.tokens), one)
    return list(first.values())


def _wider(requests: Sequence[SearchRequest], times: int) -> list[SearchRequest]:
    """The same requests with all outputs of beams of so many times the size; options that were shared stay shared."""
    sizes = {request.options: min(WIDEST, times * request.options.beam_size) for request in requests}
    wide = {options: options.replace({"beam_size": size, "n_best": size}) for options, size in sizes.items()}
    return [request.with_options(wide[request.options]) for request in requests]
