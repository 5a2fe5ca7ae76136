"""The weights of a trained module as a `Recipe`, if its parts are all of the mainstream kind."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.engines.recipe import TURNING, NotPlain, Recipe, Shape, make_recipe
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
    RotaryPositions,
    SinusoidalPositions,
    TokenEmbedding,
    Transformer,
    attention_weights,
)
from dragoman.profiles.parts import PositionTable, ScaledEmbedding

ACTIVATIONS = {F.relu: "relu", torch.relu: "relu", F.gelu: "gelu", F.silu: "silu"}


def read_recipe(model: Transformer | CausalLM) -> Recipe[Tensor]:
    """The weights of a model, not copied.

    Raises:
        NotPlain: a part is of a kind that is not known here, or the layers differ in shape.
    """
    _need(
        {(one.dtype, one.device.type) for one in model.parameters()} == {(torch.float32, "cpu")},
        "weights are not float32 on CPU",
    )
    family = Transformer if isinstance(model, Transformer) else CausalLM
    same = all(getattr(type(model), name, None) is getattr(family, name, None) for name in ("encode", "start", "step"))
    _need(same, f"a {type(model).__name__} decodes in its own way")
    stacks = (model.encoder, model.decoder) if isinstance(model, Transformer) else (model.decoder,)
    first = _first_layer(*stacks)
    attend, block = first.self_attention, first.feed_forward
    assert isinstance(attend, MultiHeadAttention)
    assert isinstance(block, FeedForward)
    activation = _activation(block)
    for stack in stacks:
        _check_stack(stack, first, crosses=isinstance(model, Transformer) and stack is model.decoder)
    _need(type(model.generator).forward is nn.Linear.forward, "the generator is not one linear map")
    inside = _inside(first, model.decoder)
    target = _embedding(model.target_embedding if isinstance(model, Transformer) else model.embedding, inside)
    source = _embedding(model.source_embedding, inside) if isinstance(model, Transformer) else target
    encoder = model.encoder if isinstance(model, Transformer) else None
    shape = Shape(
        d_model=attend.d_model,
        d_ff=block.inner.out_features,
        heads=attend.num_heads,
        d_k=attend.d_k,
        d_v=attend.d_v,
        pre_norm=isinstance(first.self_attention_residual, PreNorm),
        activation=activation,
        pad=model.pad,
        scales=(source[0], target[0]),
        layouts=(source[1], target[1]),
        layers=(None if encoder is None else len(encoder.layers), len(model.decoder.layers)),
        ends=(encoder is not None and _has_end(encoder), _has_end(model.decoder)),
    )
    weights = {name: one.detach() for name, one in model.named_parameters(remove_duplicate=False)}
    return make_recipe(shape, weights, lambda name: _norm(model.get_submodule(name)).eps)


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise NotPlain(otherwise)


def _first_layer(*stacks: nn.Module) -> EncoderLayer | DecoderLayer:
    layers = []
    for stack in stacks:
        _need(type(stack) in (Encoder, Decoder), "a stack is of its own kind")
        assert isinstance(stack, (Encoder, Decoder))
        layers += stack.layers
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


def _inside(first: EncoderLayer | DecoderLayer, decoder: nn.Module) -> str | None:
    """Which queries and keys are turned by their positions, if any are."""
    assert isinstance(decoder, Decoder)
    own, cross = (
        isinstance(attend, MultiHeadAttention) and isinstance(attend.positions, RotaryPositions)
        for attend in (first.self_attention, next((layer.cross_attention for layer in decoder.layers), None))
    )
    _need(own or not cross, "positions are inside cross-attention alone")
    return TURNING[cross] if own else None


def _embedding(embedding: nn.Module, inside: str | None) -> tuple[float, str | None]:
    """What its rows are multiplied by, and the layout of its sinusoids, or what they turn instead."""
    _need(type(embedding) is InputEmbedding, "an embedding is of its own kind")
    assert isinstance(embedding, InputEmbedding)
    tokens, positions = embedding.tokens, embedding.positions
    _need(type(tokens) in (TokenEmbedding, ScaledEmbedding), "an embedding of tokens is of its own kind")
    scale = tokens.scale if isinstance(tokens, ScaledEmbedding) else math.sqrt(tokens.d_model)
    if inside:
        _need(positions is None, "positions are both added and inside attention")
        return scale, inside
    _need(type(positions) in (SinusoidalPositions, PositionTable), "positions are of their own kind")
    return scale, positions.layout if isinstance(positions, SinusoidalPositions) else None


def _has_end(stack: Encoder | Decoder) -> bool:
    return type(stack.norm) is not nn.Identity


def _check_stack(stack: Encoder | Decoder, like: EncoderLayer | DecoderLayer, *, crosses: bool) -> None:
    """Layers that can be told apart by their weights alone."""
    kind, other = type(like.self_attention_residual), like.feed_forward
    _need(kind in (PreNorm, PostNorm), "residual connections are of their own kind")
    assert isinstance(other, FeedForward)
    cross_like = getattr(next(iter(stack.layers), None), "cross_attention", None)
    for layer in stack.layers:
        assert isinstance(layer, (EncoderLayer, DecoderLayer))
        assert isinstance(layer.feed_forward, FeedForward)
        same_width = layer.feed_forward.inner.weight.shape == other.inner.weight.shape
        _need(same_width and layer.feed_forward.activation is other.activation, "feed-forward blocks differ")
        cross = layer.cross_attention if isinstance(layer, DecoderLayer) else None
        _need((cross is not None) == crosses, "decoder layers differ in what they look at")
        attentions = [layer.self_attention] if cross is None else [layer.self_attention, cross]
        residuals = [layer.self_attention_residual, layer.feed_forward_residual]
        if isinstance(layer, DecoderLayer) and layer.cross_attention_residual is not None:
            residuals.append(layer.cross_attention_residual)
        for attend, turned in zip(attentions, (like.self_attention, cross_like), strict=False):
            _check_attention(attend, like.self_attention, turned)
        for residual in residuals:
            _need(type(residual) is kind, "residual connections are of their own kind")


def _check_attention(attend: nn.Module, first: nn.Module, alike: nn.Module | None) -> None:
    """Heads are those of the first attention, positions inside of the kind of another's."""
    _need(type(attend) is MultiHeadAttention, "an attention is of its own kind")
    assert isinstance(attend, MultiHeadAttention)
    assert isinstance(first, MultiHeadAttention)
    _need(attend.weigh is attention_weights, "attention weighs in its own way")
    kind = type(getattr(alike, "positions", None))
    _need(kind in (type(None), RotaryPositions) and type(attend.positions) is kind, "positions are inside attention")
    _need((attend.num_heads, attend.d_k, attend.d_v) == (first.num_heads, first.d_k, first.d_v), "heads differ")


def _norm(norm: nn.Module) -> nn.LayerNorm:
    _need(type(norm) is nn.LayerNorm, f"a norm is a {type(norm).__name__}")
    assert isinstance(norm, nn.LayerNorm)
    return norm
