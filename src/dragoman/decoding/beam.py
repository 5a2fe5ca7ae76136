"""Beam search (paper section 6.1), over any next-token model."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.decoding.search import (
    Constraints,
    Hypothesis,
    NextTokenModel,
    SearchRequest,
    State,
    check_numbers,
    length_penalty,
)
from dragoman.errors import ModelError


def beam_search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each row, best score first, that a beam of `beam_size` finds.

    At each step the 2K best continuations of a sentence's K live hypotheses are ranked by log-probability. Those among
    the first K that end in `</s>` are finished; the K best others live on. (Looking at 2K leaves K to live on even if
    K end; taking ends only from the first K makes a beam of 1 greedy search.) A sentence is done, and leaves the batch,
    once K hypotheses are finished that are all better than the best live one as it stands, or no live one can still
    enter its `n_best`.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output of a row.
    """
    beam = _Beam.start(model, request)
    constraints = Constraints(request)
    while beam.sentences:
        log_probs, beam.state = model.step(beam.state, beam.tokens)
        owners = [sentence for sentence in beam.sentences for _ in range(beam.width)]
        log_probs = constraints.apply(log_probs, beam.history, owners)
        beam.advance(log_probs)
    if not all(pool.finished for pool in beam.pools):
        raise ModelError(
            "the model finds every output impossible", hint="a forced prefix may be one it cannot continue"
        )
    return [pool.best(request.options.n_best) for pool in beam.pools]


@dataclass
class _Pool:
    """The finished hypotheses of one sentence."""

    options: DecodingConfig
    max_length: int
    finished: list[Hypothesis] = field(default_factory=list)

    def add(self, tokens: list[int], values: list[float]) -> None:
        total = sum(values)
        score = total / self._penalty(len(values))
        self.finished.append(Hypothesis(tuple(tokens), total, score, tuple(values)))

    def best(self, count: int) -> list[Hypothesis]:
        return sorted(self.finished, key=lambda hypothesis: -hypothesis.score)[:count]

    def is_full(self, best_live: float, length: int) -> bool:
        """Whether to stop, given the best live log-probability and its tokens so far."""
        if best_live == float("-inf"):
            return True
        size, wanted = self.options.beam_size, self.options.n_best
        # Unlikely early ends alone must not stop a likely hypothesis that goes on: it is compared as it stands.
        if len(self.finished) >= size and best_live / self._penalty(length) <= self.best(size)[-1].score:
            return True
        if len(self.finished) < wanted:
            return False
        # A log-probability only falls and its penalty only rises with length: this bounds every continuation.
        return best_live / self._penalty(max(self.max_length, length) + 1) <= self.best(wanted)[-1].score

    def _penalty(self, length: int) -> float:
        return length_penalty(length, self.options.length_penalty, self.options.length_penalty_formula)


@dataclass
class _Beam:
    """The live hypotheses of all unfinished sentences: `width` rows for each, in the order of `sentences`."""

    options: DecodingConfig
    pools: list[_Pool]
    sentences: list[int]
    width: int
    state: State
    tokens: Int[Tensor, " rows"]
    eos: int
    totals: Float[Tensor, "sentences width"]
    history: Int[Tensor, "rows len"]
    values: Float[Tensor, "rows len"]

    @classmethod
    def start(cls, model: NextTokenModel, request: SearchRequest) -> _Beam:
        source = request.source
        count = len(source)
        return cls(
            options=request.options,
            pools=[_Pool(request.options, longest) for longest in request.max_lengths],
            sentences=list(range(count)),
            width=1,  # one row per sentence, `<s>`; the first step makes beam_size of it
            state=model.start(source),
            tokens=source.new_full((count,), request.bos),
            eos=request.eos,
            totals=torch.zeros(count, 1, device=source.device),
            history=source.new_empty(count, 0),
            values=torch.zeros(count, 0, device=source.device),
        )

    def advance(self, log_probs: Float[Tensor, "rows vocab"]) -> None:
        """Rank continuations, finish those that end, keep the best others of each unfinished sentence."""
        vocab = log_probs.shape[-1]
        size = self.options.beam_size
        # [rows, vocab] -> [sentences, width * vocab]
        totals = self.totals[:, :, None] + log_probs.view(len(self.sentences), self.width, vocab)
        totals = totals.flatten(1)
        best, place = totals.topk(min(2 * size, totals.shape[1]), dim=-1)
        parent, token = place // vocab, place % vocab
        first_row = torch.arange(len(self.sentences), device=place.device)[:, None] * self.width
        row = first_row + parent
        value = log_probs[row, token]

        ends = (token == self.eos) & (best > float("-inf"))
        self._finish(ends[:, :size], row, value)

        lives, picked = _first_live(ends, best, size)
        self.totals = lives
        row, token, value = (x.gather(1, picked) for x in (row, token, value))
        self._descend(row, token, value, size)

    def _finish(self, ends: Bool[Tensor, "sentences ranks"], row: Tensor, value: Tensor) -> None:
        for index, rank in ends.nonzero().tolist():
            source_row = int(row[index, rank])
            values = [*self.values[source_row].tolist(), float(value[index, rank])]
            self.pools[self.sentences[index]].add(self.history[source_row].tolist(), values)

    def _descend(self, row: Tensor, token: Tensor, value: Tensor, size: int) -> None:
        """Let the chosen continuations become the live rows; finished sentences leave the batch."""
        length = self.history.shape[1] + 1
        best_live = self.totals[:, 0].tolist()
        check_numbers(best_live)
        open_ = [
            index
            for index, sentence in enumerate(self.sentences)
            if not self.pools[sentence].is_full(best_live[index], length)
        ]
        self.sentences = [self.sentences[index] for index in open_]
        if not self.sentences:
            return
        if len(open_) < len(row):
            keep = torch.tensor(open_, device=row.device)
            row, token, value, self.totals = row[keep], token[keep], value[keep], self.totals[keep]
        rows, before = row.flatten(), len(self.tokens)
        self.tokens = token.flatten()
        self.history = torch.cat([self.history[rows], self.tokens[:, None]], dim=1)
        self.values = torch.cat([self.values[rows], value.flatten()[:, None]], dim=1)
        if len(rows) != before or not torch.equal(rows, torch.arange(before, device=rows.device)):
            self.state = self.state.reorder(rows)
        self.width = size


def _first_live(
    ends: Bool[Tensor, "sentences ranks"], best: Float[Tensor, "sentences ranks"], size: int
) -> tuple[Float[Tensor, "sentences {size}"], Int[Tensor, "sentences {size}"]]:
    """Totals and ranks of the first `size` continuations that do not end; impossible ones fill up at -inf."""
    open_totals = best.masked_fill(ends, float("-inf"))
    order = (open_totals == float("-inf")).to(torch.int8).argsort(dim=1, stable=True)[:, :size]
    totals = open_totals.gather(1, order)
    missing = size - order.shape[1]
    if missing > 0:
        order = torch.cat([order, order[:, :1].expand(-1, missing)], dim=1)
        totals = torch.cat([totals, totals.new_full((len(totals), missing), float("-inf"))], dim=1)
    return totals, order
