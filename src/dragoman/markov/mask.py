"""The mask that silences useless features, learned from the sentences themselves.

A feature is an earlier word and the last word. At event t, with next word w, let each feature f that was present vote
with weight m_f: the share of w among its *other* events, v = (c - 1) / (n - 1), where w followed c of its n times
(judged on the event itself, every feature would seem to have known it). The last word alone, p = (C - 1) / (N - 1),
always has one vote, so that somebody speaks. Then w has probability

    (p + sum of m_f v_ft) / (1 + sum of m_f) = V_t / S_t

and the mask is sought that makes log V_t - log S_t, summed over all events, less `PRICE` nats for each feature wholly
silenced, as large as can be, with 0 <= m_f <= 1. So a feature is innocent until its uselessness is proven; one that
was seen once cannot be judged and votes on.

All weights start at 1, and each round sets

    m_f = m_f * (sum of v_ft / V_t) / (sum of 1 / S_t - PRICE), at most 1

over the events t of f, or 1 where that denominator is not positive. This maximises a lower bound that touches the
sum at the present weights (Jensen's inequality for log V, a tangent for -log S), so no round makes it worse: a
minorise-maximise algorithm (Hunter and Lange 2004), like expectation maximisation without a rate of learning.

One weight per pair is much to learn: from some ten thousand sentences few features are convicted, and held-out text is
predicted no better than without the mask. A Transformer makes its mask of few numbers per word (QKᵀ) instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.markov.framing import Sequences, framed, paired
from dragoman.markov.table import Transitions

PRICE = 3.0
ROUNDS = 60
# A weight that falls below this is on its way to 0.
SILENT = 0.01
# The mask is learned from so many pairs of words at most, the first ones; about a gigabyte while it learns.
MOST_BALLOTS = 20_000_000
# In place of p = 0, so that no event is impossible.
_LEAST = 1e-4


def learn_mask(sequences: Sequences, pairs: Transitions, first: Transitions) -> Float[Tensor, " pairs"]:
    """Return what the vote of each feature is multiplied by, from 0 to 1.

    Args:
        sequences: unframed ids.
        pairs: counts after each feature, from these sequences; its number is earlier * vocab + last.
        first: counts after each last word, from the same.
    """
    ballots = Ballots.collect(sequences, pairs, first)
    mask = torch.ones(len(pairs.contexts), dtype=torch.float64)
    for _ in range(ROUNDS):
        mask = ballots.improve(mask)
    return mask.where(mask >= SILENT, 0.0)


@dataclass(frozen=True)
class Ballots:
    """Every vote of every feature on every event, the event itself left out of what the feature knows.

    Attributes:
        features: which feature voted; those seen once have no vote.
        events: on which event.
        shares: v, what part of the vote was for the word that came.
        alone: p of each event, what the last word alone gives.
    """

    features: Int[Tensor, " ballots"]
    events: Int[Tensor, " ballots"]
    shares: Float[Tensor, " ballots"]
    alone: Float[Tensor, " events"]

    @classmethod
    def collect(cls, sequences: Sequences, pairs: Transitions, first: Transitions) -> Ballots:
        """Return the ballots of some sequences; arguments as in `learn_mask`."""
        vocab = pairs.vocab
        keys, events, words, seen, ballots = [], [], [], 0, 0
        for row in framed(sequences, vocab):
            key, position = paired(row, vocab)
            keys.append(key)
            events.append(position + seen)
            words.append(row[:-1] * vocab + row[1:])
            seen, ballots = seen + len(row) - 1, ballots + len(key)
            if ballots >= MOST_BALLOTS:
                break
        features, shares = _left_out(pairs, torch.from_numpy(np.concatenate(keys)))
        _, alone = _left_out(first, torch.from_numpy(np.concatenate(words)))
        known = ~shares.isnan()
        which = torch.from_numpy(np.concatenate(events))[known]
        return cls(features[known], which, shares[known], alone.nan_to_num(0.0).clamp(min=_LEAST))

    def tally(self, mask: Float[Tensor, " features"]) -> tuple[Float[Tensor, " events"], Float[Tensor, " events"]]:
        """Return V, the votes for the word that came, and S, all votes, of each event."""
        weights = mask[self.features]
        right = self.alone.index_add(0, self.events, weights * self.shares)
        return right, torch.ones_like(self.alone).index_add(0, self.events, weights)

    def worth(self, mask: Float[Tensor, " features"]) -> float:
        """Return what is maximised, in nats."""
        right, cast = self.tally(mask)
        return float((right / cast).log().sum() - PRICE * (1 - mask).sum())

    def improve(self, mask: Float[Tensor, " features"]) -> Float[Tensor, " features"]:
        """Return the mask of the next round, worth no less."""
        right, cast = self.tally(mask)
        gained = torch.zeros_like(mask).index_add(0, self.features, self.shares / right[self.events])
        paid = torch.zeros_like(mask).index_add(0, self.features, 1 / cast[self.events]) - PRICE
        better = (mask * gained / paid).clamp(max=1.0)
        return better.where(paid > 0, 1.0)


def _left_out(table: Transitions, keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each counted event, its row, and the share of its word in that row without it; NaN if nothing is left."""
    rows = table.row_of_entry
    entries = torch.searchsorted(table.contexts[rows] * table.vocab + table.words, keys)
    row = rows[entries]
    return row, (table.counts[entries] - 1).double() / (table.totals[row] - 1)
