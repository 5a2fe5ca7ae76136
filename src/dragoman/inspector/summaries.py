"""What a trace says in few numbers: how each head looks, which source pieces were attended to, and what is odd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.search.guard import is_loop
from dragoman.stages.stage import Stage

# A source piece that gets less, or more, attention than this from all of the output is pointed out.
LITTLE, MUCH = 0.2, 2.0
_LOOP = 3


def head_summaries(stages: Sequence[Stage], real: dict[str, int]) -> list[dict[str, Any]]:
    """Return a line for each head of each attention.

    `entropy` is in nats, the mean over the queries; `sharpness` the mean of each query's largest weight; `distance` the
    mean distance, in pieces, between a query and what it looks at; `diagonality` is 1 where each query looks at the
    same part of the other sequence as its own, and falls to 0.

    Args:
        stages: of one pass.
        real: how many positions of `src` and `tgt` are no padding.
    """
    found = []
    for stage in stages:
        if not stage.name.endswith(".weights") or stage.values is None:
            continue
        queries, keys = (real[dim] for dim in stage.dims[-2:])
        for head, weights in enumerate(stage.values[0].double()):
            row = {"attention": stage.name.removesuffix(".weights"), "head": head}
            found.append(row | _summary(weights[:queries, :keys]))
    return found


def _summary(weights: Float[Tensor, "q_len k_len"]) -> dict[str, float]:
    queries, keys = weights.shape
    q, k = torch.arange(queries, dtype=weights.dtype)[:, None], torch.arange(keys, dtype=weights.dtype)
    along = (q / max(1, queries - 1) - k / max(1, keys - 1)).abs()
    means = {
        "entropy": -(weights * weights.clamp(min=1e-30).log()).sum(-1).mean(),
        "sharpness": weights.amax(-1).mean(),
        "distance": (weights * (q - k).abs()).sum(-1).mean(),
        "diagonality": 1 - (weights * along).sum(-1).mean(),
    }
    return {name: round(float(value), 6) for name, value in means.items()}


def coverage_of(stages: Sequence[Stage], real: int) -> list[float]:
    """Return how much attention each source piece gets from all positions of the decoder; [] without cross-attention.

    It is the mean over the heads of the last layer but one (or the only one), as alignments have it.

    Args:
        stages: of one pass.
        real: how many source pieces are no padding.
    """
    maps = [stage for stage in stages if stage.name.endswith("cross_attention.weights") and stage.values is not None]
    if not maps:
        return []
    values = maps[max(0, len(maps) - 2)].values
    assert values is not None
    return [round(value, 6) for value in values[0].double().mean(0).sum(0)[:real].tolist()]


def flags_of(
    coverage: Sequence[float],
    source: Sequence[int],
    output: Sequence[int],
    unknown: int,
    *,
    cut: bool,
) -> dict[str, Any]:
    """Return what a reader should be told of.

    Args:
        coverage: of the source pieces.
        source: ids that are read; empty if there are none.
        output: ids that are written, without their end.
        unknown: the id of what the vocabulary lacks.
        cut: whether the output was ended by the length limit.
    """
    return {
        "uncovered": [place for place, value in enumerate(coverage) if value < LITTLE],
        "overcovered": [place for place, value in enumerate(coverage) if value > MUCH],
        "unknown_source": [place for place, token in enumerate(source) if token == unknown],
        "unknown_output": [place for place, token in enumerate(output) if token == unknown],
        "looping": is_loop(output, _LOOP),
        "cut": cut,
    }


def distribution(logits: Float[Tensor, " vocab"], pieces: Sequence[str], ids: Sequence[int]) -> dict[str, Any]:
    """Return the entropy (nats), the logarithm of the softmax's divisor, and the likeliest candidates, likeliest first.

    Args:
        logits: of one step.
        pieces: of the likeliest candidates.
        ids: of the same.
    """
    wide = logits.double()
    logs = wide.log_softmax(-1)
    rows = zip(ids, pieces, logs[list(ids)].tolist(), strict=True)
    likely = torch.where(logs.isfinite(), logs, torch.zeros_like(logs))
    return {
        "entropy": round(float(-(logs.exp() * likely).sum()), 6),
        "log_sum": round(float(wide.logsumexp(-1)), 6),
        "top": [[token, piece, _log(value)] for token, piece, value in rows],
    }


def _log(value: float) -> float | None:
    """A logarithm for JSON, which has no infinity: None is that of 0."""
    return round(value, 6) if math.isfinite(value) else None
