"""From a `ModelConfig` to a module: the blueprint's sections, composed from the parts in `nn`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from dragoman.config import ModelConfig
from dragoman.models.bidirectional import BidirectionalTransformer
from dragoman.models.blueprint import Attention, Blueprint, Embedding, Hearing, Layer, Norm, Place, Stack
from dragoman.models.draft import blueprint_of
from dragoman.nn import (
    CausalLM,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    FrameEmbedding,
    Generator,
    InputEmbedding,
    MaskedLM,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    Subsampling,
    TokenEmbedding,
    Transformer,
)
from dragoman.nn.positions import make_positions
from dragoman.profiles.parts import ScaledEmbedding

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def build_model(config: ModelConfig) -> Transformer | CausalLM | MaskedLM:
    """Return a freshly initialised model; sizes left unset are the paper's base model.

    Every matrix is Xavier-uniform, with `init = "depth-scaled"` those of layer l divided by √l; every bias is zero,
    embeddings are normal with deviation 1/√d_model. The numbers drawn come from PyTorch's global generator: seed it
    first.

    Raises:
        ConfigError: a vocabulary size is missing, or the family is one that is counted, not built.
    """
    blueprint = blueprint_of(config)
    parts, pad = _Parts(blueprint, config.with_paper_defaults()), blueprint.shape.pad
    target = parts.embedding(blueprint.target)
    if blueprint.decoder is None:
        assert blueprint.encoder is not None
        return MaskedLM(target, parts.encoder(blueprint.encoder), parts.generator(target), pad)
    if blueprint.encoder is None:
        return CausalLM(target, parts.decoder(blueprint.decoder), parts.generator(target), pad)
    source = parts.source(blueprint, target)
    encoder, decoder = parts.encoder(blueprint.encoder), parts.decoder(blueprint.decoder)
    generator = parts.generator(target)
    ctc = parts.ctc(blueprint)
    made = source, target, encoder, decoder, generator, pad, ctc
    if blueprint.right_to_left is None:
        return Transformer(*made)
    return BidirectionalTransformer(*made, right_to_left_decoder=parts.decoder(blueprint.right_to_left))


class _Parts:
    """Makes fresh parts of one blueprint; of the configuration come only rates of dropout and how weights begin."""

    def __init__(self, blueprint: Blueprint[Place], config: ModelConfig) -> None:
        self.blueprint, self.shape, self.config = blueprint, blueprint.shape, config

    def embedding(self, given: Embedding[Place]) -> InputEmbedding:
        vocab, d_model = given.rows.shape
        positions = None if given.positions is None else SinusoidalPositions(d_model, layout=given.positions)
        pad, scaled = self.shape.pad, self.config.scale_embeddings
        tokens = TokenEmbedding(vocab, d_model, pad) if scaled else ScaledEmbedding(vocab, d_model, 1.0, pad)
        return InputEmbedding(tokens, positions, self.config.dropout or 0.0, self.config.word_dropout)

    def source(self, blueprint: Blueprint[Place], target: InputEmbedding) -> nn.Module:
        """What the encoder reads with; the target's tokens are its own where they are tied."""
        if blueprint.hearing is not None:
            return self.hearing(blueprint.hearing)
        assert blueprint.source is not None
        source = self.embedding(blueprint.source)
        if blueprint.target.rows.name in blueprint.tied:
            source.tokens = target.tokens
        return source

    def hearing(self, given: Hearing[Place]) -> FrameEmbedding:
        """What an encoder hears frames with; its scale is √d_model."""
        d_model = self.shape.d_model
        positions = None if given.positions is None else SinusoidalPositions(d_model, layout=given.positions)
        channels, mels, _ = given.convolutions[0].weight.shape
        return FrameEmbedding(Subsampling(mels, channels, d_model), d_model, positions, self.config.dropout or 0.0)

    def attention(self, given: Attention[Place], positions: str | None) -> MultiHeadAttention:
        """An attention with positions of a kind inside it."""
        shape, distances = self.shape, given.distances
        sizes = {} if distances is None else {"distance": distances.shape[0] // 2}
        return MultiHeadAttention(
            shape.d_model,
            shape.heads,
            d_k=shape.d_k,
            d_v=shape.d_v,
            dropout=self.config.attention_dropout,
            bias=given.projection.bias is not None,
            positions=make_positions(positions, heads=shape.heads, d_k=shape.d_k, **sizes),
        )

    def self_attention(self, layer: Layer[Place]) -> MultiHeadAttention:
        return self.attention(layer.self_attention, self.shape.self_positions)

    def cross_attention(self, layer: Layer[Place]) -> MultiHeadAttention | None:
        given = layer.cross_attention
        return None if given is None else self.attention(given, self.shape.cross_positions)

    def feed_forward(self) -> FeedForward:
        activation = ACTIVATIONS[self.shape.activation]
        dropout = self.config.activation_dropout
        return FeedForward(self.shape.d_model, self.shape.d_ff, dropout=dropout, activation=activation)

    def residual(self, norm: Norm[Place]) -> Callable[[], nn.Module]:
        kind = PreNorm if self.shape.pre_norm else PostNorm
        make = functools.partial(nn.LayerNorm, eps=norm.eps)
        return lambda: kind(self.shape.d_model, self.config.dropout or 0.0, make)

    def end(self, stack: Stack[Place]) -> nn.Module | None:
        return None if stack.end is None else nn.LayerNorm(self.shape.d_model, eps=stack.end.eps)

    def encoder(self, stack: Stack[Place]) -> Encoder:
        layers = [
            EncoderLayer(self.self_attention(layer), self.feed_forward(), self.residual(layer.self_attention_norm))
            for layer in stack.layers
        ]
        self.scale(layers)
        return Encoder(layers, self.end(stack))

    def decoder(self, stack: Stack[Place]) -> Decoder:
        """A decoder; whether it looks at a source is up to its layers."""
        layers = [
            DecoderLayer(
                self.self_attention(layer),
                self.feed_forward(),
                self.residual(layer.self_attention_norm),
                self.cross_attention(layer),
            )
            for layer in stack.layers
        ]
        self.scale(layers)
        return Decoder(layers, self.end(stack))

    def scale(self, layers: Sequence[nn.Module]) -> None:
        """Divide the matrices of layer l by √l (Zhang, Titov and Sennrich 2019), if that is how it begins."""
        if self.config.init == "depth-scaled":
            with torch.no_grad():
                for depth, layer in enumerate(layers, 1):
                    for parameter in layer.parameters():
                        if parameter.dim() > 1:
                            parameter.mul_(depth**-0.5)

    def ctc(self, blueprint: Blueprint[Place]) -> Generator | None:
        """What reads tokens off frames, drawn last: the other weights are those of a model without it."""
        given = blueprint.ctc
        if given is None:
            return None
        return Generator(self.shape.d_model, given.weight.shape[0], bias=given.bias is not None)

    def generator(self, embedding: InputEmbedding) -> Generator:
        weight, bias = self.blueprint.generator.weight, self.blueprint.generator.bias
        tied = embedding.tokens if weight.name in self.blueprint.tied else None
        return Generator(self.shape.d_model, weight.shape[0], bias=bias is not None, tied=tied)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable numbers, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
