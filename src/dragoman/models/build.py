"""From a `ModelConfig` to a module: the mainstream choices, composed from the parts in `nn`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.models.bidirectional import BidirectionalTransformer
from dragoman.nn import (
    AttentionPositions,
    CausalLM,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Generator,
    InputEmbedding,
    MaskedLM,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    TokenEmbedding,
    Transformer,
)
from dragoman.sequences import SPECIALS

# Positions inside attention; all others are added to the embedding.
INSIDE = ("rotary", "rotary-cross", "relative")
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def build_model(config: ModelConfig) -> Transformer | CausalLM | MaskedLM:
    """Return a freshly initialised model; sizes left unset are the paper's base model.

    Every matrix is Xavier-uniform, with `init = "depth-scaled"` those of layer l divided by √l; every bias is zero,
    embeddings are normal with deviation 1/√d_model. The numbers drawn come from PyTorch's global generator: seed it
    first.

    Raises:
        ConfigError: a vocabulary size is missing, or the family is one that is counted, not built.
    """
    families = {"transformer": _transformer, "causal": _causal, "masked": _masked}
    if config.family not in families:
        hint = "`dragoman complete` and `dragoman score` run Markov models"
        raise ConfigError("a Markov model has no layers to build", found=config.family, hint=hint)
    config = config.with_paper_defaults()
    needed = ("source_vocab", "target_vocab") if config.family == "transformer" else ("target_vocab",)
    if missing := [name for name in needed if getattr(config, name) is None]:
        raise ConfigError(
            f"a model needs {' and '.join(missing)}", hint="the sizes of the vocabularies, specials included"
        )
    return families[config.family](_Parts(config))


class _Parts:
    """Makes fresh parts of one configuration."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        assert config.d_model is not None
        self.d_model = config.d_model

    def embedding(self, vocab: int | None) -> InputEmbedding:
        assert vocab is not None
        layout = self.config.positions if self.config.positions not in INSIDE else None
        positions = None if layout is None else SinusoidalPositions(self.d_model, layout=layout)
        tokens = TokenEmbedding(vocab, self.d_model, SPECIALS.pad)
        return InputEmbedding(tokens, positions, self.config.dropout or 0.0, self.config.word_dropout)

    def positions(self, *, cross: bool = False) -> AttentionPositions | None:
        config = self.config
        assert config.num_heads is not None
        d_k = config.d_k or self.d_model // config.num_heads
        if config.positions == "rotary-cross" or (config.positions == "rotary" and not cross):
            return RotaryPositions(d_k)
        if cross:
            return None
        if config.positions == "relative":
            return RelativePositions(d_k, config.relative_distance)
        return None

    def attention(self, positions: AttentionPositions | None) -> MultiHeadAttention:
        config = self.config
        assert config.num_heads is not None
        return MultiHeadAttention(
            self.d_model,
            config.num_heads,
            d_k=config.d_k,
            d_v=config.d_v,
            dropout=config.attention_dropout,
            bias=config.bias,
            positions=positions,
        )

    def feed_forward(self) -> FeedForward:
        config = self.config
        assert config.d_ff is not None
        activation = ACTIVATIONS[config.activation]
        return FeedForward(self.d_model, config.d_ff, dropout=config.activation_dropout, activation=activation)

    def norm(self) -> Callable[[int], nn.Module]:
        return functools.partial(nn.LayerNorm, eps=self.config.norm_eps)

    def residual(self) -> nn.Module:
        kind = PreNorm if self.config.norm == "pre" else PostNorm
        return kind(self.d_model, self.config.dropout or 0.0, self.norm())

    def final_norm(self) -> nn.Module | None:
        return self.norm()(self.d_model) if self.config.norm == "pre" else None

    def encoder(self) -> Encoder:
        layers = [
            EncoderLayer(self.attention(self.positions()), self.feed_forward(), self.residual)
            for _ in range(self.config.num_encoder_layers or 0)
        ]
        self.scale(layers)
        return Encoder(layers, self.final_norm())

    def decoder(self, *, cross: bool) -> Decoder:
        layers = [
            DecoderLayer(
                self.attention(self.positions()),
                self.feed_forward(),
                self.residual,
                self.attention(self.positions(cross=True)) if cross else None,
            )
            for _ in range(self.config.num_decoder_layers or 0)
        ]
        self.scale(layers)
        return Decoder(layers, self.final_norm())

    def scale(self, layers: Sequence[nn.Module]) -> None:
        """Divide the matrices of layer l by √l (Zhang, Titov and Sennrich 2019), if that is how it begins."""
        if self.config.init == "depth-scaled":
            with torch.no_grad():
                for depth, layer in enumerate(layers, 1):
                    for parameter in layer.parameters():
                        if parameter.dim() > 1:
                            parameter.mul_(depth**-0.5)

    def generator(self, embedding: InputEmbedding) -> Generator:
        tied = None if self.config.tie_embeddings == "none" else embedding.tokens
        assert self.config.target_vocab is not None
        return Generator(self.d_model, self.config.target_vocab, bias=self.config.generator_bias, tied=tied)


def _transformer(parts: _Parts) -> Transformer:
    config = parts.config
    target = parts.embedding(config.target_vocab)
    source = parts.embedding(config.source_vocab)
    if config.tie_embeddings == "all":
        source.tokens = target.tokens
    made = source, target, parts.encoder(), parts.decoder(cross=True), parts.generator(target)
    if config.has_two_decoders:
        return BidirectionalTransformer(*made, SPECIALS.pad, right_to_left_decoder=parts.decoder(cross=True))
    return Transformer(*made, SPECIALS.pad)


def _causal(parts: _Parts) -> CausalLM:
    embedding = parts.embedding(parts.config.target_vocab)
    return CausalLM(embedding, parts.decoder(cross=False), parts.generator(embedding), SPECIALS.pad)


def _masked(parts: _Parts) -> MaskedLM:
    embedding = parts.embedding(parts.config.target_vocab)
    return MaskedLM(embedding, parts.encoder(), parts.generator(embedding), SPECIALS.pad)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable numbers, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
