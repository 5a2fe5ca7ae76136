"""Skips and mask as matrix products: how attention and a feed-forward layer compute what the look-up does.

The last word is a one-hot vector of the vocabulary's length, the earlier words one vector with several ones. Then

1. attention: `last @ mask` is the mask's row for the last word (QKᵀ, a query looking up keys), and
   `attended = earlier * (last @ mask)` lets through what matters;
2. features: the layer's input is `[last, attended, 1]`. The column of a feature has weight 1 at its last word, 1 at its
   earlier word and -1 at the constant 1: only both together reach above 0, and ReLU cuts off the rest;
3. transitions: `features @ transitions` adds up the rows of the features that are on: the votes.

Steps 2 and 3 are max(0, xW₁ + b₁)W₂, the feed-forward block of a Transformer.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.markov.one_hot import one_hot, several_hot
from dragoman.markov.skips import MaskedSkips, earlier_words
from dragoman.nn import FeedForward


class MatrixSkips(MaskedSkips):
    """`MaskedSkips` computed by matrix products, the matrices kept sparse.

    Examples:
        >>> words = "<pad> <unk> <s> </s> check the program battery log and find out whether it ran down please".split()
        >>> def ids(text):
        ...     return [words.index(word) for word in text.split()]
        >>> program = ids("check the program log and find out whether it ran please")
        >>> battery = ids("check the battery log and find out whether it ran down please")
        >>> model = MatrixSkips.fit([program, battery] * 200, len(words), k=0.0)
        >>> model.votes(program[:-1])[ids("down please")].tolist()
        [0.0, 1.0]
        >>> model.votes(battery[:-2])[ids("down please")].tolist()
        [1.0, 0.0]
        >>> ran, log = (one_hot(torch.tensor(ids(word)), len(words)) for word in ("ran", "log"))
        >>> (ran @ model.mask_matrix.to_dense())[0, ids("check the program battery")].tolist()
        [0.0, 0.0, 1.0, 1.0]
    """

    kind = "matrix-skips"

    @cached_property
    def _open(self) -> Tensor:
        """The features that the mask leaves."""
        return self.mask.nonzero()[:, 0]

    @cached_property
    def mask_matrix(self) -> Float[Tensor, "{self.vocab} {self.vocab}"]:
        """Sparse; row: last word, column: earlier word."""
        pairs = self.pairs.contexts[self._open]
        return _sparse(pairs % self.vocab, pairs // self.vocab, self.mask[self._open], (self.vocab, self.vocab))

    @cached_property
    def feature_matrix(self) -> Float[Tensor, "inputs features"]:
        """Sparse, 1 and -1; row: last word, vocab + earlier word, or the constant at the end."""
        return self._features(self._open)

    @cached_property
    def transition_matrix(self) -> Float[Tensor, "features {self.vocab}"]:
        """Sparse; the fractions of what followed each feature."""
        return self._transitions(self._open)

    def _features(self, chosen: Tensor) -> Tensor:
        """The columns of some features."""
        pairs, size = self.pairs.contexts[chosen], len(chosen)
        rows = torch.cat([pairs % self.vocab, self.vocab + pairs // self.vocab, torch.full((size,), 2 * self.vocab)])
        ones = torch.ones(size, dtype=torch.float64)
        shape = (2 * self.vocab + 1, size)
        return _sparse(rows, torch.arange(size).repeat(3), torch.cat([ones, ones, -ones]), shape)

    def _transitions(self, chosen: Tensor) -> Tensor:
        """The rows of some features."""
        entries, rows = self.pairs.entries_of(chosen)
        fractions = self.pairs.counts[entries] / self.pairs.totals[chosen][rows].double()
        return _sparse(rows, self.pairs.words[entries], fractions, (len(chosen), self.vocab))

    def attend(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows inputs"]:
        """Return `[last, attended, 1]` for each history: step 1."""
        last = one_hot(history[:, -1], self.vocab)
        earlier = several_hot(earlier_words(history)[0], self.vocab)
        attended = earlier * _times(last, self.mask_matrix)
        return torch.cat([last, attended, torch.ones(len(history), 1, dtype=torch.float64)], dim=1)

    def features(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows features"]:
        """Return numbers above 0 for each feature that is on: step 2."""
        return _times(self.attend(history), self.feature_matrix).relu()

    def evidence(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows vocab"]:
        """Return the votes for each next word: step 3.

        Without its last word a feature is never above 0, since nothing attended is above 1: so the features of last
        words that no history has are left out of both products, which makes them some ten times smaller.
        """
        there = torch.zeros(self.vocab, dtype=torch.bool)
        there[history[:, -1]] = True
        chosen = self._open[there[self.pairs.contexts[self._open] % self.vocab]]
        features = _times(self.attend(history), self._features(chosen)).relu()
        return _times(features, self._transitions(chosen))

    def feed_forward(self) -> FeedForward:
        """Compute steps 2 and 3 as the Transformer's own block, its matrices in full: for a small vocabulary.

        A vector of width 3 * vocab has room for the last word, the attended words, and, in the last third, the votes.
        """
        vocab, size = self.vocab, len(self._open)
        block = FeedForward(3 * vocab, max(size, 1)).double()  # PyTorch warns of a layer without units
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.zero_()
            matrix = self.feature_matrix.to_dense()
            block.inner.weight[:size, : 2 * vocab] = matrix[:-1].T
            block.inner.bias[:size] = matrix[-1]
            block.outer.weight[2 * vocab :, :size] = self.transition_matrix.to_dense().T
        return block


def _sparse(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Any:
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, shape, check_invariants=True).coalesce()


def _times(dense: Tensor, sparse: Tensor) -> Tensor:
    return torch.sparse.mm(sparse.T, dense.T).T
