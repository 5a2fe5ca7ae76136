"""Greedy search: the likeliest token at each step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from dragoman.search.hypothesis import Hypothesis, check_numbers, make_hypothesis
from dragoman.search.protocol import Constraints, NextTokenModel, SearchRequest

Chooser = Callable[[Tensor, list[int]], Tensor]


def greedy_search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """One hypothesis per row; rows that have emitted `</s>` leave the batch."""
    return follow(model, request)


def follow(model: NextTokenModel, request: SearchRequest, choose: Chooser | None = None) -> list[list[Hypothesis]]:
    """Extend every row by one token at a time until each has emitted `</s>`.

    Args:
        model: the next-token model.
        request: sources and options.
        choose: from log-probabilities `[rows, vocab]`, constraints applied, and the sentence of each row, the next
            token of each row; the likeliest if None.
    """
    source = request.source
    count = len(source)
    constraints = Constraints(request)
    rows = list(range(count))
    texts: list[list[int]] = [[] for _ in rows]
    values: list[list[float]] = [[] for _ in rows]
    tokens = source.new_full((count,), request.bos)
    state = model.start(source)
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
        alive = [index for index, token in enumerate(ids) if token != request.eos]
        if len(alive) < len(rows):
            rows = [rows[index] for index in alive]
            kept = torch.tensor(alive, dtype=torch.long, device=source.device)
            tokens = tokens[kept]
            state = state.reorder(kept) if rows else state
    return [[make_hypothesis(text[:-1], value, request.options)] for text, value in zip(texts, values, strict=True)]


def _at(texts: list[list[int]], rows: list[int]) -> list[list[int]]:
    return [texts[row] for row in rows]
