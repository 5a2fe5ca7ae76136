"""Toy next-token models and the slowest of all searches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.search import Hypothesis, SearchRequest, hypothesis_score
from dragoman.sequences import SourceBatch
from dragoman.text.tokenizer import BOS, EOS


@dataclass
class HistoryState:
    sources: list[list[int]]
    history: Tensor

    def reorder(self, indices: Tensor) -> HistoryState:
        return HistoryState([self.sources[row] for row in indices.tolist()], self.history[indices])


class HistoryModel:
    """A random distribution for every (source, history): nothing a search could get right by luck."""

    device = torch.device("cpu")

    def __init__(self, vocab: int, seed: int = 0, sharpness: float = 2.0) -> None:
        self.vocab, self.seed, self.sharpness = vocab, seed, sharpness

    def start(self, sources: SourceBatch) -> HistoryState:
        rows = [ids[mask].tolist() for ids, mask in zip(sources.ids, sources.mask, strict=True)]
        return HistoryState(rows, sources.ids.new_empty(len(sources), 0))

    def step(self, state: HistoryState, tokens: Tensor) -> tuple[Tensor, HistoryState]:
        history = torch.cat([state.history, tokens[:, None]], dim=1)
        rows = [self.distribution(s, h) for s, h in zip(state.sources, history.tolist(), strict=True)]
        return torch.stack(rows), HistoryState(state.sources, history)

    def distribution(self, source: list[int], history: list[int]) -> Tensor:
        key = self.seed
        for number in [*source, -1, *history]:
            key = (key * 1_000_003 + number + 7) % (2**31 - 1)
        noise = torch.randn(self.vocab, generator=torch.Generator().manual_seed(key), dtype=torch.float64)
        return (noise * self.sharpness).log_softmax(0)


def exhaustive(model: HistoryModel, request: SearchRequest) -> list[Hypothesis]:
    """Every output up to the maximum length, scored and ranked."""
    source = request.source.framed
    words = [token for token in range(model.vocab) if token > EOS or token == 1]
    options = request.options
    found = []
    for length in range(options.min_length, request.max_length + 1):
        for tokens in itertools.product(words, repeat=length):
            if tokens[: len(request.prefix)] != request.prefix:
                continue
            history, values = [BOS], []
            for token in (*tokens, EOS):
                values.append(float(model.distribution(source, history)[token]))
                history.append(token)
            score = hypothesis_score(sum(values), len(values), options.length_penalty, options.length_penalty_formula)
            found.append(Hypothesis(tokens, sum(values), score, tuple(values)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
