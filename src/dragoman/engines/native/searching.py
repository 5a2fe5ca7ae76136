"""Searches that the native engine runs as a whole: the same hypotheses as `greedy_search` and `beam_search` over it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dragoman.config import DecodingConfig
from dragoman.engines.native.model import NativeModel, default_threads
from dragoman.search.hypothesis import (
    NEVER,
    Hypothesis,
    IdRequest,
    check_numbers,
    check_possible,
    make_hypothesis,
)
from dragoman.text.tokenizer import BOS, EOS, PAD


def search_whole(model: NativeModel, request: IdRequest, threads: int | None = None) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each source, best first, of a greedy or beam search.

    Args:
        model: packed weights whose positions the library knows.
        request: the batch; not for sampling.
        threads: at most so many work on it; all there are if None.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    return search_rows(model, request.framed, request.options, request.max_lengths, request.prefixes, threads=threads)


def search_rows(
    model: NativeModel,
    rows: Sequence[Sequence[int]],
    options: DecodingConfig,
    max_lengths: Sequence[int],
    prefixes: Sequence[Sequence[int]] = (),
    *,
    begin: int = BOS,
    end: int = EOS,
    never: Sequence[int] = NEVER,
    threads: int | None = None,
) -> list[list[Hypothesis]]:
    """The same for framed rows of ids, and any special tokens.

    Args:
        model: packed weights whose positions the library knows.
        rows: framed ids of each source.
        options: what holds for all rows.
        max_lengths: the most tokens that each row's outputs may have.
        prefixes: ids that each row's outputs must begin with; empty is none.
        begin: the token before the first one.
        end: the token after the last one.
        never: tokens that are never emitted.
        threads: at most so many work on it; all there are if None.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    try:
        found = model.search(
            rows, options, max_lengths, prefixes, begin=begin, end=end, never=never,
            threads=threads or default_threads(),
        )  # fmt: skip
    except FloatingPointError:
        check_numbers([math.nan])
        raise
    check_possible(found)
    return [[make_hypothesis(tokens[:-1], values, options) for tokens, values in outputs] for outputs in found]


def force_rows(
    model: NativeModel,
    rows: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    *,
    begin: int = BOS,
    end: int = EOS,
    threads: int | None = None,
) -> list[Hypothesis]:
    """Given outputs as hypotheses, without length penalty: searches that may find nothing else.

    Args:
        model: packed weights whose positions the library knows.
        rows: framed ids of each source.
        outputs: ids of each, unframed.
        begin: the token before the first one.
        end: the token after the last one.
        threads: at most so many work on it; all there are if None.

    Raises:
        ModelError: the model gives NaN.
    """
    only = DecodingConfig(beam_size=1, length_penalty=0.0, loop_guard=0)
    lengths = [len(one) for one in outputs]
    found = search_rows(model, rows, only, lengths, outputs, begin=begin, end=end, never=(PAD,), threads=threads)
    return [one for [one] in found]


def read_whole(
    model: NativeModel,
    sources: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[Sequence[int]]],
    threads: int | None = None,
) -> list[list[float]]:
    """A `dragoman.search.reranking.Reader` that the native engine runs as a whole.

    Args:
        model: packed weights whose positions the library knows.
        sources: framed ids.
        outputs: of each source, unframed.
        threads: at most so many work on it; all there are if None.
    """
    rows = [source for source, some in zip(sources, outputs, strict=True) for _ in some]
    backwards = [one[::-1] for some in outputs for one in some]
    found = iter(force_rows(model, rows, backwards, begin=EOS, end=BOS, threads=threads))
    return [[next(found).log_probability for _ in some] for some in outputs]
