"""A trained model as plain weights: what the engines that do not run the modules themselves are built from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn import (
    CausalLM,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    TokenEmbedding,
    Transformer,
    attention_weights,
)
from dragoman.profiles.parts import PositionTable, ScaledEmbedding

ACTIVATIONS = {F.relu: "relu", torch.relu: "relu", F.gelu: "gelu", F.silu: "silu"}


class NotPlain(Exception):
    """A model has a part that only its own module knows how to run; the message names it."""


@dataclass(frozen=True)
class Matrix:
    """A linear map: weight `[out, in]`, and the offsets if it has any."""

    weight: Float[Tensor, "rows columns"]
    bias: Float[Tensor, " rows"] | None


@dataclass(frozen=True)
class Norm:
    """A layer norm; a weight or bias of None is 1 or 0."""

    weight: Float[Tensor, " d_model"] | None
    bias: Float[Tensor, " d_model"] | None
    eps: float


@dataclass(frozen=True)
class Attention:
    """The projections of one attention: queries; keys, then values; output."""

    query: Matrix
    key_value: Matrix
    output: Matrix
    norm: Norm


@dataclass(frozen=True)
class Layer:
    """One layer of either stack; `cross` is None without a memory."""

    attention: Attention
    cross: Attention | None
    inner: Matrix
    outer: Matrix
    norm: Norm


@dataclass(frozen=True)
class Stack:
    """Layers, and the norm that ends them, if one does."""

    layers: tuple[Layer, ...]
    end: Norm | None


@dataclass(frozen=True)
class Embedding:
    """Rows of an embedding, what they are multiplied by, and the module that knows the positions."""

    rows: Float[Tensor, "vocab d_model"]
    scale: float
    positions: SinusoidalPositions | PositionTable

    def first_positions(self, length: int) -> Float[Tensor, "{length} d_model"]:
        """What is added to tokens 0 to `length` - 1."""
        return self._add(length, 0)

    def position(self, index: int) -> Float[Tensor, "1 d_model"]:
        """What is added to token `index`."""
        return self._add(1, index)

    def _add(self, length: int, start: int) -> Tensor:
        if isinstance(self.positions, SinusoidalPositions):
            return self.positions.table(start + length, self.rows)[start:]
        return self.positions(self.rows.new_zeros(1, length, self.rows.shape[1]), start)[0]


@dataclass(frozen=True)
class Recipe:
    """Everything that decoding needs; `encoder` and `source` are None in a decoder-only model."""

    d_model: int
    d_ff: int
    heads: int
    d_k: int
    d_v: int
    pre_norm: bool
    activation: str
    pad: int
    source: Embedding | None
    target: Embedding
    encoder: Stack | None
    decoder: Stack
    generator: Matrix

    @property
    def crosses(self) -> bool:
        """Whether the decoder looks at a memory."""
        return any(layer.cross is not None for layer in self.decoder.layers)

    def layers(self) -> Iterator[Layer]:
        """All layers of both stacks."""
        return chain(self.encoder.layers if self.encoder else (), self.decoder.layers)


def read_recipe(model: Transformer | CausalLM) -> Recipe:
    """The weights of a model, not copied.

    Raises:
        NotPlain: a part is of a kind that is not known here, or the layers differ in shape.
    """
    parameters = list(model.parameters())
    _need(
        {(one.dtype, one.device.type) for one in parameters} == {(torch.float32, "cpu")},
        "weights are not float32 on CPU",
    )
    family = Transformer if isinstance(model, Transformer) else CausalLM
    same = all(getattr(type(model), name, None) is getattr(family, name, None) for name in ("encode", "start", "step"))
    _need(same, f"a {type(model).__name__} decodes in its own way")
    first = _first_layer(model)
    attend = first.self_attention
    assert isinstance(attend, MultiHeadAttention)
    assert isinstance(first.feed_forward, FeedForward)
    _need(type(model.generator).forward is nn.Linear.forward, "the generator is not one linear map")
    recipe = Recipe(
        d_model=attend.d_model,
        d_ff=first.feed_forward.inner.out_features,
        heads=attend.num_heads,
        d_k=attend.d_k,
        d_v=attend.d_v,
        pre_norm=isinstance(first.self_attention_residual, PreNorm),
        activation=_activation(first.feed_forward),
        pad=model.pad,
        source=_embedding(model.source_embedding) if isinstance(model, Transformer) else None,
        target=_embedding(model.target_embedding if isinstance(model, Transformer) else model.embedding),
        encoder=_stack(model.encoder, first) if isinstance(model, Transformer) else None,
        decoder=_stack(model.decoder, first),
        generator=Matrix(model.generator.weight.detach(), _bias(model.generator)),
    )
    crossed = {layer.cross is not None for layer in recipe.decoder.layers}
    _need(crossed <= {isinstance(model, Transformer)}, "decoder layers differ in what they look at")
    return recipe


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise NotPlain(otherwise)


def _first_layer(model: Transformer | CausalLM) -> EncoderLayer | DecoderLayer:
    stacks = (model.encoder, model.decoder) if isinstance(model, Transformer) else (model.decoder,)
    _need(all(type(stack) in (Encoder, Decoder) for stack in stacks), "a stack is of its own kind")
    layers = [layer for stack in stacks for layer in stack.layers]
    _need(bool(layers), "there are no layers")
    for layer in layers:
        _need(type(layer) in (EncoderLayer, DecoderLayer), f"a layer is a {type(layer).__name__}")
        _need(type(layer.self_attention) is MultiHeadAttention, "an attention is of its own kind")
        _need(type(layer.feed_forward) is FeedForward, "a feed-forward block is of its own kind")
    first = layers[0]
    assert isinstance(first, (EncoderLayer, DecoderLayer))
    return first


def _activation(block: FeedForward) -> str:
    known = next((name for function, name in ACTIVATIONS.items() if block.activation is function), None)
    if known is None:
        raise NotPlain("the activation is not relu, gelu or silu")
    return known


def _bias(linear: nn.Linear) -> Tensor | None:
    return None if linear.bias is None else linear.bias.detach()


def _embedding(embedding: nn.Module) -> Embedding:
    _need(type(embedding) is InputEmbedding, "an embedding is of its own kind")
    assert isinstance(embedding, InputEmbedding)
    tokens, positions = embedding.tokens, embedding.positions
    _need(type(tokens) in (TokenEmbedding, ScaledEmbedding), "an embedding of tokens is of its own kind")
    if type(positions) not in (SinusoidalPositions, PositionTable):
        raise NotPlain("positions are of their own kind")
    assert isinstance(positions, (SinusoidalPositions, PositionTable))
    scale = tokens.scale if isinstance(tokens, ScaledEmbedding) else math.sqrt(tokens.d_model)
    return Embedding(tokens.weight.detach(), scale, positions)


def _stack(stack: Encoder | Decoder, like: EncoderLayer | DecoderLayer) -> Stack:
    end = None if type(stack.norm) is nn.Identity else _norm(stack.norm)
    return Stack(tuple(_layer(layer, like) for layer in stack.layers), end)


def _layer(layer: nn.Module, like: EncoderLayer | DecoderLayer) -> Layer:
    assert isinstance(layer, (EncoderLayer, DecoderLayer))
    kind, feed_forward, other = type(like.self_attention_residual), layer.feed_forward, like.feed_forward
    assert isinstance(feed_forward, FeedForward)
    assert isinstance(other, FeedForward)
    shapes_fit = feed_forward.inner.weight.shape == other.inner.weight.shape
    _need(shapes_fit and feed_forward.activation is other.activation, "feed-forward blocks differ")
    cross = None
    if isinstance(layer, DecoderLayer) and layer.cross_attention is not None:
        cross = _attention(layer.cross_attention, layer.cross_attention_residual, like, kind)
    return Layer(
        _attention(layer.self_attention, layer.self_attention_residual, like, kind),
        cross,
        Matrix(feed_forward.inner.weight.detach(), _bias(feed_forward.inner)),
        Matrix(feed_forward.outer.weight.detach(), _bias(feed_forward.outer)),
        _residual_norm(layer.feed_forward_residual, kind),
    )


def _attention(
    attend: nn.Module | None, residual: nn.Module | None, like: EncoderLayer | DecoderLayer, kind: type
) -> Attention:
    first = like.self_attention
    _need(type(attend) is MultiHeadAttention, "an attention is of its own kind")
    assert isinstance(attend, MultiHeadAttention)
    assert isinstance(first, MultiHeadAttention)
    _need(attend.weigh is attention_weights, "attention weighs in its own way")
    _need(attend.positions is None, "positions are inside attention")
    _need((attend.num_heads, attend.d_k, attend.d_v) == (first.num_heads, first.d_k, first.d_v), "heads differ")
    weight, bias, queries = attend.projection.weight.detach(), _bias(attend.projection), attend.widths[0]
    return Attention(
        Matrix(weight[:queries], None if bias is None else bias[:queries]),
        Matrix(weight[queries:], None if bias is None else bias[queries:]),
        Matrix(attend.output.weight.detach(), _bias(attend.output)),
        _residual_norm(residual, kind),
    )


def _residual_norm(residual: nn.Module | None, kind: type) -> Norm:
    _need(type(residual) is kind and kind in (PreNorm, PostNorm), "residual connections are of their own kind")
    assert isinstance(residual, (PreNorm, PostNorm))
    return _norm(residual.norm)


def _norm(norm: nn.Module) -> Norm:
    _need(type(norm) is nn.LayerNorm, f"a norm is a {type(norm).__name__}")
    assert isinstance(norm, nn.LayerNorm)
    return Norm(
        None if norm.weight is None else norm.weight.detach(),
        None if norm.bias is None else norm.bias.detach(),
        norm.eps,
    )
