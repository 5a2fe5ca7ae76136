"""The three families, from the same blocks: encoder-decoder, decoder only, encoder only (paper figure 1)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.nn.cache import DecoderCache
from dragoman.nn.decoder import Decoder
from dragoman.nn.encoder import Encoder
from dragoman.nn.masks import causal_mask, combine_masks, padding_mask


class Transformer(nn.Module):
    """The encoder-decoder of the paper: source ids and target ids in, logits of each next target token out.

    Args:
        source_embedding: ids `[batch, src]` to vectors `[batch, src, d_model]`.
        target_embedding: the same for the target; called with `start` when decoding step by step.
        encoder: the encoder stack.
        decoder: the decoder stack, its layers with cross-attention.
        generator: `[..., d_model]` to logits `[..., vocab]`.
        pad: id of the padding token, on both sides.
        right_to_left_decoder: reads targets from their end; if None, `decoder` does where that is learned.
    """

    def __init__(
        self,
        source_embedding: nn.Module,
        target_embedding: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        generator: nn.Linear,
        pad: int = 0,
        right_to_left_decoder: Decoder | None = None,
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder, self.generator = encoder, decoder, generator
        self.pad, self.right_to_left_decoder = pad, right_to_left_decoder

    def turned(self) -> Transformer:
        """What reads targets from their end: the model itself, or one of its parts with its other decoder."""
        if self.right_to_left_decoder is None:
            return self
        parts = self.source_embedding, self.target_embedding, self.encoder, self.right_to_left_decoder, self.generator
        return Transformer(*parts, self.pad).train(self.training)

    def encode(
        self, source: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """The memory, and the mask that hides its padding."""
        mask = padding_mask(source, self.pad)
        return self.encoder(self.source_embedding(source), mask), mask

    def hidden(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "rows tgt"]
    ) -> Float[Tensor, "rows tgt d_model"]:
        """The decoder's output for teacher forcing: all target positions at once, none seeing a later one.

        Args:
            source: framed source ids, padded.
            target: decoder input, i.e. the target shifted right (`<s>` first, no `</s>`), padded; or several for each
                source, all of the readings from the left, then all of those from the right.
        """
        memory, memory_mask = self.encode(source)
        readings = len(target) // max(1, len(source))
        if readings > 1 and self.right_to_left_decoder is not None:
            decoders = self.decoder, self.right_to_left_decoder
            each = zip(decoders, target.chunk(2), strict=True)
            return torch.cat([self._read(decoder, ids, memory, memory_mask) for decoder, ids in each])
        if readings > 1:
            memory, memory_mask = memory.repeat(readings, 1, 1), memory_mask.repeat(readings, 1, 1, 1)
        return self._read(self.decoder, target, memory, memory_mask)

    def _read(self, decoder: Decoder, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        mask = combine_masks(padding_mask(target, self.pad), causal_mask(target.shape[1], device=target.device))
        return decoder(self.target_embedding(target), mask, memory, memory_mask)

    def forward(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "rows tgt"]
    ) -> Float[Tensor, "rows tgt vocab"]:
        """Logits of the token that follows each target position; arguments as in `hidden`."""
        return self.generator(self.hidden(source, target))

    def start(self, source: Int[Tensor, "batch src"]) -> DecoderCache:
        """Encode the source once: the state before the first step."""
        return self.decoder.start_cache(*self.encode(source))

    def step(self, state: DecoderCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `tokens`, which are the newest; `state` grows by them."""
        return self.generator(self.hidden_step(state, tokens))

    def hidden_step(self, state: DecoderCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch d_model"]:
        """The decoder's output at `tokens`, from which the generator makes those logits; `state` grows by them."""
        return self.decoder(self.target_embedding(tokens[:, None], state.length), cache=state)[:, 0]


class CausalLM(nn.Module):
    """Decoder only: each token predicted from those before it. Arguments as in `Transformer`."""

    def __init__(self, embedding: nn.Module, decoder: Decoder, generator: nn.Linear, pad: int = 0) -> None:
        super().__init__()
        self.embedding, self.decoder, self.generator = embedding, decoder, generator
        self.pad = pad

    def hidden(self, ids: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt d_model"]:
        """The decoder's output at every position, none seeing a later one."""
        mask = combine_masks(padding_mask(ids, self.pad), causal_mask(ids.shape[1], device=ids.device))
        return self.decoder(self.embedding(ids), mask)

    def forward(self, ids: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt vocab"]:
        """Logits of the token that follows each position."""
        return self.generator(self.hidden(ids))

    def start(self) -> DecoderCache:
        """The state before the first step: nothing seen."""
        return self.decoder.start_cache()

    def step(self, state: DecoderCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `tokens`, which are the newest; `state` grows by them."""
        return self.generator(self.hidden_step(state, tokens))

    def hidden_step(self, state: DecoderCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch d_model"]:
        """The decoder's output at `tokens`, from which the generator makes those logits; `state` grows by them."""
        return self.decoder(self.embedding(tokens[:, None], state.length), cache=state)[:, 0]


class MaskedLM(nn.Module):
    """Encoder only: each position predicted from all others. Arguments as in `Transformer`."""

    def __init__(self, embedding: nn.Module, encoder: Encoder, generator: nn.Linear, pad: int = 0) -> None:
        super().__init__()
        self.embedding, self.encoder, self.generator = embedding, encoder, generator
        self.pad = pad

    def hidden(self, ids: Int[Tensor, "batch src"]) -> Float[Tensor, "batch src d_model"]:
        """The encoder's output at every position, padding hidden."""
        return self.encoder(self.embedding(ids), padding_mask(ids, self.pad))

    def forward(self, ids: Int[Tensor, "batch src"]) -> Float[Tensor, "batch src vocab"]:
        """Logits of the token at each position (where the input has `<mask>`, the one it hides)."""
        return self.generator(self.hidden(ids))
