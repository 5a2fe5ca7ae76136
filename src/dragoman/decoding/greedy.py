"""Greedy search: the likeliest token at each step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dragoman.decoding.search import (
    Constraints,
    Hypothesis,
    NextTokenModel,
    SearchRequest,
    check_numbers,
    length_penalty,
)

Chooser = Callable[[Tensor, list[int]], Tensor]


def greedy_search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """One hypothesis per row; rows that have emitted `</s>` leave the batch."""
    return follow(model, request, lambda log_probs, rows: log_probs.argmax(-1))


def follow(model: NextTokenModel, request: SearchRequest, choose: Chooser) -> list[list[Hypothesis]]:
    """Extend every row by the token that `choose` picks until each has emitted `</s>`.

    Args:
        model: the next-token model.
        request: sources and options.
        choose: from log-probabilities `[rows, vocab]`, constraints applied, and the sentence of each row, the next
            token of each row.
    """
    source = request.source
    count = len(source)
    constraints = Constraints(request)
    options = request.options
    done: list[list[Hypothesis]] = [[] for _ in range(count)]
    rows = list(range(count))
    history = source.new_empty(count, 0)
    kept: list[list[float]] = [[] for _ in range(count)]
    tokens = source.new_full((count,), request.bos)
    state = model.start(source)
    while rows:
        log_probs, state = model.step(state, tokens)
        log_probs = constraints.apply(log_probs, history, rows)
        tokens = choose(log_probs, rows)
        chosen = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        check_numbers(chosen)
        for row, value in zip(rows, chosen, strict=True):
            kept[row].append(value)
        ended = tokens == request.eos
        if ended.any():
            for index in ended.nonzero()[:, 0].tolist():
                row = rows[index]
                total = sum(kept[row])
                penalty = length_penalty(len(kept[row]), options.length_penalty, options.length_penalty_formula)
                text = tuple(history[index].tolist())
                done[row].append(Hypothesis(text, total, total / penalty, tuple(kept[row])))
            alive = (~ended).nonzero()[:, 0]
            rows = [rows[index] for index in alive.tolist()]
            history, tokens = history[alive], tokens[alive]
            state = state.reorder(alive) if rows else state
        history = torch.cat([history, tokens[:, None]], dim=1)
    return done
