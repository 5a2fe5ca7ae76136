"""A guard against loops: an output that went in circles until the length limit is searched for once more.

Only what the model did not end by itself can be a loop here, and a limit that was set by hand is left alone: so the
guard changes no output that the model ended, and it costs nothing where there is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from dragoman.config import DecodingConfig
from dragoman.search.hypothesis import Hypothesis

Found = list[list[Hypothesis]]


@runtime_checkable
class Request(Protocol):
    """What is needed of a batch that is searched for."""

    @property
    def options(self) -> DecodingConfig:
        """What holds for all of it."""
        ...

    @property
    def max_lengths(self) -> list[int]:
        """The most tokens that each output may have."""
        ...

    def only(self, rows: Sequence[int], options: DecodingConfig) -> Any:
        """Some of the batch, with other options."""
        ...


R = TypeVar("R", bound=Request)


def is_finished(hypothesis: Hypothesis, max_length: int) -> bool:
    """Whether the model ended it: at `max_length` tokens nothing but `</s>` is allowed."""
    return len(hypothesis.tokens) < max_length


def is_loop(tokens: Sequence[int], size: int) -> bool:
    """Whether half of the n-grams of this size, or more, stand earlier in the tokens; never with fewer than 2 sizes."""
    count = len(tokens) - size + 1
    return count >= 2 * size and 2 * len({tuple(tokens[i : i + size]) for i in range(count)}) <= count


def search_without_loops(search: Callable[[R], Found], request: R) -> Found:
    """A search's hypotheses; where the best is unfinished and a loop, those of a search that repeats no n-gram.

    What the second search finds is taken only if its best hypothesis is finished. Nothing is searched again if n-grams
    are not repeated anyway, or if `max_length` is set: then it is not loops that outputs are cut for.

    Args:
        search: any search, of a whole batch.
        request: the batch; its option `loop_guard` is the size of the n-grams, 0 searches nothing again.
    """
    found, options = search(request), request.options
    size = options.loop_guard
    if not size or options.no_repeat_ngram or options.max_length is not None:
        return found
    rows = [
        row
        for row, (hypotheses, longest) in enumerate(zip(found, request.max_lengths, strict=True))
        if not is_finished(hypotheses[0], longest) and is_loop(hypotheses[0].tokens, size)
    ]
    if not rows:
        return found
    changed = options.replace({"no_repeat_ngram": size})
    for row, hypotheses in zip(rows, search(request.only(rows, changed)), strict=True):
        if is_finished(hypotheses[0], request.max_lengths[row]):
            found[row] = hypotheses
    return found
