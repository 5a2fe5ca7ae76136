"""Test sets drawn again: the sums that intervals and paired tests are made of."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64


def bootstrap_sums(
    statistics: Float64[np.ndarray, "lines counts"], *, samples: int, seed: int
) -> Float64[np.ndarray, "samples counts"]:
    """Return the sums of the rows of test sets drawn with replacement, as many lines each (Efron 1979; Koehn 2004).

    Two systems' counts side by side in one matrix are drawn together, which makes the bootstrap paired.
    """
    generator = np.random.default_rng(seed)
    lines = len(statistics)
    sums = np.empty((samples, statistics.shape[1]))
    for row in sums:
        row[:] = np.bincount(generator.integers(lines, size=lines), minlength=lines) @ statistics
    return sums


def swapped_sums(
    first: Float64[np.ndarray, "lines counts"],
    second: Float64[np.ndarray, "lines counts"],
    *,
    samples: int,
    seed: int,
) -> tuple[Float64[np.ndarray, "samples counts"], Float64[np.ndarray, "samples counts"]]:
    """Return sums of two systems, lines exchanged at random (approximate randomisation, Noreen 1989)."""
    generator = np.random.default_rng(seed)
    given = np.empty((samples, first.shape[1]))
    for row in given:
        row[:] = generator.integers(2, size=len(first)) @ (second - first)
    return first.sum(axis=0) + given, second.sum(axis=0) - given


def interval(values: Float64[np.ndarray, " samples"], confidence: float) -> tuple[float, float]:
    """Return the percentile interval that holds the middle `confidence` of the values."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
