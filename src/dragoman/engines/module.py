"""The oracle engine: a trained module run as it is, through its key and value caches."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.nn import CausalLM, DecoderCache, Transformer


class ModuleEngine:
    """A `Transformer` or `CausalLM` as a next-token model (see `dragoman.decoding.NextTokenModel`).

    The model is put into evaluation mode. For a `CausalLM` only the number of rows of a source counts.
    """

    name = "module"

    def __init__(self, model: Transformer | CausalLM) -> None:
        self.model = model.eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are, and where ids are expected."""
        return next(self.model.parameters()).device

    @torch.no_grad()
    def start(self, source: Int[Tensor, "batch src"]) -> DecoderCache:
        """Encode the framed source: the state before the first step."""
        return self.model.start(source) if isinstance(self.model, Transformer) else self.model.start()

    @torch.no_grad()
    def step(
        self, state: DecoderCache, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderCache]:
        """Log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        return self.model.step(state, tokens).log_softmax(-1), state

    @torch.no_grad()
    def log_probabilities(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels vocab"]:
        """Teacher forcing: log-probabilities at every position of the framed target but its last, in one pass."""
        shifted = target[:, :-1]
        logits = self.model(source, shifted) if isinstance(self.model, Transformer) else self.model(shifted)
        return logits.log_softmax(-1)
