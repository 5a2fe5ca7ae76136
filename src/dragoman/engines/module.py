"""The oracle engine: a trained module run as it is, through its key and value caches."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.models.blueprint import Blueprint
from dragoman.nn import CausalLM, InputEmbedding, SinusoidalPositions, Transformer
from dragoman.sequences import SourceBatch

ROWS = 2048


class ModuleEngine:
    """A `Transformer` or `CausalLM` as a next-token model (see `dragoman.search.NextTokenModel`).

    The model is put into evaluation mode. For a `CausalLM` only the number of rows of a source counts. The other
    engines derive from this one and run the steps in their own way.

    Attributes:
        name: of the kind of engine.
        precision: of the linear maps.
        model: the model.
    """

    name = "module"
    precision = "float32"

    def __init__(self, model: Transformer | CausalLM) -> None:
        self.model = model.eval()

    @classmethod
    def supports(cls, blueprint: Blueprint[Any]) -> str | None:
        """Return None if this engine runs such a model here, else why not, in words."""
        return None

    @classmethod
    def choose_precision(cls, wanted: str) -> tuple[str, str]:
        """Return the precision of the linear maps, the one asked for or with `auto` the fastest, and why, in words."""
        return ("float32" if wanted == "auto" else wanted), f"{wanted} asked for"

    @property
    def device(self) -> torch.device:
        """Where the weights are, and where ids are expected."""
        return next(self.model.parameters()).device

    @torch.no_grad()
    def start(self, sources: SourceBatch) -> Any:
        """Encode the sources: the state before the first step."""
        if isinstance(self.model, Transformer):
            return self.model.start(sources.ids, sources.mask)
        return self.model.start(len(sources))

    @torch.no_grad()
    def step(self, state: Any, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """Return log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        return _log_softmax(self.model.step(state, tokens)), state

    @torch.no_grad()
    def step_with_outputs(
        self, state: Any, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch d_model"], Any]:
        """As `step`, with the decoder's outputs between log-probabilities and state."""
        outputs = self.model.hidden_step(state, tokens)
        return _log_softmax(self.model.generator(outputs)), outputs, state

    @torch.no_grad()
    def token_log_probabilities(
        self, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Return the log-probability of each token of the framed target after its first, in one teacher-forced pass.

        The vocabulary is computed for some positions at a time, so memory does not grow with the batch.
        """
        shifted, labels = target[:, :-1], target[:, 1:]
        model = self.model
        alone = not isinstance(model, Transformer)
        hidden = model.hidden(shifted) if alone else model.hidden(sources.ids, shifted, sources.mask)
        parts = [
            _log_softmax(model.generator(rows)).gather(1, wanted[:, None])[:, 0]
            for rows, wanted in zip(hidden.flatten(0, 1).split(ROWS), labels.flatten().split(ROWS), strict=True)
        ]
        return torch.cat(parts).view(labels.shape)


def added_positions(
    model: Transformer | CausalLM, side: str, start: int, length: int
) -> Float[Tensor, "{length} d_model"]:
    """Return what a model adds to the vectors of so many tokens, the first of which stands at position `start`.

    Args:
        model: with positions added to its embeddings.
        side: `source` or `target`.
        start: the first position.
        length: how many.
    """
    alone = isinstance(model, CausalLM)
    embedding = model.embedding if alone else model.source_embedding if side == "source" else model.target_embedding
    assert isinstance(embedding, InputEmbedding)
    weight, positions = embedding.tokens.weight.detach(), embedding.positions
    if isinstance(positions, SinusoidalPositions):
        return positions.table(start + length, weight)[start:]
    assert positions is not None
    return positions(weight.new_zeros(1, length, weight.shape[1]), start)[0]


def _log_softmax(logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
    # Under autocast logits may be bfloat16, too coarse to sum up log-probabilities in.
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
