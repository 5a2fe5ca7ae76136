"""How likely a model finds given outputs: forced decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.search.protocol import NextTokenModel, ParallelScorer
from dragoman.sequences import FRAME, Frame, SourceBatch, pad_rows


def score_serial(
    model: NextTokenModel,
    sources: SourceBatch,
    targets: Sequence[Sequence[int]],
    *,
    frame: Frame = FRAME,
    owners: Sequence[int] | None = None,
) -> list[list[float]]:
    """Return the natural log-probability of each token of each target and of its end, one step at a time.

    Args:
        model: any next-token model.
        sources: one for each target, or fewer with `owners`.
        targets: unframed ids, one list per row.
        frame: the tokens before the first one and after the last one.
        owners: the row of `sources` that each target belongs to, where there are not as many.
    """
    framed = pad_rows([[frame.begin, *target, frame.end] for target in targets], sources.device)
    state = model.start(sources)
    if owners is not None:
        state = state.reorder(torch.tensor(owners, device=sources.device))
    columns = []
    for step in range(framed.shape[1] - 1):
        log_probs, state = model.step(state, framed[:, step])
        columns.append(log_probs.gather(1, framed[:, step + 1, None]))
    return _unpadded(torch.cat(columns, dim=1), targets)


def score_parallel(
    model: ParallelScorer,
    sources: SourceBatch,
    targets: Sequence[Sequence[int]],
    *,
    frame: Frame = FRAME,
) -> list[list[float]]:
    """Return what `score_serial` does, up to rounding, in one pass over all positions, for models that can."""
    framed = pad_rows([[frame.begin, *target, frame.end] for target in targets], sources.device)
    return _unpadded(model.token_log_probabilities(sources, framed), targets)


def score_targets(
    model: NextTokenModel,
    sources: SourceBatch,
    targets: Sequence[Sequence[int]],
    *,
    frame: Frame = FRAME,
) -> list[list[float]]:
    """Return what `score_serial` does, in one pass where the model can, else step by step."""
    if isinstance(model, ParallelScorer):
        return score_parallel(model, sources, targets, frame=frame)
    return score_serial(model, sources, targets, frame=frame)


def _unpadded(values: Float[Tensor, "batch labels"], targets: Sequence[Sequence[int]]) -> list[list[float]]:
    return [row[: len(target) + 1] for row, target in zip(values.tolist(), targets, strict=True)]
