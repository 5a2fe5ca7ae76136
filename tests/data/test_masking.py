"""What a masked model is given to find: how much, of what kind, and always the same for the same counters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data import TokenStore, collate_masked
from dragoman.data.masking import FIRST_PIECE, mask_pieces
from dragoman.text.tokenizer import EOS, MASK, PAD

VOCABULARY = 40


def framed(lengths: list[int], seed: int = 0) -> np.ndarray:
    """Random pieces, `</s>` and padding, as an encoder reads them."""
    draw = np.random.default_rng(seed)
    ids = np.full((len(lengths), max(lengths) + 1), PAD, dtype=np.int64)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = draw.integers(FIRST_PIECE, VOCABULARY, length)
        row[length] = EOS
    return ids


def masked(lengths: list[int], key: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids = framed(lengths)
    numbers = np.arange(len(lengths))
    read, chosen = mask_pieces(ids, np.array(lengths), numbers, key=key, vocabulary=VOCABULARY)
    return ids, read, chosen


def within(count: int, of: int, share: float) -> bool:
    """Four standard deviations of the binomial distribution."""
    return abs(count - share * of) <= 4 * math.sqrt(of * share * (1 - share))


@settings(max_examples=60)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(0, 2**63 - 1))
def test_only_pieces_are_chosen_and_all_others_are_read(lengths: list[int], key: int) -> None:
    ids, read, chosen = masked(lengths, key)
    assert (read[~chosen] == ids[~chosen]).all()
    assert not chosen[ids < FIRST_PIECE].any(), "neither </s> nor padding is hidden"
    replaced = read[chosen & (read != MASK)]
    assert ((replaced >= FIRST_PIECE) & (replaced < VOCABULARY)).all()
    for length, row in zip(lengths, chosen, strict=True):
        share = 0.15 * length
        assert row.sum() in {max(1, math.floor(share)), max(1, math.ceil(share))}


def test_15_percent_are_chosen_and_80_10_10_of_these_are_hidden_replaced_and_left() -> None:
    lengths = [7 + i % 40 for i in range(6000)]
    ids, read, chosen = masked(lengths)
    count = int(chosen.sum())
    assert count > 20_000
    # Each line differs from its 15 % by the rounding of one number at most.
    assert abs(count - 0.15 * sum(lengths)) <= 4 * math.sqrt(len(lengths) / 4)
    hidden = int((read[chosen] == MASK).sum())
    others = read[chosen & (read != MASK)]
    changed = int((others != ids[chosen & (read != MASK)]).sum())
    pieces = VOCABULARY - FIRST_PIECE
    assert within(hidden, count, 0.8)
    assert within(changed, count, 0.1 * (pieces - 1) / pieces), "one replacement in so many is the piece itself"
    places = np.nonzero(chosen[:, :7])[1]
    assert all(within(int((places == i).sum()), len(places), 1 / 7) for i in range(7))
    drawn = read[chosen & (read != MASK) & (read != ids)]
    assert all(within(int((drawn == i).sum()), len(drawn), 1 / pieces) for i in range(FIRST_PIECE, VOCABULARY))


def test_a_line_is_hidden_alike_in_any_batch_and_otherwise_with_another_key(tmp_path) -> None:
    draw = np.random.default_rng(3)
    lines = [draw.integers(FIRST_PIECE, VOCABULARY, draw.integers(1, 12)).tolist() for _ in range(30)]
    store = TokenStore.write(tmp_path / "store", [([], line) for line in lines], vocabulary_size=VOCABULARY)
    whole = collate_masked(store, range(30), key=5, vocabulary=VOCABULARY)
    for rows in ([3], [29, 3, 0], range(5, 25)):
        some = collate_masked(store, rows, key=5, vocabulary=VOCABULARY)
        width = some.ids.shape[1]
        assert some.ids.equal(whole.ids[list(rows), :width])
        assert some.labels.equal(whole.labels[list(rows), :width])
        assert some.label_mask.equal(whole.label_mask[list(rows), :width])
        assert some.target_tokens == int(some.label_mask.sum())
        assert some.source_tokens == int(some.mask.sum())
        assert some.mask.equal(some.ids != PAD)
    other = collate_masked(store, range(30), key=6, vocabulary=VOCABULARY)
    assert not other.label_mask.equal(whole.label_mask)
    for row, line in enumerate(lines):
        assert whole.labels[row, : len(line)].tolist() == line


@pytest.mark.parametrize("length", [1, 2, 3])
def test_at_least_one_piece_of_the_shortest_line_is_chosen(length: int) -> None:
    _, _, chosen = masked([length] * 200)
    assert (chosen.sum(1) == 1).all()
