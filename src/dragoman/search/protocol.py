"""The protocol between searches and models, and what every search shares.

A search knows no model and a model knows no search. Between them stands the *next-token model*: it starts a state for
a batch of sources, and from a state and the newest token of each row gives log-probabilities over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.hypothesis import IMPOSSIBLE
from dragoman.search.request import SearchRequest
from dragoman.sequences import SourceBatch


@runtime_checkable
class State(Protocol):
    """What a model carries from step to step, one row per hypothesis."""

    def reorder(self, indices: Int[Tensor, " rows"]) -> State:
        """Keep the rows at `indices`, in that order; a row may be repeated or left out."""
        ...


@runtime_checkable
class NextTokenModel(Protocol):
    """What a search needs of a model: the Transformer families, ensembles and the Markov models all have it.

    A state is used once: after `step` or `reorder` the old one must not be used again.

    A model that finds the likeliest tokens cheaper than all log-probabilities may also have
    `step_top(state, tokens, count, banned) -> (values, best, state)`: `step`, but only the `count` likeliest tokens (or
    all there are) of each row, likeliest first, the banned ones at -inf. Searches use it where they can.
    """

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        ...

    def start(self, sources: SourceBatch) -> Any:
        """Return the state before the first step, one row per source."""
        ...

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Log-probabilities of the token after `tokens` (the first time `<s>`), and the next state."""
        ...


@runtime_checkable
class ParallelScorer(Protocol):
    """A next-token model that scores all positions of given outputs in one pass."""

    def token_log_probabilities(
        self, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Return the natural log-probability of each token of the framed target after its first."""
        ...


class Constraints:
    """Which tokens each row may emit next; the rest get probability zero (log-probability -inf).

    Never what the requests forbid (`<pad>` and `<s>`); nothing but the forced prefix while it lasts; no `</s>` before
    the minimum length; nothing but `</s>` at the maximum length; no repeated n-gram. Log-probabilities are not
    renormalised.
    """

    def __init__(self, requests: Sequence[SearchRequest], device: torch.device) -> None:
        first = requests[0]
        self.options = first.options
        self.max_lengths = [request.max_length for request in requests]
        self.shortest_maximum = min(self.max_lengths)
        self.prefixes = [request.prefix for request in requests]
        self.longest_prefix = max(map(len, self.prefixes))
        self.eos = first.frame.end
        self.never = torch.tensor(first.never, dtype=torch.long, device=device)
        self.never_or_end = torch.tensor((*first.never, self.eos), dtype=torch.long, device=device)

    def banned(self, step: int) -> Int[Tensor, " tokens"]:
        """What no row may emit after `step` tokens."""
        return self.never_or_end if step < self.options.min_length else self.never

    def differ(self, step: int) -> bool:
        """Whether, after `step` tokens, rows may be held to more than `banned`, each to its own."""
        repeats = 0 < self.options.no_repeat_ngram <= step
        return repeats or step >= self.shortest_maximum or step < self.longest_prefix

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        step: int,
        sentences: Sequence[int],
        histories: Callable[[], Sequence[list[int]]],
    ) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities with the forbidden ones at -inf.

        Args:
            log_probs: from the model; not changed.
            step: how many tokens each row has, `<s>` not counted.
            sentences: the sentence of the request that each row belongs to.
            histories: gives the tokens of each row; called where they matter.
        """
        raw = log_probs
        log_probs = log_probs.index_fill(1, self.banned(step), float("-inf"))
        size = self.options.no_repeat_ngram
        if size and step >= size:
            for row, tokens in enumerate(histories()):
                log_probs[row, _closing_tokens(tokens, size)] = float("-inf")
            stuck = (log_probs.amax(1) == float("-inf")).nonzero()[:, 0].tolist()
            _only(log_probs, dict.fromkeys(stuck, self.eos), raw)
        if step >= self.shortest_maximum:
            over = [row for row, sentence in enumerate(sentences) if step >= self.max_lengths[sentence]]
            _only(log_probs, dict.fromkeys(over, self.eos), raw)
        if step < self.longest_prefix:
            prefixes = [self.prefixes[sentence] for sentence in sentences]
            _only(log_probs, {row: prefix[step] for row, prefix in enumerate(prefixes) if step < len(prefix)}, raw)
        return log_probs

    def likeliest(
        self,
        model: NextTokenModel,
        state: Any,
        tokens: Int[Tensor, " rows"],
        count: int,
        step: int,
        sentences: Sequence[int],
        histories: Callable[[], Sequence[list[int]]],
    ) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"], Any]:
        """One step of a model: the `count` likeliest tokens (or all there are) of each row, and the next state.

        A model that can rank for itself does so, wherever the same tokens are forbidden to all rows.

        Args:
            model: the next-token model.
            state: its state.
            tokens: the newest token of each row.
            count: how many to return.
            step: as for `apply`, as are `sentences` and `histories`.
        """
        step_top = getattr(model, "step_top", None)
        if step_top is not None and not self.differ(step):
            return step_top(state, tokens, count, self.banned(step))
        log_probs, state = model.step(state, tokens)
        log_probs = self.apply(log_probs, step, sentences, histories)
        if count == 1:
            values, best = log_probs.max(-1, keepdim=True)  # of equal ones the first
        else:
            values, best = largest(log_probs, count)
        return values, best, state


def largest(
    x: Float[Tensor, "rows columns"], count: int
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """The `count` largest of each row, or all there are, largest first, of equal ones the first: values and columns."""
    count = min(count, x.shape[1])
    values, columns = x.topk(count, dim=1)
    # `topk` takes any of equal ones, and in any order: only where there are some, all are sorted.
    least = values[:, -1:]
    same = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > float("-inf"))
    if bool(same.any() or (((x >= least) & (least > float("-inf"))).sum(1) > count).any()):
        values, columns = (found[:, :count] for found in x.sort(dim=1, descending=True, stable=True))
    return values, columns


def _only(log_probs: Tensor, forced: Mapping[int, int], raw: Tensor) -> None:
    """Rows that may emit nothing but one token each."""
    if not forced:
        return
    rows = torch.tensor(list(forced), dtype=torch.long, device=raw.device)
    tokens = torch.tensor(list(forced.values()), dtype=torch.long, device=raw.device)
    # At the model's own value, even where it was forbidden; what the model finds impossible stays finite, to be ranked.
    values = raw[rows, tokens].clamp(min=IMPOSSIBLE)
    log_probs[rows] = float("-inf")
    log_probs[rows, tokens] = values


def _closing_tokens(tokens: list[int], size: int) -> list[int]:
    """Tokens that would complete an n-gram already in `tokens`; `</s>` is never among them."""
    tail = tokens[len(tokens) - size + 1 :]
    return [tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tokens[i : i + size - 1] == tail]
