"""Second order with skips: every earlier word forms a feature with the last one, and the features vote.

What decides may stand far back. In these two sentences, equally frequent, it is seven words before *ran*:

>>> words = "<pad> <unk> <s> </s> check the program battery log and find out whether it ran down please".split()
>>> def ids(text):
...     return [words.index(word) for word in text.split()]
>>> program = "check the program log and find out whether it ran please"
>>> battery = "check the battery log and find out whether it ran down please"
>>> model = Skips.fit([ids(program), ids(battery)] * 2, len(words), k=0.0)

Nine words stand before *ran*, so nine features vote. The pair *program, ran* knows the answer; the other eight have
seen both and give half a vote to each. The right word wins, but barely, 4 : 5:

>>> history = ids("check the program log and find out whether it ran")
>>> model.votes(history)[ids("down please")].tolist()
[4.0, 5.0]
>>> model.votes(ids("check the battery log and find out whether it ran"))[ids("down please")].tolist()
[5.0, 4.0]

A mask that lets only the features through that matter turns 4 : 5 into 0 : 1. It is learned, from nothing but the
sentences (`dragoman.markov.mask` tells how; to be sure it wants to hear them more often):

>>> masked = MaskedSkips.fit([ids(program), ids(battery)] * 200, len(words), k=0.0)
>>> masked.votes(history)[ids("down please")].tolist()
[0.0, 1.0]
>>> [words[index] for index in masked.attended(ids("ran")[0])]
['program', 'battery']
>>> masked.next(history)[ids("please")].tolist()
[1.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.markov.framing import BOS, PAD, Sequences, pair_events, word_events
from dragoman.markov.mask import learn_mask
from dragoman.markov.model import K, MarkovModel
from dragoman.markov.orders import FirstOrder
from dragoman.markov.table import Transitions

Model = TypeVar("Model", bound="Skips")


class Skips(MarkovModel):
    """The evidence is the sum of votes: each pair of an earlier word and the last one divides one vote.

    A pair that was never seen does not vote. How a history falls into pairs is told in `pair_events`.

    Args:
        pairs: counts after each pair, its number being earlier * vocab + last.
        first: counts after each last word.
        k: as in `MarkovModel`.
        backoff: as in `MarkovModel`.
        mask: what the vote of each pair is multiplied by, from 0 to 1; 1 if None.
    """

    kind, looks_back = "skips", None

    def __init__(
        self,
        pairs: Transitions,
        first: Transitions,
        *,
        k: float = K,
        backoff: float = 0.0,
        mask: Float[Tensor, " pairs"] | None = None,
    ) -> None:
        super().__init__(pairs.vocab, k=k, backoff=backoff)
        self.pairs, self.first = pairs, first
        self.mask = torch.ones(len(pairs.contexts), dtype=torch.float64) if mask is None else mask

    @classmethod
    def fit(cls: type[Model], sequences: Sequences, vocab: int, *, k: float = K, backoff: float = 0.0) -> Model:
        """Count what came after each pair and each last word; arguments as in `MarkovModel`.

        A sequence of n words has n(n - 1)/2 pairs: this is for sentences, not for whole books in one line.

        Raises:
            DataError: there is no sequence, or an id is outside the vocabulary.
        """
        pairs = Transitions.count(pair_events(sequences, vocab), vocab)
        first = Transitions.count(word_events(sequences, vocab, 1), vocab)
        return cls(pairs, first, k=k, backoff=backoff, mask=cls._learned(sequences, pairs, first))

    @classmethod
    def _learned(cls, sequences: Sequences, pairs: Transitions, first: Transitions) -> Tensor | None:
        return None

    @cached_property
    def lower(self) -> FirstOrder:
        """The transitions from the last word alone."""
        return FirstOrder(self.first, k=self.k, backoff=self.backoff)

    def evidence(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows vocab"]:
        """Return the votes for each next word."""
        earlier, new = earlier_words(history)
        found, known = self.pairs.find((earlier * self.vocab + history[:, -1:])[new])
        owners, found = new.nonzero()[known, 0], found[known]
        return self.pairs.add_rows(found, self.mask[found] / self.pairs.totals[found], owners, len(history))

    def votes(self, history: Sequence[int]) -> Float[Tensor, " vocab"]:
        """Return the votes for each word after an unframed history."""
        return self.evidence(torch.tensor([[BOS, *history]]))[0]

    @property
    def numbers(self) -> int:
        """The counts of both tables."""
        return len(self.pairs.counts) + len(self.first.counts)

    def parts(self) -> dict[str, Any]:
        """Return both tables of counts, and the mask."""
        tables = {"pairs": self.pairs, "first": self.first}
        named = {f"{name}.{part}": it for name, table in tables.items() for part, it in table.tensors().items()}
        return {**named, "mask": self.mask}

    @classmethod
    def from_parts(cls: type[Model], vocab: int, parts: Mapping[str, Any], *, k: float, backoff: float) -> Model:
        """Return the model again.

        Raises:
            ValueError: the parts do not make two tables of counts and a mask.
        """
        tables = {
            name: {part.removeprefix(f"{name}."): it for part, it in parts.items() if part.startswith(f"{name}.")}
            for name in ("pairs", "first")
        }
        pairs = Transitions.from_tensors(vocab, 2, tables["pairs"])
        mask = parts.get("mask")
        if mask is None or mask.dtype != torch.float64 or mask.shape != pairs.contexts.shape:
            raise ValueError("the mask is no list of 64-bit numbers, one per pair")
        if not ((mask >= 0) & (mask <= 1)).all():
            raise ValueError("the mask is not between 0 and 1")
        return cls(pairs, Transitions.from_tensors(vocab, 1, tables["first"]), k=k, backoff=backoff, mask=mask)


class MaskedSkips(Skips):
    """Second order with skips and a learned mask: attention to the words that matter, in its plainest form."""

    kind = "masked-skips"

    @classmethod
    def _learned(cls, sequences: Sequences, pairs: Transitions, first: Transitions) -> Tensor | None:
        return learn_mask(sequences, pairs, first)

    @property
    def numbers(self) -> int:
        """The counts of both tables, and the mask."""
        return super().numbers + len(self.mask)

    def attended(self, last: int) -> Int[Tensor, " words"]:
        """Return the earlier words that the last word attends to."""
        open_pairs = (self.pairs.contexts % self.vocab == last) & (self.mask > 0)
        return self.pairs.contexts[open_pairs] // self.vocab


def earlier_words(history: Int[Tensor, "rows len"]) -> tuple[Int[Tensor, "rows earlier"], Any]:
    """Return the words before the last, and which form a pair with it: each word once, `<s>` if there is none."""
    if history.shape[1] == 1:
        alone = torch.full_like(history, PAD)
        return alone, torch.ones_like(alone, dtype=torch.bool)
    earlier = history[:, :1] if history.shape[1] == 2 else history[:, 1:-1]
    again = (earlier[:, :, None] == earlier[:, None, :]).tril(-1).any(-1)
    return earlier, ~again
