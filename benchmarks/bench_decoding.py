"""Greedy and beam search with key and value caches against recomputing the whole prefix at each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from rows import print_rows, settle
from torch import Tensor
from workload import TINY

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.models import build_model
from dragoman.nn import Transformer, causal_mask
from dragoman.search import Hypothesis, SearchRequest, beam_search, greedy_search
from dragoman.sequences import SourceBatch, sources_of

Search = Callable[..., list[list[Hypothesis]]]
# How to search, the size of the beam, sentences at once, tokens of each.
CASES: tuple[tuple[Search, int, int, int], ...] = (
    (greedy_search, 1, 1, 13), (greedy_search, 1, 32, 13), (beam_search, 4, 1, 13), (beam_search, 4, 32, 13),
    (greedy_search, 1, 1, 40), (greedy_search, 1, 32, 40),
)  # fmt: skip


@dataclass
class Prefixes:
    """A state without caches: the memory, encoded once, and all tokens so far."""

    memory: Tensor
    memory_mask: Tensor
    tokens: Tensor

    def reorder(self, indices: Tensor) -> Prefixes:
        return Prefixes(self.memory[indices], self.memory_mask[indices], self.tokens[indices])


class Recomputing:
    """A next-token model that runs the decoder over the whole prefix at each step."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.device = model.eval(), torch.device("cpu")

    @torch.no_grad()
    def start(self, sources: SourceBatch) -> Prefixes:
        memory, mask = self.model.encode(sources.ids)
        return Prefixes(memory, mask, sources.ids.new_empty(len(sources), 0))

    @torch.no_grad()
    def step(self, state: Prefixes, tokens: Tensor) -> tuple[Tensor, Prefixes]:
        prefix = torch.cat([state.tokens, tokens[:, None]], dim=1)
        embedded, model = self.model.target_embedding(prefix), self.model
        hidden = model.decoder(embedded, causal_mask(prefix.shape[1]), state.memory, state.memory_mask)
        return model.generator(hidden[:, -1]).log_softmax(-1), Prefixes(state.memory, state.memory_mask, prefix)


def forced(batch: int, length: int, beam_size: int) -> list[SearchRequest]:
    """Random sources of one length; every output is exactly as long, so that all searches do equal work."""
    rows = torch.randint(5, TINY.source_vocab or 0, (batch, length)).tolist()
    options = DecodingConfig(beam_size=beam_size, min_length=length, max_length=length)
    return [SearchRequest(source, options) for source in sources_of(rows)]


def same_outputs(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> float:
    pairs = list(zip(one, other, strict=True))
    return sum(a[0].tokens == b[0].tokens for a, b in pairs) / len(pairs)


def main() -> None:
    settle()
    model = build_model(TINY)
    assert isinstance(model, Transformer)
    engines = {"recomputing": Recomputing(model), "caches": ModuleEngine(model)}
    for search, beam_size, batch, length in CASES:
        request = forced(batch, length, beam_size)
        runs = {kind: lambda e=engine, s=search, r=request: s(e, r) for kind, engine in engines.items()}
        same = same_outputs(*(run() for run in runs.values()))
        facts = {"beam_size": beam_size, "batch": batch, "length": length, "same_outputs": same}
        work = {"output_tokens": batch * (length + 1), "sentences": batch}
        print_rows("decoding", facts, runs, budget=3.0, work=work)


if __name__ == "__main__":
    main()
