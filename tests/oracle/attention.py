"""Attention written from the paper's formulas in plain NumPy loops, independent of `dragoman.nn`."""

from __future__ import annotations

import math

import numpy as np


def softmax(row: np.ndarray) -> np.ndarray:
    raised = np.exp(row - row.max())
    return raised / raised.sum()


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One head: query [q, d_k], key [k, d_k], value [k, d_v], mask [q, k] -> output [q, d_v], weights [q, k]."""
    weights = np.zeros((len(query), len(key)))
    for i, row in enumerate(query):
        allowed = np.flatnonzero(mask[i])
        if len(allowed):
            weights[i, allowed] = softmax(np.array([row @ key[j] / math.sqrt(len(row)) for j in allowed]))
    return weights @ value, weights


def multi_head(
    x: np.ndarray, memory: np.ndarray, weights: dict[str, np.ndarray], heads: int, mask: np.ndarray
) -> np.ndarray:
    """Equation of section 3.2.2: x [q, d], memory [k, d]; W_q, W_k, W_v are lists of per-head [d, d_k] matrices."""
    outputs = []
    for head in range(heads):
        query = x @ weights["q"][head] + weights["bq"][head]
        key = memory @ weights["k"][head] + weights["bk"][head]
        value = memory @ weights["v"][head] + weights["bv"][head]
        outputs.append(attention(query, key, value, mask)[0])
    return np.concatenate(outputs, axis=1) @ weights["o"] + weights["bo"]
