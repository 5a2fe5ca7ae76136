"""Batches of rows of like length, within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 4096
MAX_ROWS = 64
MAX_HYPOTHESES = 256


def length_batches(lengths: Sequence[int], beam_size: int = 1, max_rows: int = MAX_ROWS) -> Iterator[list[int]]:
    """Yield rows of like length together, longest first, within a budget of rows and of tokens; empty rows left out.

    Args:
        lengths: tokens of each row.
        beam_size: how many hypotheses a row becomes.
        max_rows: of a batch.
    """
    most = min(max_rows, max(1, MAX_HYPOTHESES // beam_size))
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        fit = max(1, min(most, BATCH_TOKENS // (lengths[order[start]] + 1)))
        yield order[start : start + fit]
        start += fit
