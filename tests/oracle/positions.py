"""Positions inside attention written from their papers' formulas in plain NumPy loops, independent of `dragoman`."""

from __future__ import annotations

import math

import numpy as np

from oracle.attention import softmax


def rotated(vector: np.ndarray, position: int) -> np.ndarray:
    """RoFormer, equations 14 and 15: a rotation in each plane of columns 2i and 2i + 1."""
    rotated = np.zeros(len(vector))
    for pair in range(len(vector) // 2):
        angle = position * 10000 ** (-2 * pair / len(vector))
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        rotated[2 * pair : 2 * pair + 2] = turn @ vector[2 * pair : 2 * pair + 2]
    return rotated


def rotary_scores(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """One head: query [n, d_k], key [n, d_k] -> [n, n]."""
    queries = [rotated(row, position) for position, row in enumerate(query)]
    keys = [rotated(row, position) for position, row in enumerate(key)]
    return np.array([[one @ other / math.sqrt(len(one)) for other in keys] for one in queries])


def relative_scores(query: np.ndarray, key: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Shaw et al., equations 3 and 4, without the values: rows [2·distance + 1, d_k] -> [n, n]."""
    distance = len(rows) // 2
    scores = np.zeros((len(query), len(key)))
    for i, one in enumerate(query):
        for j, other in enumerate(key):
            row = rows[max(-distance, min(distance, j - i)) + distance]
            scores[i, j] = one @ (other + row) / math.sqrt(len(one))
    return scores


def alibi_slope(head: int, heads: int) -> float:
    """Press et al., section 3: a geometric sequence, and for other numbers of heads one between two of them."""
    power = max(n for n in (1, 2, 4, 8, 16, 32, 64) if n <= heads)
    if head < power:
        return 2 ** -(8 / power * (head + 1))
    return alibi_slope(2 * (head - power), 2 * power)


def alibi_scores(query: np.ndarray, key: np.ndarray, slope: float) -> np.ndarray:
    """Figure 3, mirrored for keys that come later: [n, d_k] -> [n, n]."""
    scores = np.zeros((len(query), len(key)))
    for i, one in enumerate(query):
        for j, other in enumerate(key):
            scores[i, j] = one @ other / math.sqrt(len(one)) - slope * abs(i - j)
    return scores


def weighed(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Softmax over the allowed keys of each row; nothing where none is allowed."""
    weights = np.zeros(scores.shape)
    for i, row in enumerate(scores):
        allowed = np.flatnonzero(mask[i])
        if len(allowed):
            weights[i, allowed] = softmax(row[allowed])
    return weights
