"""What a search is asked: a source, and everything that is particular to it. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

from dragoman.config import DecodingConfig
from dragoman.config.effects import check_search
from dragoman.sequences.source import SPECIALS, Source
from dragoman.sequences.target import FRAME, Direction, Frame

# Tokens that no output has.
NEVER = (SPECIALS.pad, SPECIALS.bos)


@dataclass(frozen=True)
class SearchRequest:
    """One source to decode. Requests with different options may stand in one batch.

    Attributes:
        source: what is read; empty for a model that reads none.
        options: the search.
        prefix: ids that each output must begin with; empty is none.
        seed: for sampling; the same source and seed give the same output among any batch mates.
        frame: the token before the first one of an output, and the one after its last.
        never: tokens that are never emitted.
        limit: tokens of an output at most; by the options and the source's own length if None.
    """

    source: Source
    options: DecodingConfig
    prefix: tuple[int, ...] = ()
    seed: int = 0
    frame: Frame = FRAME
    never: tuple[int, ...] = NEVER
    limit: int | None = None

    @cached_property
    def max_length(self) -> int:
        """The most tokens that an output may have; a prefix is never cut."""
        most = output_limit(self.options, len(self.source)) if self.limit is None else self.limit
        return max(most, len(self.prefix))

    def with_options(self, options: DecodingConfig) -> SearchRequest:
        """Return the same request with another search."""
        return replace(self, options=options)


def output_limit(options: DecodingConfig, length: int) -> int:
    """Return the most tokens that options allow an output for a source of so many tokens of its own."""
    return options.output_limit(length)


def forced_request(
    source: Source, output: Sequence[int], direction: Direction, ctc_weight: float | None = None
) -> SearchRequest:
    """Return a search that can find nothing but a given output, and so tells the log-probabilities of its tokens.

    Args:
        source: what is read.
        output: unframed, from left to right.
        direction: in which it is written.
        ctc_weight: as `decoding.ctc_weight`.
    """
    return SearchRequest(
        source, _given(ctc_weight), tuple(direction.ordered(output)), frame=direction.frame(source.specials),
        never=(source.specials.pad,), limit=len(output),
    )  # fmt: skip


@cache
def _given(ctc_weight: float | None) -> DecodingConfig:
    """Options of a search that has no choice."""
    return DecodingConfig(beam_size=1, length_penalty=0.0, loop_guard=0, ctc_weight=ctc_weight)


@lru_cache(maxsize=256)
def changed(options: DecodingConfig, name: str, value: Any) -> DecodingConfig:
    """Return options with one changed, checked; equal options give the same object, which is searched faster."""
    return options.replace({name: value})


def changed_options(options: DecodingConfig, changes: dict[str, Any]) -> DecodingConfig:
    """Return decoding options with some changed, checked together; the beam grows with `n_best` unless it is given too.

    Raises:
        ConfigError: an option is unknown or wrong, two contradict each other, or one that is changed does nothing.
    """
    n_best, given = changes.get("n_best"), changes.keys()
    if isinstance(n_best, int) and "beam_size" not in changes:
        changes = {**changes, "beam_size": max(options.beam_size, n_best)}
    changed = options.replace(changes)
    if given:
        check_search(changed, given)
    return changed
