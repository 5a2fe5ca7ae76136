"""Hiding pieces of a line for a masked language model to find (Devlin et al. 2019, section 3.1).

Every number is a hash of what it is for: a key (of seed and epoch), the line and the place. So nothing has to be
remembered, and neither the batch that a line is in nor the number of processes changes what is hidden.
"""

from __future__ import annotations

import numpy as np

from dragoman.sequences.source import MASK_ID, MASKED_SPECIALS

SHARE = 0.15
# Of the chosen pieces so many become <mask>, and so many more another piece; the rest stay.
MASKED, REPLACED = 0.8, 0.1
FIRST_PIECE = len(MASKED_SPECIALS.ids)
# What a number is drawn for.
_CHOICE, _COUNT, _FATE, _PIECE = range(4)


def mask_pieces(
    ids: np.ndarray, lengths: np.ndarray, lines: np.ndarray, *, key: int, vocabulary: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose 15 % of the pieces of each line (at least one); hide 80 % of these, replace 10 %, leave 10 %.

    15 % of a line is seldom a whole number: it is rounded up as often as makes the mean exact.

    Args:
        ids: framed at the end only, int64 [batch, width]; a line's pieces come first.
        lengths: how many pieces each line has [batch].
        lines: the number of each line in its store [batch].
        key: of the draw, 0 to 2**63 - 1.
        vocabulary: its size; a replacement is drawn evenly from the ids 5 to vocabulary - 1.

    Returns:
        What the model reads, as `ids`, and which pieces are chosen, bool [batch, width].
    """
    width = ids.shape[1]
    wanted = SHARE * lengths + _uniform(key, _COUNT, lines, 1)[:, 0]
    count = np.minimum(np.maximum(wanted.astype(np.int64), 1), lengths)
    order = _uniform(key, _CHOICE, lines, width)
    order[np.arange(width) >= lengths[:, None]] = 2.0
    ranks = order.argsort(1, kind="stable").argsort(1, kind="stable")
    chosen = ranks < count[:, None]
    fate = _uniform(key, _FATE, lines, width)
    others = FIRST_PIECE + (_uniform(key, _PIECE, lines, width) * (vocabulary - FIRST_PIECE)).astype(np.int64)
    hidden = np.where(fate < MASKED, MASK_ID, np.where(fate < MASKED + REPLACED, others, ids))
    return np.where(chosen, hidden, ids), chosen


def _uniform(key: int, purpose: int, lines: np.ndarray, width: int) -> np.ndarray:
    """Numbers from 0 to below 1 for each line and place, [batch, width]: SplitMix64 of all that they depend on."""
    with np.errstate(over="ignore"):
        mixed = _mixed(np.full(1, key, dtype=np.uint64) + np.uint64(purpose))
        mixed = _mixed(mixed + lines.astype(np.uint64))
        mixed = _mixed(mixed[:, None] + np.arange(width, dtype=np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), its step included."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
