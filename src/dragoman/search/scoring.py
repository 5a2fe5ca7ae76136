"""How likely a model finds given outputs: forced decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.protocol import NextTokenModel, ParallelScorer
from dragoman.text.tokenizer import BOS, EOS, PAD


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device | None = None) -> Int[Tensor, "batch len"]:
    """Lists of ids as one matrix, padded at the end."""
    longest = max((len(row) for row in rows), default=0)
    matrix = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for index, row in enumerate(rows):
        matrix[index, : len(row)] = torch.tensor(row, dtype=torch.long)
    return matrix.to(device)


def score_serial(
    model: NextTokenModel,
    source: Int[Tensor, "batch src"],
    targets: Sequence[Sequence[int]],
    *,
    begin: int = BOS,
    end: int = EOS,
    owners: Sequence[int] | None = None,
) -> list[list[float]]:
    """Natural log-probability of each token of each target and of its end, one step at a time.

    Args:
        model: any next-token model.
        source: framed ids, padded.
        targets: unframed ids, one list per row.
        begin: the token before the first one.
        end: the token after the last one.
        owners: the row of `source` that each target belongs to, where there are not as many.
    """
    framed = pad_rows([[begin, *target, end] for target in targets], source.device)
    state = model.start(source)
    if owners is not None:
        state = state.reorder(torch.tensor(owners, device=source.device))
    columns = []
    for step in range(framed.shape[1] - 1):
        log_probs, state = model.step(state, framed[:, step])
        columns.append(log_probs.gather(1, framed[:, step + 1, None]))
    return _unpadded(torch.cat(columns, dim=1), targets)


def score_parallel(
    model: ParallelScorer,
    source: Int[Tensor, "batch src"],
    targets: Sequence[Sequence[int]],
    *,
    begin: int = BOS,
    end: int = EOS,
) -> list[list[float]]:
    """The same in one pass over all positions, for models that can: equal to `score_serial` up to rounding."""
    framed = pad_rows([[begin, *target, end] for target in targets], source.device)
    return _unpadded(model.token_log_probabilities(source, framed), targets)


def score_targets(
    model: NextTokenModel,
    source: Int[Tensor, "batch src"],
    targets: Sequence[Sequence[int]],
    *,
    begin: int = BOS,
    end: int = EOS,
) -> list[list[float]]:
    """The same in one pass where the model can, else step by step."""
    if isinstance(model, ParallelScorer):
        return score_parallel(model, source, targets, begin=begin, end=end)
    return score_serial(model, source, targets, begin=begin, end=end)


def _unpadded(values: Float[Tensor, "batch labels"], targets: Sequence[Sequence[int]]) -> list[list[float]]:
    return [row[: len(target) + 1] for row, target in zip(values.tolist(), targets, strict=True)]
