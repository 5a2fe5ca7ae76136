"""The blueprint of a module, if its parts are all of the mainstream kind."""

from __future__ import annotations

import math
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.models.blueprint import (
    GIVEN,
    Attention,
    Blueprint,
    Embedding,
    Hearing,
    Layer,
    Matrix,
    Norm,
    NotPlain,
    Place,
    Shape,
    Stack,
)
from dragoman.models.draft import Draft
from dragoman.nn import (
    CausalLM,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    FrameEmbedding,
    InputEmbedding,
    MaskedLM,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    Subsampling,
    TokenEmbedding,
    Transformer,
    attention_weights,
)
from dragoman.nn.positions import KINDS, RelativePositions
from dragoman.profiles.parts import PositionTable, ScaledEmbedding

ACTIVATIONS = {F.relu: "relu", torch.relu: "relu", F.gelu: "gelu", F.silu: "silu"}
Model = Transformer | CausalLM | MaskedLM


def read_blueprint(model: Model) -> Blueprint[Tensor]:
    """Return the blueprint of a model with its weights, not copied.

    Raises:
        NotPlain: a part is of a kind that is not known here, the layers differ in shape, or the weights are not
            float32 on a CPU.
    """
    where = {(one.dtype, one.device.type) for one in chain(model.parameters(), model.buffers())}
    _need(where == {(torch.float32, "cpu")}, "weights are not float32 on CPU")
    return describe(model).with_weights({n: one.detach() for n, one in model.named_parameters(remove_duplicate=False)})


def describe(model: Model) -> Blueprint[Place]:
    """Return the blueprint of a model without its weights.

    Raises:
        NotPlain: a part is of a kind that is not known here, or the layers differ in shape.
    """
    family = next(kind for kind in (Transformer, CausalLM, MaskedLM) if isinstance(model, kind))
    ways = ("encode", "read", "start", "step")
    same = all(getattr(type(model), name, None) is getattr(family, name, None) for name in ways)
    _need(same, f"a {type(model).__name__} decodes in its own way")
    stacks = {name: stack for name in STACKS if (stack := getattr(model, name, None)) is not None}
    return _Reader(model, stacks).blueprint()


STACKS = ("encoder", "decoder", "right_to_left_decoder")


class _Reader(Draft):
    """The sections of a module, each part of which is looked at."""

    def __init__(self, model: Model, stacks: dict[str, nn.Module]) -> None:
        self.model, self.stacks = model, stacks
        for stack in stacks.values():
            _need(type(stack) in (Encoder, Decoder), "a stack is of its own kind")
        layers = [layer for stack in stacks.values() for layer in _layers(stack)]
        _need(bool(layers), "there are no layers")
        crosses = [layer.cross_attention for layer in layers if type(layer) is DecoderLayer and layer.cross_attention]
        first = layers[0]
        _need(type(first) in (EncoderLayer, DecoderLayer), f"a layer is a {type(first).__name__}")
        _need(type(first.self_attention) is MultiHeadAttention, "an attention is of its own kind")
        _need(type(first.feed_forward) is FeedForward, "a feed-forward block is of its own kind")
        self.first, self.kind = first, type(first.self_attention_residual)
        _need(self.kind in (PreNorm, PostNorm), "residual connections are of their own kind")
        attend, block = first.self_attention, first.feed_forward
        super().__init__(
            Shape(
                attend.d_model, block.inner.out_features, attend.num_heads, attend.d_k, attend.d_v,
                self.kind is PreNorm, _activation(block), _positions(attend),
                _positions(crosses[0]) if crosses else None, model.pad,
            )
        )  # fmt: skip

    def blueprint(self) -> Blueprint[Place]:
        """The whole model."""
        model, pairs = self.model, isinstance(self.model, Transformer)
        target = "target_embedding" if pairs else "embedding"
        parts = {name: self.stack(name, stack) for name, stack in self.stacks.items()}
        vocab, bias = model.generator.out_features, _has_bias(model.generator)
        hears = pairs and type(getattr(model, "source_embedding", None)) is FrameEmbedding
        return Blueprint(
            self.shape,
            self.side("source_embedding") if pairs and not hears else None,
            self.listening("source_embedding") if hears else None,
            self.side(target),
            parts.get("encoder"),
            parts.get("decoder"),
            self.matrix("generator", ("vocab", vocab), self.d_model, bias=bias),
            self.ctc(getattr(model, "ctc", None)),
            parts.get("right_to_left_decoder"),
            self.tied(),
        )

    def ctc(self, head: nn.Linear | None) -> Matrix[Place] | None:
        """The head that reads tokens off frames, if there is one."""
        if head is None:
            return None
        return self.matrix("ctc", ("vocab", head.out_features), self.d_model, bias=_has_bias(head))

    def listening(self, name: str) -> Hearing[Place]:
        """What hears frames, of the only kind that is known."""
        embedding = getattr(self.model, name)
        assert isinstance(embedding, FrameEmbedding)
        positions, subsampling = embedding.positions, embedding.subsampling
        _need(type(positions) in (type(None), SinusoidalPositions), "positions are of their own kind")
        _need(type(subsampling) is Subsampling, "a subsampling is of its own kind")
        first = subsampling.convolutions[0]
        assert isinstance(first, nn.Conv1d)
        added = positions.layout if isinstance(positions, SinusoidalPositions) else None
        return self.hearing(name, first.in_channels, first.out_channels, embedding.scale, added)

    def tied(self) -> dict[str, str]:
        first = {id(one): name for name, one in self.model.named_parameters()}
        every = self.model.named_parameters(remove_duplicate=False)
        return {name: first[id(one)] for name, one in every if first[id(one)] != name}

    def side(self, name: str) -> Embedding[Place]:
        """What reads ids, of kinds that are known."""
        embedding = getattr(self.model, name)
        _need(type(embedding) is InputEmbedding, "an embedding is of its own kind")
        tokens, positions = embedding.tokens, embedding.positions
        _need(type(tokens) in (TokenEmbedding, ScaledEmbedding), "an embedding of tokens is of its own kind")
        scale = tokens.scale if isinstance(tokens, ScaledEmbedding) else math.sqrt(tokens.d_model)
        known = (type(None), SinusoidalPositions, PositionTable)
        _need(type(positions) in known, "positions are of their own kind")
        if isinstance(positions, PositionTable):
            return self.embedding(name, len(tokens.weight), scale, GIVEN, positions.rows.contiguous())
        added = positions.layout if isinstance(positions, SinusoidalPositions) else None
        return self.embedding(name, len(tokens.weight), scale, added)

    def stack(self, name: str, stack: nn.Module) -> Stack[Place]:
        assert isinstance(stack, (Encoder, Decoder))
        layers = tuple(self.layer(f"{name}.layers.{i}", layer, name) for i, layer in enumerate(_layers(stack)))
        ends = type(stack.norm) is not nn.Identity
        return Stack(layers, self.normed(f"{name}.norm", stack.norm) if ends else None)

    def layer(self, name: str, layer: nn.Module, stack: str) -> Layer[Place]:
        """A layer that is like the first one in shape."""
        _need(type(layer) in (EncoderLayer, DecoderLayer), f"a layer is a {type(layer).__name__}")
        assert isinstance(layer, (EncoderLayer, DecoderLayer))
        cross = layer.cross_attention if isinstance(layer, DecoderLayer) else None
        crosses = stack != "encoder" and isinstance(self.model, Transformer)
        _need((cross is not None) == crosses, "decoder layers differ in what they look at")
        block, like = layer.feed_forward, self.first.feed_forward
        _need(type(block) is FeedForward, "a feed-forward block is of its own kind")
        assert isinstance(block, FeedForward)
        same_width = block.inner.weight.shape == like.inner.weight.shape
        _need(same_width and block.activation is like.activation, "feed-forward blocks differ")
        _need(_has_bias(block.inner) and _has_bias(block.outer), "a feed-forward block has no bias")
        return Layer(
            self.attend(f"{name}.self_attention", layer.self_attention, self.shape.self_positions),
            *self.feed_forward(f"{name}.feed_forward"),
            self.residual(f"{name}.self_attention_residual", layer.self_attention_residual),
            self.residual(f"{name}.feed_forward_residual", layer.feed_forward_residual),
            None if cross is None else self.attend(f"{name}.cross_attention", cross, self.shape.cross_positions),
            None
            if cross is None
            else self.residual(f"{name}.cross_attention_residual", getattr(layer, "cross_attention_residual", None)),
        )

    def attend(self, name: str, attend: nn.Module, positions: str | None) -> Attention[Place]:
        """An attention that is like the first one in shape, with positions of a kind inside it."""
        _need(type(attend) is MultiHeadAttention, "an attention is of its own kind")
        assert isinstance(attend, MultiHeadAttention)
        _need(attend.weigh is attention_weights, "attention weighs in its own way")
        _need(_positions(attend) == positions, "layers differ in the positions inside attention")
        heads = (attend.num_heads, attend.d_k, attend.d_v)
        _need(heads == (self.shape.heads, self.shape.d_k, self.shape.d_v), "heads differ")
        biases = _has_bias(attend.projection), _has_bias(attend.output)
        distance = attend.positions.distance if isinstance(attend.positions, RelativePositions) else None
        return self.attention(name, biases=biases, distance=distance)

    def residual(self, name: str, residual: nn.Module | None) -> Norm[Place]:
        _need(type(residual) is self.kind, "residual connections are of their own kind")
        assert isinstance(residual, (PreNorm, PostNorm))
        return self.normed(f"{name}.norm", residual.norm)

    def normed(self, name: str, norm: nn.Module) -> Norm[Place]:
        _need(type(norm) is nn.LayerNorm, f"a norm is a {type(norm).__name__}")
        assert isinstance(norm, nn.LayerNorm)
        return self.norm(name, norm.eps, weight=norm.weight is not None, bias=norm.bias is not None)


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise NotPlain(otherwise)


def _layers(stack: nn.Module) -> list:
    assert isinstance(stack, (Encoder, Decoder))
    return list(stack.layers)


def _has_bias(linear: nn.Module) -> bool:
    _need(type(linear).forward is nn.Linear.forward, f"a {type(linear).__name__} is not one linear map")
    return linear.bias is not None


def _activation(block: FeedForward) -> str:
    known = next((name for function, name in ACTIVATIONS.items() if block.activation is function), None)
    if known is None:
        raise NotPlain("the activation is not relu, gelu or silu")
    return known


def _positions(attend: nn.Module) -> str | None:
    """What an attention does about positions, as a kind of `dragoman.nn.positions`."""
    positions = getattr(attend, "positions", None)
    if positions is None:
        return None
    kind = next((name for name, known in KINDS.items() if type(positions) is known), None)
    if kind is None:
        raise NotPlain("positions inside attention are of their own kind")
    return kind
