"""kNN-MT: a next-token model that also asks which tokens followed where its decoder was in a similar state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.memory.datastore import Autocast, Datastore, Pair, decoder_outputs, some_pairs
from dragoman.nn import Transformer
from dragoman.sequences import SPECIALS, SourceBatch, Specials, frame_target

_TOKENS, _ROWS, _NEIGHBOURS = 20_000, 2048, 64
_TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 1.5, 2.0, 4.0)  # in mean distances
_WEIGHTS = tuple(step / 20 for step in range(1, 20))
_FALLOFFS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
_NEAREST = 0.01  # of the temperature; what is nearer counts as much as that


class Neighbours(NamedTuple):
    """The nearest keys of a datastore to some outputs of a decoder, and what they say of the next token."""

    log_odds: Float[Tensor, "rows 1"]
    """Of the weight of the kNN distribution."""
    places: Int[Tensor, "rows found"]
    """Numbers of the keys in the datastore, nearest first."""
    tokens: Int[Tensor, "rows found"]
    """The token that followed each key."""
    shares: Float[Tensor, "rows found"]
    """The probability mass of each key; a row sums to 1."""


class KnnModel:
    """kNN-MT (Khandelwal et al. 2021) as a next-token model: a model and its datastore, interpolated.

    The probability of a token is `(1 - w) p_model + w p_knn`. In the latter each of the k nearest keys speaks for the
    token that followed it, weighed by the softmax of `-d / temperature`, d its squared distance. The nearer the nearest
    key, the larger is w (adaptive as that of Zheng et al. 2021, by one number in place of a network): its odds fall
    with a power of that key's distance, so that what was met before is written again and what was not is left alone.

    Args:
        engine: the model.
        datastore: made with the same weights.
        options: have `knn_neighbours` k, and `knn_weight` for a w that is the same everywhere.
    """

    def __init__(self, engine: ModuleEngine, datastore: Datastore, options: DecodingConfig) -> None:
        self.engine, self.datastore = engine, datastore
        self.count = options.knn_neighbours
        own = (float(datastore.weight), float(datastore.falloff))
        self.weight, self.falloff = own if options.knn_weight is None else (options.knn_weight, 0.0)

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        return self.engine.device

    def start(self, sources: SourceBatch) -> Any:
        """Return the state of the model alone, before the first token."""
        return self.engine.start(sources)

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Return the interpolated log-probabilities of the next tokens, and the model's next state."""
        log_probs, outputs, state = self.engine.step_with_outputs(state, tokens)
        return self.mixed(log_probs, self.neighbours(outputs)) if self.weight else log_probs, state

    def mixed(self, log_probs: Float[Tensor, "rows vocab"], neighbours: Neighbours) -> Float[Tensor, "rows vocab"]:
        """Return the model's log-probabilities interpolated with the distribution of the neighbours."""
        log_odds, shares = neighbours.log_odds.to(log_probs), neighbours.shares.to(log_probs)
        tokens = neighbours.tokens
        near = torch.zeros_like(log_probs).scatter_add_(1, tokens, shares).gather(1, tokens)
        mixed = log_probs + logsigmoid(-log_odds)
        return mixed.scatter(1, tokens, torch.logaddexp(mixed.gather(1, tokens), near.log() + logsigmoid(log_odds)))

    def neighbours(self, outputs: Float[Tensor, "rows d_model"]) -> Neighbours:
        """Return the nearest keys to each output of the decoder; the datastore needs a weight above 0."""
        distances, places = self.datastore.nearest(outputs, self.count)
        temperature = self.datastore.temperature.to(distances)
        log_odds = _log_odds(distances[:, :1], temperature, self.weight, self.falloff)
        return Neighbours(log_odds, places, self.datastore.followers(places), (-distances / temperature).softmax(1))


def _log_odds(
    nearest: Float[Tensor, "rows 1"], temperature: Float[Tensor, "1"], weight: float, falloff: float
) -> Float[Tensor, "rows 1"]:
    """Of the weight of keys, by the squared distance of the nearest one."""
    return math.log(weight / (1 - weight)) - falloff * (nearest / temperature).clamp(min=_NEAREST).log()


class Fit(NamedTuple):
    """What the tokens of held-out pairs tell of a datastore: the means of their negative log-probabilities."""

    alone: float
    together: float
    weight: float
    """The mean weight of the datastore at these tokens."""
    tokens: int


@torch.no_grad()
def fit(
    model: Transformer,
    datastore: Datastore,
    held_out: Sequence[Pair],
    autocast: Autocast = nullcontext,
    specials: Specials = SPECIALS,
) -> Fit:
    """Give a datastore the weights and the temperature with which pairs that the model has not seen are likeliest.

    Args:
        model: in evaluation mode.
        datastore: its weight, falloff and temperature are set; the weight is 0 where none makes the pairs likelier.
        held_out: pairs; the sources with their fuzzy matches.
        autocast: makes the context that chooses the precision of products.
        specials: of the source's vocabulary.
    """
    pairs = some_pairs(held_out, np.random.default_rng(1), _TOKENS)
    rows = list(decoder_outputs(model, pairs, autocast, specials))
    outputs = torch.cat([one for _, one in rows])
    labels = torch.tensor([token for row, _ in rows for token in frame_target(pairs[row][1])[1:]])
    device = next(model.parameters()).device
    own = torch.cat([
        model.generator(some.to(device)).float().log_softmax(-1).cpu().gather(1, wanted[:, None])[:, 0]
        for some, wanted in zip(outputs.split(_ROWS), labels.split(_ROWS), strict=True)
    ])  # fmt: skip
    distances, places = datastore.nearest(outputs, _NEIGHBOURS)
    right = datastore.followers(places) == labels[:, None]
    unit = distances[distances.isfinite()].mean()
    alone = float(-own.mean())
    best, share = (alone, 0.0, 0.0, datastore.temperature), 0.0
    for factor in _TEMPERATURES:
        temperature = (factor * unit).reshape(1)
        near = ((-distances / temperature).softmax(1) * right).sum(1).log()
        for weight, falloff in product(_WEIGHTS, _FALLOFFS):
            log_odds = _log_odds(distances[:, :1], temperature, weight, falloff)[:, 0]
            loss = float(-torch.logaddexp(own + logsigmoid(-log_odds), near + logsigmoid(log_odds)).mean())
            if loss < best[0]:
                best, share = (loss, weight, falloff, temperature), float(log_odds.sigmoid().mean())
    together, weight, falloff, datastore.temperature = best
    datastore.weight, datastore.falloff = torch.tensor([weight]), torch.tensor([falloff])
    return Fit(alone, together, share, len(labels))
