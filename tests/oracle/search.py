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
    """What each row has read and written, the first token included; rows may be at different steps."""

    sources: list[list[int]]
    histories: list[list[int]]

    def reorder(self, indices: Tensor) -> HistoryState:
        rows = indices.tolist()
        return HistoryState([self.sources[row] for row in rows], [self.histories[row] for row in rows])

    def join(self, other: HistoryState) -> HistoryState:
        return HistoryState(self.sources + other.sources, self.histories + other.histories)


class HistoryModel:
    """A random distribution for every (source, history): nothing a search could get right by luck."""

    device = torch.device("cpu")

    def __init__(self, vocab: int, seed: int = 0, sharpness: float = 2.0) -> None:
        self.vocab, self.seed, self.sharpness = vocab, seed, sharpness

    def start(self, sources: SourceBatch) -> HistoryState:
        rows = [[token for token, real in zip(*row, strict=True) if real]
                for row in zip(sources.ids.tolist(), sources.mask.tolist(), strict=True)]  # fmt: skip
        return HistoryState(rows, [[] for _ in rows])

    def step(self, state: HistoryState, tokens: Tensor) -> tuple[Tensor, HistoryState]:
        histories = [[*history, token] for history, token in zip(state.histories, tokens.tolist(), strict=True)]
        rows = [self.distribution(s, h) for s, h in zip(state.sources, histories, strict=True)]
        return torch.stack(rows), HistoryState(state.sources, histories)

    def distribution(self, source: list[int], history: list[int]) -> Tensor:
        key = self.seed
        for number in [*[token for token in source if token], -1, *history]:
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
