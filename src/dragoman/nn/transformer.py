"""The three families, from the same blocks: encoder-decoder, decoder only, encoder only (paper figure 1).

Where there are tokens is said by a mask, True at each; where none is given, all ids that are not the model's `pad` are.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.nn.cache import DecoderCache, StepCache
from dragoman.nn.decoder import Decoder
from dragoman.nn.encoder import Encoder
from dragoman.nn.masks import causal_mask, combine_masks, key_mask, padding_mask
from dragoman.nn.subsampling import FrameEmbedding

# What an encoder reads: ids, or frames of sound.
SourceTensor = Int[Tensor, "batch src"] | Float[Tensor, "batch frames mels"]


class Transformer(nn.Module):
    """The encoder-decoder of the paper: source ids and target ids in, logits of each next target token out.

    Args:
        source_embedding: ids `[batch, src]` to vectors `[batch, src, d_model]`; or a `FrameEmbedding`.
        target_embedding: the same for the target; called with `start` when decoding step by step.
        encoder: the encoder stack.
        decoder: the decoder stack, its layers with cross-attention.
        generator: `[..., d_model]` to logits `[..., vocab]`.
        pad: id of the padding token, on both sides.
        ctc: memory `[..., d_model]` to logits `[..., vocab]` of the tokens said at each of its places, `pad` standing
            for none: connectionist temporal classification, of models that listen.
    """

    def __init__(
        self,
        source_embedding: nn.Module,
        target_embedding: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        generator: nn.Linear,
        pad: int = 0,
        ctc: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder, self.generator = encoder, decoder, generator
        self.pad, self.ctc = pad, ctc

    def encode(
        self, source: SourceTensor, mask: Bool[Tensor, "batch given"] | None = None
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """Return the memory, and the mask that hides its padding.

        Args:
            source: framed source ids, padded; of a model that listens, frames of sound.
            mask: where there are tokens, or frames.
        """
        x, there = self.read(source, mask)
        return self.encoder(x, key_mask(there)), key_mask(there)

    def read(
        self, source: SourceTensor, mask: Bool[Tensor, "batch given"] | None = None
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch src"]]:
        """Return what enters the encoder's first layer, and where there is something; arguments as of `encode`."""
        if isinstance(self.source_embedding, FrameEmbedding):
            return self.source_embedding(source, source.new_ones(source.shape[:2]).bool() if mask is None else mask)
        return self.source_embedding(source), source != self.pad if mask is None else mask

    def decoder_mask(
        self, target: Int[Tensor, "rows tgt"], mask: Bool[Tensor, "rows tgt"] | None = None
    ) -> Bool[Tensor, "..."] | None:
        """Return what target positions may attend to among each other: tokens, and none that comes later.

        Args:
            target: decoder input, padded.
            mask: where there are tokens.
        """
        return _no_later(target, mask, self.pad)

    def hidden(
        self,
        source: SourceTensor,
        target: Int[Tensor, "rows tgt"],
        source_mask: Bool[Tensor, "batch given"] | None = None,
        target_mask: Bool[Tensor, "rows tgt"] | None = None,
    ) -> Float[Tensor, "rows tgt d_model"]:
        """Return the decoder's output for teacher forcing: all target positions at once, none seeing a later one.

        Args:
            source: framed source ids, padded, or frames.
            target: decoder input, i.e. the target shifted right (`<s>` first, no `</s>`), padded; one for each source.
            source_mask: where the source has tokens, or frames.
            target_mask: where the target has tokens.

        Raises:
            ValueError: there are not as many targets as sources.
        """
        if len(source) != len(target):
            raise ValueError(f"each source needs a target, got {len(source)} sources and {len(target)} targets")
        memory, memory_mask = self.encode(source, source_mask)
        mask = self.decoder_mask(target, target_mask)
        return self.decoder(self.target_embedding(target), mask, memory, memory_mask)

    def forward(
        self,
        source: SourceTensor,
        target: Int[Tensor, "rows tgt"],
        source_mask: Bool[Tensor, "batch given"] | None = None,
        target_mask: Bool[Tensor, "rows tgt"] | None = None,
    ) -> Float[Tensor, "rows tgt vocab"]:
        """Return the logits of the token that follows each target position; arguments as in `hidden`."""
        return self.generator(self.hidden(source, target, source_mask, target_mask))

    def start(self, source: SourceTensor, mask: Bool[Tensor, "batch given"] | None = None) -> DecoderCache:
        """Encode the source once: the state before the first step. Arguments as in `encode`."""
        return self.decoder.start_cache(*self.encode(source, mask))

    def step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Return the logits of the token after `tokens`, which are the newest; `state` grows by them."""
        return self.generator(self.hidden_step(state, tokens))

    def hidden_step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch d_model"]:
        """Return the decoder's output at `tokens`, of which the generator makes those logits; `state` grows by them."""
        return state.step(tokens, self._newest)

    def _newest(self, cache: DecoderCache, tokens: Tensor) -> Tensor:
        return self.decoder(self.target_embedding(tokens[:, None], cache.length), cache=cache)[:, 0]


class CausalLM(nn.Module):
    """Decoder only: each token predicted from those before it. Arguments as in `Transformer`."""

    def __init__(self, embedding: nn.Module, decoder: Decoder, generator: nn.Linear, pad: int = 0) -> None:
        super().__init__()
        self.embedding, self.decoder, self.generator = embedding, decoder, generator
        self.pad = pad

    def hidden(
        self, ids: Int[Tensor, "batch tgt"], mask: Bool[Tensor, "batch tgt"] | None = None
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Return the decoder's output at every position, none seeing a later one; `mask` is where there are tokens."""
        return self.decoder(self.embedding(ids), _no_later(ids, mask, self.pad))

    def forward(
        self, ids: Int[Tensor, "batch tgt"], mask: Bool[Tensor, "batch tgt"] | None = None
    ) -> Float[Tensor, "batch tgt vocab"]:
        """Return the logits of the token that follows each position; arguments as in `hidden`."""
        return self.generator(self.hidden(ids, mask))

    def start(self, rows: int | None = None) -> DecoderCache:
        """Return the state before the first step: nothing seen, by so many rows if that is known already."""
        return self.decoder.start_cache(rows=rows)

    def step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Return the logits of the token after `tokens`, which are the newest; `state` grows by them."""
        return self.generator(self.hidden_step(state, tokens))

    def hidden_step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch d_model"]:
        """Return the decoder's output at `tokens`, of which the generator makes those logits; `state` grows by them."""
        return state.step(tokens, self._newest)

    def _newest(self, cache: DecoderCache, tokens: Tensor) -> Tensor:
        return self.decoder(self.embedding(tokens[:, None], cache.length), cache=cache)[:, 0]


class MaskedLM(nn.Module):
    """Encoder only: each position predicted from all others. Arguments as in `Transformer`."""

    def __init__(self, embedding: nn.Module, encoder: Encoder, generator: nn.Linear, pad: int = 0) -> None:
        super().__init__()
        self.embedding, self.encoder, self.generator = embedding, encoder, generator
        self.pad = pad

    def hidden(
        self, ids: Int[Tensor, "batch src"], mask: Bool[Tensor, "batch src"] | None = None
    ) -> Float[Tensor, "batch src d_model"]:
        """Return the encoder's output at every position, padding hidden; `mask` is where there are tokens."""
        keys = padding_mask(ids, self.pad) if mask is None else key_mask(mask)
        return self.encoder(self.embedding(ids), keys)

    def forward(
        self, ids: Int[Tensor, "batch src"], mask: Bool[Tensor, "batch src"] | None = None
    ) -> Float[Tensor, "batch src vocab"]:
        """Return the logits of the token at each position (hidden ones too); arguments as in `hidden`."""
        return self.generator(self.hidden(ids, mask))


def _no_later(
    ids: Int[Tensor, "batch tgt"], tokens: Bool[Tensor, "batch tgt"] | None, pad: int
) -> Bool[Tensor, "batch 1 tgt tgt"] | None:
    keys = padding_mask(ids, pad) if tokens is None else key_mask(tokens)
    return combine_masks(keys, causal_mask(ids.shape[1], device=ids.device))
