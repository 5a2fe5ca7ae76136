from __future__ import annotations

import pytest
import torch

from dragoman.nn import causal_mask, combine_masks, key_mask, padding_mask


def test_padding_is_hidden():
    assert padding_mask(torch.tensor([[5, 7, 0], [5, 0, 0]]), pad=0).tolist() == [
        [[[True, True, False]]],
        [[[True, False, False]]],
    ]


def test_what_is_no_token_is_hidden_from_every_query_and_head():
    tokens = torch.tensor([[True, False, True]])
    assert key_mask(tokens).tolist() == [[[[True, False, True]]]]


def test_the_future_is_hidden():
    mask = causal_mask(4)[0, 0]
    for query in range(4):
        assert mask[query].tolist() == [key <= query for key in range(4)]


def test_with_more_keys_the_queries_are_the_last_ones():
    assert torch.equal(causal_mask(2, 5), causal_mask(5)[:, :, 3:])
    with pytest.raises(ValueError, match="as many keys"):
        causal_mask(3, 2)


def test_combined_masks_let_through_what_all_let_through():
    ids = torch.tensor([[5, 7, 0]])
    both = combine_masks(padding_mask(ids, 0), None, causal_mask(3))
    assert both is not None
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert combine_masks(None, None) is None
