"""Beam search (paper section 6.1), over any next-token model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.search.hypothesis import (
    Hypothesis,
    check_numbers,
    check_possible,
    hypothesis_score,
    make_hypothesis,
)
from dragoman.search.protocol import Constraints, NextTokenModel, State, largest
from dragoman.search.request import SearchRequest
from dragoman.sequences import SourceBatch


def beam_search(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each request, best score first, that a beam of `beam_size` finds.

    All requests have the same options, frame and forbidden tokens.

    At each step the 2K best continuations of a sentence's K live hypotheses are ranked by log-probability. Those among
    the first K that end in `</s>` are finished; the K best others live on. (Looking at 2K leaves K to live on even if
    K end; taking ends only from the first K makes a beam of 1 greedy search.) A sentence is done, and leaves the batch,
    once K hypotheses are finished that are all better than the best live one as it stands, or no live one can still
    enter its `n_best`.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    if not requests:
        return []
    beam = _Beam(model, requests)
    while beam.sentences:
        beam.step()
    check_possible([pool.finished for pool in beam.pools])
    return [pool.best(request.options.n_best) for pool, request in zip(beam.pools, requests, strict=True)]


class _Line(NamedTuple):
    """A live hypothesis: its log-probability, the row it continues, its newest token and that token's part of it."""

    total: float
    parent: int
    token: int
    value: float


@dataclass
class _Pool:
    """The finished hypotheses of one sentence."""

    options: DecodingConfig
    max_length: int
    finished: list[Hypothesis] = field(default_factory=list)

    def add(self, lines: list[_Line]) -> None:
        """Finish the hypothesis of these lines, the last of which is its `</s>`."""
        tokens, values = [line.token for line in lines[:-1]], [line.value for line in lines]
        self.finished.append(make_hypothesis(tokens, values, self.options))

    def best(self, count: int) -> list[Hypothesis]:
        return sorted(self.finished, key=lambda hypothesis: -hypothesis.score)[:count]

    def is_full(self, best_live: float, length: int) -> bool:
        """Whether to stop, given the best live log-probability and its tokens so far."""
        if best_live == float("-inf"):
            return True
        size, wanted = self.options.beam_size, self.options.n_best
        # Unlikely early ends alone must not stop a likely hypothesis that goes on: it is compared as it stands.
        if len(self.finished) >= size and self._score(best_live, length) <= self.best(size)[-1].score:
            return True
        if len(self.finished) < wanted:
            return False
        # A log-probability only falls, and what is made of it only rises with length: this bounds every continuation.
        return self._score(best_live, max(self.max_length, length) + 1) <= self.best(wanted)[-1].score

    def _score(self, log_probability: float, length: int) -> float:
        alpha, formula = self.options.length_penalty, self.options.length_penalty_formula
        return hypothesis_score(log_probability, length, alpha, formula)


class _Beam:
    """The live hypotheses of all unfinished sentences: `width` rows for each, in the order of `sentences`.

    What each step added is kept by step; the tokens of a hypothesis are found by going back from row to parent row.
    """

    def __init__(self, model: NextTokenModel, requests: Sequence[SearchRequest]) -> None:
        count, device, first = len(requests), model.device, requests[0]
        self.model, self.constraints = model, Constraints(requests, device)
        self.size, self.end = first.options.beam_size, first.frame.end
        self.pools = [_Pool(request.options, request.max_length) for request in requests]
        self.sentences = list(range(count))
        self.width = 1  # one row per sentence, `<s>`; the first step makes beam_size of it
        self.state: State = model.start(SourceBatch.of([request.source for request in requests], device))
        self.tokens: Int[Tensor, " rows"] = torch.full((count,), first.frame.begin, device=device)
        self.totals: Float[Tensor, "sentences width"] = torch.zeros(count, 1, device=device)
        self.steps: list[list[_Line]] = []

    def step(self) -> None:
        """Rank continuations, finish those that end, keep the best others of each unfinished sentence."""
        owners = [sentence for sentence in self.sentences for _ in range(self.width)]
        values, tokens, self.state = self.constraints.likeliest(
            self.model, self.state, self.tokens, 2 * self.size, len(self.steps), owners, self._histories
        )
        # The best of each row, [rows, each] -> [sentences, width * each], hold the best of the sentence.
        each = values.shape[1]
        values, tokens = (x.reshape(len(self.sentences), -1) for x in (values, tokens))
        totals = self.totals.repeat_interleave(each, dim=1) + values
        best, place = largest(totals, 2 * self.size)
        parents = place.div(each, rounding_mode="floor")
        columns = (best, parents, tokens.gather(1, place), values.gather(1, place))
        going, lines = [], []
        for index, ranked in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            found = self._advance(index, list(zip(*ranked, strict=True)))
            if not self.pools[self.sentences[index]].is_full(found[0].total, len(self.steps) + 1):
                going.append(self.sentences[index])
                lines += found
        self.sentences = going
        if going:
            self._descend(lines, best.dtype)

    def _advance(self, index: int, ranked: list[tuple[float, int, int, float]]) -> list[_Line]:
        """The lines of a sentence that live on; those that end go to its pool."""
        first, live = index * self.width, []
        for rank, (total, parent, token, value) in enumerate(ranked):
            if total == float("-inf"):
                continue
            if token != self.end:
                live.append(_Line(total, first + parent, token, value))
            elif rank < self.size:
                self.pools[self.sentences[index]].add(_trace(_Line(total, first + parent, token, value), self.steps))
        # What is impossible fills up.
        _, parent, token, value = ranked[0]
        dead = _Line(float("-inf"), first + parent, token, value)
        live = live[: self.size] + [dead] * (self.size - len(live))
        check_numbers([live[0].total])
        return live

    def _descend(self, lines: list[_Line], dtype: torch.dtype) -> None:
        """Let the chosen lines become the live rows; finished sentences leave the batch."""
        device, before = self.tokens.device, len(self.tokens)
        self.steps.append(lines)
        self.width = self.size
        self.tokens = torch.tensor([line.token for line in lines], device=device)
        self.totals = torch.tensor([line.total for line in lines], dtype=dtype, device=device).view(-1, self.size)
        parents = [line.parent for line in lines]
        if parents != list(range(before)):
            self.state = self.state.reorder(torch.tensor(parents, device=device))

    def _histories(self) -> list[list[int]]:
        return [[one.token for one in _trace(line, self.steps[:-1])] for line in self.steps[-1]]


def _trace(line: _Line, steps: list[list[_Line]]) -> list[_Line]:
    """A hypothesis from its first to its newest token, `line`, which continues a row of the last of `steps`."""
    found = [line]
    for step in reversed(steps):
        found.append(step[found[-1].parent])
    return found[::-1]
