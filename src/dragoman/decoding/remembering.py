"""A model that also asks which tokens followed where its decoder was in a state like the one it is in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.decoding.datastore import Autocast, Datastore, Pair, decoder_outputs, some_pairs
from dragoman.engines import ModuleEngine
from dragoman.nn import Transformer
from dragoman.text.tokenizer import EOS

_TOKENS, _ROWS, _NEIGHBOURS = 20_000, 2048, 64
_TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 1.5, 2.0, 4.0)  # in mean distances
_WEIGHTS = tuple(step / 20 for step in range(1, 17))


class Remembering:
    """k-nearest-neighbour machine translation (Khandelwal et al. 2021), as a next-token model.

    The probability of a token is `(1 - w) p_model + w p_knn`. In the latter each of the k nearest keys speaks for the
    token that followed it, weighed by the softmax of `-d / temperature`, d its squared distance.

    Args:
        engine: the model.
        datastore: made with the same weights.
        options: have `knn_weight` w (the datastore's own if None) and `knn_neighbours` k.
    """

    def __init__(self, engine: ModuleEngine, datastore: Datastore, options: DecodingConfig) -> None:
        self.engine, self.datastore = engine, datastore
        self.count = options.knn_neighbours
        self.weight = float(datastore.weight) if options.knn_weight is None else options.knn_weight

    @property
    def device(self) -> torch.device:
        """Where ids are expected."""
        return self.engine.device

    def start(self, source: Int[Tensor, "batch src"]) -> Any:
        """The model's own state."""
        return self.engine.start(source)

    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Log-probabilities of both together, and the model's next state."""
        log_probs, outputs, state = self.engine.step_with_outputs(state, tokens)
        return self.mixed(log_probs, outputs), state

    def mixed(
        self, log_probs: Float[Tensor, "rows vocab"], outputs: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "rows vocab"]:
        """The model's log-probabilities and those of the keys near its decoder's outputs, as one."""
        if self.weight == 0:
            return log_probs
        distances, places = self.datastore.nearest(outputs, self.count)
        weights = (-distances / self.datastore.temperature.to(distances)).softmax(1).to(log_probs)
        tokens = self.datastore.followers(places)
        near = torch.zeros_like(log_probs).scatter_add_(1, tokens, weights).gather(1, tokens)
        mixed = log_probs + math.log1p(-self.weight)
        return mixed.scatter(1, tokens, torch.logaddexp(mixed.gather(1, tokens), near.log() + math.log(self.weight)))


class Fit(NamedTuple):
    """What the tokens of held-out pairs tell of a datastore: the means of their negative log-probabilities."""

    alone: float
    together: float
    tokens: int


@torch.no_grad()
def fit(model: Transformer, datastore: Datastore, held_out: Sequence[Pair], autocast: Autocast = nullcontext) -> Fit:
    """Give a datastore the weight and the temperature with which pairs that the model has not seen are likeliest.

    Of captions and of pronunciations those were also the ones with which most words were right.

    Args:
        model: in evaluation mode.
        datastore: its weight and temperature are set; not where nothing makes the pairs likelier.
        held_out: pairs; the sources with their fuzzy matches.
        autocast: makes the context that chooses the precision of products.
    """
    pairs = some_pairs(held_out, np.random.default_rng(1), _TOKENS)
    rows = list(decoder_outputs(model, pairs, autocast))
    outputs = torch.cat([one for _, one in rows])
    labels = torch.tensor([token for row, _ in rows for token in (*pairs[row][1], EOS)])
    device = next(model.parameters()).device
    own = torch.cat([
        model.generator(some.to(device)).float().log_softmax(-1).cpu().gather(1, wanted[:, None])[:, 0]
        for some, wanted in zip(outputs.split(_ROWS), labels.split(_ROWS), strict=True)
    ])  # fmt: skip
    distances, places = datastore.nearest(outputs, _NEIGHBOURS)
    right = datastore.followers(places) == labels[:, None]
    unit = distances[distances.isfinite()].mean()
    alone = float(-own.mean())
    best = (alone, 0.0, datastore.temperature)
    for factor in _TEMPERATURES:
        temperature = (factor * unit).reshape(1)
        near = ((-distances / temperature).softmax(1) * right).sum(1).log()
        for weight in _WEIGHTS:
            loss = float(-torch.logaddexp(own + math.log1p(-weight), near + math.log(weight)).mean())
            best = min(best, (loss, weight, temperature), key=lambda one: one[0])
    datastore.weight, datastore.temperature = torch.tensor([best[1]]), best[2]
    return Fit(alone, best[0], len(labels))
