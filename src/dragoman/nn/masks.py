"""Who may attend to whom (paper section 3.2.3).

A mask is boolean and **True means may attend**, as in `torch.nn.functional.scaled_dot_product_attention` (and the
opposite of `key_padding_mask` in `torch.nn.MultiheadAttention`). Masks broadcast over `[batch, heads, q_len, k_len]`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def key_mask(tokens: Bool[Tensor, "batch k_len"]) -> Bool[Tensor, "batch 1 1 k_len"]:
    """Return which keys may be attended to, from where there are tokens: hides the rest from every query and head."""
    return tokens[:, None, None, :]


def padding_mask(ids: Int[Tensor, "batch k_len"], pad: int) -> Bool[Tensor, "batch 1 1 k_len"]:
    """Return which keys may be attended to, from ids alone: all but those that are `pad`."""
    return key_mask(ids != pad)


def causal_mask(
    q_len: int, k_len: int | None = None, *, device: torch.device | None = None
) -> Bool[Tensor, "1 1 {q_len} keys"]:
    """Return the keys at or before the query's own position: "preventing leftward information flow" (paper 3.2.3).

    Args:
        q_len: number of queries.
        k_len: number of keys; when more than `q_len`, the queries are the last ones (as with a cache).
    """
    k_len = q_len if k_len is None else k_len
    if k_len < q_len:
        raise ValueError(f"a causal mask needs at least as many keys as queries, got q_len {q_len}, k_len {k_len}")
    everyone = torch.ones(1, 1, q_len, k_len, dtype=torch.bool, device=device)
    return everyone.tril(diagonal=k_len - q_len)


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Return one mask that lets a key be attended to only if every mask lets it; None lets everything."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    combined = given[0]
    for mask in given[1:]:
        combined = combined & mask
    return combined
