"""Toy next-token models and the slowest of all searches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.search import Hypothesis, SearchRequest, hypothesis_score
from dragoman.text.tokenizer import BOS, EOS


@dataclass
class HistoryState:
    source: Tensor
    history: Tensor

    def reorder(self, indices: Tensor) -> HistoryState:
        return HistoryState(self.source[indices], self.history[indices])


class HistoryModel:
    """A random distribution for every (source, history): nothing a search could get right by luck."""

    device = torch.device("cpu")

    def __init__(self, vocab: int, seed: int = 0, sharpness: float = 2.0) -> None:
        self.vocab, self.seed, self.sharpness = vocab, seed, sharpness

    def start(self, source: Tensor) -> HistoryState:
        return HistoryState(source, source.new_empty(len(source), 0))

    def step(self, state: HistoryState, tokens: Tensor) -> tuple[Tensor, HistoryState]:
        history = torch.cat([state.history, tokens[:, None]], dim=1)
        rows = [self.distribution(s, h) for s, h in zip(state.source.tolist(), history.tolist(), strict=True)]
        return torch.stack(rows), HistoryState(state.source, history)

    def distribution(self, source: list[int], history: list[int]) -> Tensor:
        key = self.seed
        for number in [*[token for token in source if token], -1, *history]:
            key = (key * 1_000_003 + number + 7) % (2**31 - 1)
        noise = torch.randn(self.vocab, generator=torch.Generator().manual_seed(key), dtype=torch.float64)
        return (noise * self.sharpness).log_softmax(0)


def exhaustive(model: HistoryModel, request: SearchRequest, row: int) -> list[Hypothesis]:
    """Every output up to the maximum length, scored and ranked."""
    source = request.source[row].tolist()
    words = [token for token in range(model.vocab) if token > EOS or token == 1]
    options = request.options
    found = []
    for length in range(options.min_length, request.max_lengths[row] + 1):
        for tokens in itertools.product(words, repeat=length):
            if request.prefixes and list(tokens[: len(request.prefixes[row])]) != list(request.prefixes[row]):
                continue
            history, values = [BOS], []
            for token in (*tokens, EOS):
                values.append(float(model.distribution(source, history)[token]))
                history.append(token)
            score = hypothesis_score(sum(values), len(values), options.length_penalty, options.length_penalty_formula)
            found.append(Hypothesis(tokens, sum(values), score, tuple(values)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
