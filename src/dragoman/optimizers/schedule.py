"""Learning rates as pure functions of the update number, counted from 1 (paper section 5.3)."""

from __future__ import annotations

import math

from dragoman.config import TrainingConfig

# Updates in which the rate rises to the curve of a longer run, at most.
LONGEST_CLIMB = 300


def paper(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (paper equation 3)."""
    return factor * d_model**-0.5 * min(step**-0.5, step * max(warmup, 1) ** -1.5)


def inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """Return a rate that rises linearly to `peak` at update `warmup`, then falls with the root: the paper's shape,
    its height given by its peak (fairseq's `inverse_sqrt`)."""
    warmup = max(warmup, 1)
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def cosine(step: int, peak: float, warmup: int, last: int) -> float:
    """Return a rate that rises linearly to `peak`, then falls along half a cosine to zero one update after `last`."""
    if step < warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / max(1, last + 1 - warmup))
    return peak * (1 + math.cos(math.pi * progress)) / 2


def constant(step: int, peak: float, warmup: int) -> float:
    """Return a rate that rises linearly to `peak` and stays there."""
    return peak * min(1.0, step / max(warmup, 1))


def rejoined(step: int, curve: float, since: int, rate: float, last: int) -> float:
    """Return the rate on the way from one curve to another, which it reaches after a tenth of the updates to come.

    A lower curve is taken at once; it climbs to a higher one in a line, as in a warm-up, so that the optimiser's
    moments can follow.

    Args:
        step: the update, counted from 1.
        curve: the rate that the new curve has for it.
        since: the last update of the old curve.
        rate: its rate.
        last: the last update of the new one.
    """
    updates = max(1, min(LONGEST_CLIMB, (last - since) // 10))
    return curve if step - since >= updates else min(curve, rate + (curve - rate) * (step - since) / updates)


def learning_rate(step: int, config: TrainingConfig, d_model: int, last: int | None = None) -> float:
    """Return the rate of update `step` under a completed configuration; `last` stands for its `max_steps`."""
    assert config.schedule is not None
    assert config.learning_rate is not None
    assert config.warmup_steps is not None
    peak, warmup = config.learning_rate, config.warmup_steps
    if config.schedule == "paper":
        return paper(step, d_model, warmup, factor=peak)
    if config.schedule == "inverse_sqrt":
        return inverse_sqrt(step, peak, warmup)
    if config.schedule == "cosine":
        assert config.max_steps is not None
        return cosine(step, peak, warmup, last or config.max_steps)
    return constant(step, peak, warmup)
