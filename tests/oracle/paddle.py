"""The article's attention with valid lengths, written from its formulas in plain NumPy loops."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def attention(
    state: dict[str, Array], queries: Array, keys: Array, values: Array, valid_lens: Array, heads: int
) -> tuple[Array, Array]:
    """Output [batch, n, out] and weights [batch, heads, n, n]; without W_o, the heads side by side."""
    batch, length, _ = queries.shape
    hidden = state["W_q.weight"].shape[1] // heads
    weights = np.zeros((batch, heads, length, length))
    joined = np.zeros((batch, length, heads * hidden))
    for b in range(batch):
        for h in range(heads):
            columns = [c * heads + h for c in range(hidden)]
            query, key, value = (
                x[b] @ state[f"{name}.weight"][:, columns] + state[f"{name}.bias"][columns]
                for name, x in (("W_q", queries), ("W_k", keys), ("W_v", values))
            )
            for i in range(length):
                scores = [query[i] @ key[j] / math.sqrt(hidden) if j < valid_lens[b] else -1e6 for j in range(length)]
                raised = np.exp(np.array(scores) - max(scores))
                weights[b, h, i] = raised / raised.sum()
                joined[b, i, h * hidden : (h + 1) * hidden] = weights[b, h, i] @ value
    if "W_o.weight" not in state:
        return joined, weights
    return joined @ state["W_o.weight"] + state["W_o.bias"], weights
