"""Transition models of order 0, 1 and 2: the next word from no word, the last one, the last two.

Ten commands, of which five ask for photos, three for files, two for directories:

>>> words = "<pad> <unk> <s> </s> show me my directories files photos please".split()
>>> def ids(text):
...     return [words.index(word) for word in text.split()]
>>> asked = [("photos", 5), ("files", 3), ("directories", 2)]
>>> commands = [ids(f"show me my {what} please") for what, times in asked for _ in range(times)]
>>> model = FirstOrder.fit(commands, len(words), k=0.0)
>>> model.next(ids("my"))[ids("photos files directories")].tolist()
[0.5, 0.3, 0.2]

All such rows make the transition matrix, and a one-hot vector times that matrix is the row of its word:

>>> import torch
>>> from dragoman.markov import one_hot
>>> my = one_hot(torch.tensor(ids("my")), len(words))
>>> (my @ model.matrix())[0, ids("photos files directories")].tolist()
[0.5, 0.3, 0.2]

One word back is not always enough. In these two sentences, 40 and 60 times in a hundred, what follows *ran* depends on
the word before it:

>>> words = "<pad> <unk> <s> </s> check whether the battery program ran down please".split()
>>> battery = "check whether the battery ran down please"
>>> program = "check whether the program ran please"
>>> heard = [ids(battery)] * 40 + [ids(program)] * 60
>>> first, second = (rung.fit(heard, len(words), k=0.0) for rung in (FirstOrder, SecondOrder))
>>> first.next(ids("ran"))[ids("down please")].tolist()
[0.4, 0.6]
>>> second.next(ids("battery ran"))[ids("down please")].tolist()
[1.0, 0.0]
>>> second.next(ids("program ran"))[ids("down please")].tolist()
[0.0, 1.0]
>>> second.next(ids("the"))[ids("battery program")].tolist()
[0.4, 0.6]
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.markov.framing import PAD, Sequences, word_events
from dragoman.markov.model import K, MarkovModel
from dragoman.markov.table import Transitions

Model = TypeVar("Model", bound="_Order")


class _Order(MarkovModel):
    """The evidence is how often each word came after the same last words."""

    order: ClassVar[int]

    def __init__(self, table: Transitions, *, k: float = K, backoff: float = 0.0) -> None:
        super().__init__(table.vocab, k=k, backoff=backoff)
        self.table = table

    @classmethod
    def fit(cls: type[Model], sequences: Sequences, vocab: int, *, k: float = K, backoff: float = 0.0) -> Model:
        """Count what came after each context; arguments as in `MarkovModel`.

        Raises:
            DataError: there is no sequence, or an id is outside the vocabulary.
        """
        return cls(Transitions.count(word_events(sequences, vocab, cls.order), vocab), k=k, backoff=backoff)

    def evidence(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows vocab"]:
        """The row of counts of each history's last words."""
        size = len(history)
        context = torch.zeros(size, dtype=torch.long)
        for back in range(self.order, 0, -1):
            context = context * self.vocab + (history[:, -back] if back <= history.shape[1] else PAD)
        rows, known = self.table.find(context)
        return self.table.add_rows(
            rows[known], torch.ones(int(known.sum()), dtype=torch.float64), known.nonzero()[:, 0], size
        )

    @property
    def numbers(self) -> int:
        """The counts."""
        return len(self.table.counts)

    def parts(self) -> dict[str, Any]:
        """The table of counts."""
        return self.table.tensors()

    @classmethod
    def from_parts(cls: type[Model], vocab: int, parts: Mapping[str, Any], *, k: float, backoff: float) -> Model:
        """The model again.

        Raises:
            ValueError: the parts do not make a table of counts.
        """
        return cls(Transitions.from_tensors(vocab, cls.order, parts), k=k, backoff=backoff)


class ZerothOrder(_Order):
    """How frequent each word is, whatever came before: the ground that the ladder stands on."""

    kind, order, looks_back = "zeroth-order", 0, 1
    lower = None


class FirstOrder(_Order):
    """The next word from the last one: a transition matrix of vocab² numbers, nearly all of them zero."""

    kind, order, looks_back = "first-order", 1, 1

    @cached_property
    def lower(self) -> ZerothOrder:
        """The frequencies of the same words."""
        return ZerothOrder(self.table.shortened(0), k=self.k, backoff=self.backoff)

    def matrix(self) -> Float[Tensor, "{self.vocab} {self.vocab}"]:
        """Return the transition matrix in full: row i is the distribution of the word after word i."""
        return self.probabilities(torch.arange(self.vocab)[:, None])


class SecondOrder(_Order):
    """The next word from the last two: vocab² rows, of which those that occurred are kept."""

    kind, order, looks_back = "second-order", 2, 2

    @cached_property
    def lower(self) -> FirstOrder:
        """The transitions from the last word alone."""
        return FirstOrder(self.table.shortened(1), k=self.k, backoff=self.backoff)
