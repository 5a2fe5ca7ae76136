"""Beam search (paper section 6.1), over any next-token model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.hypothesis import (
    Hypothesis,
    check_numbers,
    check_possible,
    hypothesis_score,
    make_hypothesis,
)
from dragoman.search.protocol import NextTokenModel, largest
from dragoman.search.request import SearchRequest
from dragoman.search.running import RunningSearch
from dragoman.search.sentence import Sentence


def beam_search(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each request, best score first, that a beam of `beam_size` finds.

    At each step the 2K best continuations of a sentence's K live hypotheses are ranked by log-probability. Those among
    the first K that end in `</s>` are finished; the K best others live on. (Looking at 2K leaves K to live on even if
    K end; taking ends only from the first K makes a beam of 1 greedy search.) A sentence is done, and leaves the batch,
    once K hypotheses are finished that are all better than the best live one as it stands, or no live one can still
    enter its `n_best`; with `beam_early_stopping` once K are finished.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    beams = [Beam(request) for request in requests]
    running = RunningSearch(model, {"beam": advance_beams})
    running.admit(beams)
    running.run()
    return [beam.found or [] for beam in beams]


class _Line(NamedTuple):
    """A live hypothesis: its log-probability, the row it continues, its newest token and that token's part of it."""

    total: float
    parent: int
    token: int
    value: float


class Beam(Sentence):
    """The live and the finished hypotheses of one sentence: one row, which begins outputs, then `beam_size` rows.

    What each step added is kept by step; the tokens of a hypothesis are found by going back from row to parent row.

    It finishes as its `n_best` hypotheses.
    """

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self.size = request.options.beam_size
        self._steps: list[list[_Line]] = []
        self._finished: list[Hypothesis] = []

    @property
    def group(self) -> tuple[object, ...]:
        """Beams of one size that have equally many rows are ranked together."""
        return ("beam", self.size, self.width)

    @property
    def count(self) -> int | None:
        """So many tokens of each row are looked at."""
        return 2 * self.size

    @property
    def width(self) -> int:
        """How many rows it has."""
        return self.size if self._steps else 1

    @property
    def step(self) -> int:
        """How many tokens each live hypothesis has."""
        return len(self._steps)

    @property
    def totals(self) -> list[float]:
        """The log-probability of each live hypothesis."""
        return [line.total for line in self._steps[-1]] if self._steps else [0.0]

    @property
    def parents(self) -> list[int]:
        """The row that each live hypothesis continues."""
        return [line.parent for line in self._steps[-1]]

    @property
    def tokens(self) -> list[int]:
        """The newest token of each live hypothesis."""
        return [line.token for line in self._steps[-1]]

    def histories(self) -> list[list[int]]:
        """Return the tokens of each live hypothesis."""
        return [[one.token for one in _trace(line, self._steps[:-1])] for line in self._steps[-1]]

    @property
    def finished(self) -> Sequence[Hypothesis]:
        """What is finished so far."""
        return self._finished

    def descend(self, ranked: Sequence[tuple[float, int, int, float]]) -> None:
        """Finish continuations that end, and let the best others live on.

        Args:
            ranked: total log-probability, row, token and the token's log-probability of each, best first.

        Raises:
            ModelError: the model gives NaN, or zero probability to every output.
        """
        live: list[_Line] = []
        for rank, (total, parent, token, value) in enumerate(ranked):
            if total == float("-inf"):
                continue
            if token != self.request.frame.end:
                live.append(_Line(total, parent, token, value))
            elif rank < self.size:
                self._finish(_trace(_Line(total, parent, token, value), self._steps))
        # What is impossible fills up.
        _, parent, token, value = ranked[0]
        dead = _Line(float("-inf"), parent, token, value)
        live = live[: self.size] + [dead] * (self.size - len(live))
        check_numbers([live[0].total])
        if self._is_full(live[0].total, len(self._steps) + 1):
            check_possible([self._finished])
            self.found = self._best(self.request.options.n_best)
        self._steps.append(live)

    def _finish(self, lines: list[_Line]) -> None:
        """Finish the hypothesis of these lines, the last of which ends it."""
        tokens, values = [line.token for line in lines[:-1]], [line.value for line in lines]
        self._finished.append(make_hypothesis(tokens, values, self.request.options, self.request.max_length))

    def _best(self, count: int) -> list[Hypothesis]:
        return sorted(self._finished, key=lambda hypothesis: -hypothesis.score)[:count]

    def _is_full(self, best_live: float, length: int) -> bool:
        """Whether to stop, given the best live log-probability and its tokens so far."""
        if best_live == float("-inf"):
            return True
        size, wanted = self.size, self.request.options.n_best
        if len(self._finished) >= size and self.request.options.beam_early_stopping:
            return True
        # Unlikely early ends alone must not stop a likely hypothesis that goes on: it is compared as it stands.
        if len(self._finished) >= size and self._score(best_live, length) <= self._best(size)[-1].score:
            return True
        if len(self._finished) < wanted:
            return False
        # A log-probability only falls, and what is made of it only rises with length: this bounds every continuation.
        longest = max(self.request.max_length, length) + 1
        return self._score(best_live, longest) <= self._best(wanted)[-1].score

    def _score(self, log_probability: float, length: int) -> float:
        options = self.request.options
        return hypothesis_score(log_probability, length, options.length_penalty, options.length_penalty_formula)


def advance_beams(
    beams: Sequence[Beam], values: Float[Tensor, "rows count"], tokens: Int[Tensor, "rows count"] | None
) -> None:
    """Rank the continuations of beams of one size and equally many rows, and let each go on.

    Args:
        beams: whose rows they are, one after the other.
        values: log-probabilities of the likeliest tokens of each row, likeliest first.
        tokens: these tokens.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a sentence.
    """
    assert tokens is not None
    # The best of each row, [rows, each] -> [beams, width * each], hold the best of the sentence.
    each = values.shape[1]
    values, tokens = (x.reshape(len(beams), -1) for x in (values, tokens))
    before = torch.tensor([beam.totals for beam in beams], dtype=values.dtype, device=values.device)
    totals = before.repeat_interleave(each, dim=1) + values
    best, place = largest(totals, 2 * beams[0].size)
    parents = place.div(each, rounding_mode="floor")
    columns = (best, parents, tokens.gather(1, place), values.gather(1, place))
    for beam, ranked in zip(beams, zip(*(column.tolist() for column in columns), strict=True), strict=True):
        beam.descend(list(zip(*ranked, strict=True)))


def _trace(line: _Line, steps: list[list[_Line]]) -> list[_Line]:
    """A hypothesis from its first to its newest token, `line`, which continues a row of the last of `steps`."""
    found = [line]
    for step in reversed(steps):
        found.append(step[found[-1].parent])
    return found[::-1]
