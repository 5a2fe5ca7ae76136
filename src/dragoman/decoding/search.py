"""The protocol between searches and models, and what every search shares.

A search knows no model and a model knows no search. Between them stands the *next-token model*: it starts a state for
a batch of sources, and from a state and the newest token of each row gives log-probabilities over the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.errors import ModelError
from dragoman.text.tokenizer import BOS, EOS, PAD


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
    """

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        ...

    def start(self, source: Int[Tensor, "batch src"]) -> Any:
        """The state before the first step, one row per source."""
        ...

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Log-probabilities of the token after `tokens` (the first time `<s>`), and the next state."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One finished output.

    Attributes:
        tokens: ids, without `<s>` and `</s>`.
        log_probability: natural logarithm of the probability of the tokens and the `</s>` after them.
        score: what hypotheses are ranked by: `log_probability` divided by the length penalty.
        token_log_probabilities: one per token, then that of `</s>`; their sum is `log_probability`.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...] = ()


def length_penalty(length: int, alpha: float, formula: str = "gnmt") -> float:
    """What a log-probability is divided by; `length` counts the tokens and `</s>`, not `<s>`.

    Args:
        length: at least 1.
        alpha: 0 is no penalty.
        formula: `gnmt`, ((5 + length) / 6) ** alpha (Wu et al. 2016, used in the paper, section 6.1); or `power`,
            length ** alpha (fairseq, Marian, CTranslate2).
    """
    return (((5 + length) / 6) if formula == "gnmt" else float(length)) ** alpha


def check_numbers(log_probs: Sequence[float]) -> None:
    """Refuse to go on with log-probabilities that are not numbers.

    Raises:
        ModelError: one is NaN: the weights are damaged, or overflow in this precision.
    """
    if any(map(math.isnan, log_probs)):
        raise ModelError(
            "the model gives NaN instead of probabilities", hint="try --device cpu, or an earlier checkpoint"
        )


@dataclass(frozen=True)
class SearchRequest:
    """A batch to decode: sources, and what is particular to each row.

    Attributes:
        source: framed ids, padded, on the model's device.
        source_lengths: real tokens of each row, its `</s>` not counted.
        options: what holds for all rows.
        prefixes: ids that each output must begin with; empty is none.
        seeds: for sampling, one per row; the same row and seed give the same output among any batch mates.
        bos: the token before the first one.
        eos: the token after the last one.
        never: tokens that are never emitted.
    """

    source: Int[Tensor, "batch src"]
    source_lengths: Sequence[int]
    options: DecodingConfig
    prefixes: Sequence[Sequence[int]] = ()
    seeds: Sequence[int] = ()
    bos: int = BOS
    eos: int = EOS
    never: tuple[int, ...] = (PAD, BOS)
    max_lengths: list[int] = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        if options.max_length is not None:
            longest = [options.max_length] * len(self.source_lengths)
        else:
            factor, offset = options.max_length_factor, options.max_length_offset
            longest = [int(length * factor) + offset for length in self.source_lengths]
        if self.prefixes:
            longest = [max(most, len(prefix)) for most, prefix in zip(longest, self.prefixes, strict=True)]
        object.__setattr__(self, "max_lengths", longest)


class Constraints:
    """Which tokens each row may emit next; the rest get probability zero (log-probability -inf).

    Never what the request forbids (`<pad>` and `<s>`); nothing but the forced prefix while it lasts; no `</s>` before
    the minimum length; nothing but `</s>` at the maximum length; no repeated n-gram. Log-probabilities are not
    renormalised.
    """

    def __init__(self, request: SearchRequest) -> None:
        self.options = request.options
        self.max_lengths = request.max_lengths
        self.shortest_maximum = min(request.max_lengths, default=0)
        self.prefixes = request.prefixes
        self.longest_prefix = max((len(prefix) for prefix in request.prefixes), default=0)
        self.eos = request.eos
        self.never = torch.tensor(request.never, dtype=torch.long, device=request.source.device)

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        history: Int[Tensor, "rows len"],
        sentences: Sequence[int],
    ) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities with the forbidden ones at -inf.

        Args:
            log_probs: from the model; not changed.
            history: tokens of each row so far, without `<s>`.
            sentences: the sentence of the request that each row belongs to.
        """
        step, raw = history.shape[1], log_probs
        log_probs = log_probs.index_fill(1, self.never, float("-inf"))
        if step < self.options.min_length:
            log_probs[:, self.eos] = float("-inf")
        size = self.options.no_repeat_ngram
        if size and step >= size:
            for row, tokens in enumerate(history.tolist()):
                log_probs[row, _closing_tokens(tokens, size)] = float("-inf")
            for row in (log_probs.amax(1) == float("-inf")).nonzero()[:, 0].tolist():
                _only(log_probs[row], self.eos, raw[row])
        if step >= self.shortest_maximum:
            for row, sentence in enumerate(sentences):
                if step >= self.max_lengths[sentence]:
                    _only(log_probs[row], self.eos, raw[row])
        if step < self.longest_prefix:
            for row, sentence in enumerate(sentences):
                if step < len(self.prefixes[sentence]):
                    _only(log_probs[row], self.prefixes[sentence][step], raw[row])
        return log_probs


def _only(row: Tensor, token: int, raw: Tensor) -> None:
    # At the model's own value, even where it was forbidden; what the model finds impossible stays finite, to be ranked.
    row.fill_(float("-inf"))
    row[token] = raw[token].clamp(min=torch.finfo(row.dtype).min / 1e3)


def _closing_tokens(tokens: list[int], size: int) -> list[int]:
    """Tokens that would complete an n-gram already in `tokens`; `</s>` is never among them."""
    tail = tokens[len(tokens) - size + 1 :]
    return [tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tokens[i : i + size - 1] == tail]
