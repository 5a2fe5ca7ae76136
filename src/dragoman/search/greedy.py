"""Greedy search: the likeliest token at each step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dragoman.search.hypothesis import Hypothesis, check_numbers, make_hypothesis
from dragoman.search.protocol import Constraints, NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.sequences import SourceBatch

Chooser = Callable[[Tensor, list[int]], Tensor]


def greedy_search(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return one hypothesis for each request; rows that have emitted `</s>` leave the batch.

    All requests have the same options, frame and forbidden tokens.
    """
    return follow(model, requests)


def follow(
    model: NextTokenModel, requests: Sequence[SearchRequest], choose: Chooser | None = None
) -> list[list[Hypothesis]]:
    """Extend every row by one token at a time until each has emitted `</s>`.

    Args:
        model: the next-token model.
        requests: of the same options, frame and forbidden tokens.
        choose: from log-probabilities `[rows, vocab]`, constraints applied, and the sentence of each row, the next
            token of each row; the likeliest if None.
    """
    if not requests:
        return []
    count, device, first = len(requests), model.device, requests[0]
    constraints = Constraints(requests, device)
    rows = list(range(count))
    texts: list[list[int]] = [[] for _ in rows]
    values: list[list[float]] = [[] for _ in rows]
    tokens = torch.full((count,), first.frame.begin, device=device)
    state = model.start(SourceBatch.of([request.source for request in requests], device))
    for step in itertools.count():
        if not rows:
            break
        histories = functools.partial(_at, texts, rows)
        if choose is None:
            best, ranked, state = constraints.likeliest(model, state, tokens, 1, step, rows, histories)
            chosen, tokens = best[:, 0].tolist(), ranked[:, 0]
        else:
            log_probs, state = model.step(state, tokens)
            log_probs = constraints.apply(log_probs, step, rows, histories)
            tokens = choose(log_probs, rows)
            chosen = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        check_numbers(chosen)
        ids = tokens.tolist()
        for row, token, value in zip(rows, ids, chosen, strict=True):
            texts[row].append(token)
            values[row].append(value)
        alive = [index for index, token in enumerate(ids) if token != first.frame.end]
        if len(alive) < len(rows):
            rows = [rows[index] for index in alive]
            kept = torch.tensor(alive, dtype=torch.long, device=device)
            tokens = tokens[kept]
            state = state.reorder(kept) if rows else state
    return [[make_hypothesis(text[:-1], value, first.options)] for text, value in zip(texts, values, strict=True)]


def _at(texts: list[list[int]], rows: list[int]) -> list[list[int]]:
    return [texts[row] for row in rows]
