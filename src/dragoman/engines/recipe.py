"""A trained model as plain weights: what the engines that do not run the modules themselves are built from.

The weights are found by their dotted names, so that it makes no difference whether they come from modules (`reading`)
or straight from a file (`light`). Nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

# Positions that turn queries and keys: those of self-attention, or also those between target and source.
TURNING = ("rotary", "rotary-cross")


class NotPlain(Exception):
    """A model has a part that only its own module knows how to run; the message names it."""


@runtime_checkable
class Array(Protocol):
    """What is needed of a weight: float32 numbers in memory, a tensor or not."""

    @property
    def shape(self) -> Any:
        """Its sizes."""
        ...

    def __getitem__(self, rows: slice, /) -> Any:
        """Some of its rows, in the same memory."""
        ...

    def contiguous(self) -> Any:
        """Itself, or a copy without gaps."""
        ...

    def data_ptr(self) -> int:
        """Where it begins."""
        ...


A = TypeVar("A", bound=Array)


# Arrays are not compared, nor shown whole; and each method that a dataclass need not make saves time at every start.
@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Generic[A]):
    """A linear map: weight `[out, in]`, and the offsets `[out]` if it has any."""

    weight: A
    bias: A | None


@dataclass(frozen=True, eq=False, repr=False)
class Norm(Generic[A]):
    """A layer norm; a weight or bias of None is 1 or 0."""

    weight: A | None
    bias: A | None
    eps: float


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Generic[A]):
    """The projections of one attention: queries; keys, then values; output."""

    query: Matrix[A]
    key_value: Matrix[A]
    output: Matrix[A]
    norm: Norm[A]


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Generic[A]):
    """One layer of either stack; `cross` is None without a memory."""

    attention: Attention[A]
    cross: Attention[A] | None
    inner: Matrix[A]
    outer: Matrix[A]
    norm: Norm[A]


@dataclass(frozen=True, eq=False, repr=False)
class Stack(Generic[A]):
    """Layers, and the norm that ends them, if one does."""

    layers: tuple[Layer[A], ...]
    end: Norm[A] | None


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Generic[A]):
    """Rows `[vocab, d_model]` of an embedding, what they are multiplied by, and how sinusoids are laid out in a row.

    The layout is one of `TURNING` where positions turn queries and keys instead, None where rows of another kind are
    added.
    """

    rows: A
    scale: float
    layout: str | None


class Shape(NamedTuple):
    """Everything of a model that is no weight.

    Attributes:
        d_model: width of every representation.
        d_ff: inner width of the feed-forward blocks.
        heads: of every attention.
        d_k: width of queries and keys of a head.
        d_v: width of values of a head.
        pre_norm: norms stand before the sub-layers, not after.
        activation: `relu`, `gelu` or `silu`.
        pad: id that fills rows up.
        scales: what the rows of the source and the target embedding are multiplied by.
        layouts: of their sinusoids; as in `Embedding`.
        layers: of encoder and decoder; None where there is no encoder.
        ends: whether a norm ends each.
    """

    d_model: int
    d_ff: int
    heads: int
    d_k: int
    d_v: int
    pre_norm: bool
    activation: str
    pad: int
    scales: tuple[float, float]
    layouts: tuple[str | None, str | None]
    layers: tuple[int | None, int]
    ends: tuple[bool, bool]


@dataclass(frozen=True, eq=False, repr=False)
class Recipe(Generic[A]):
    """Everything that decoding needs; `encoder` and `source` are None in a decoder-only model."""

    shape: Shape
    source: Embedding[A] | None
    target: Embedding[A]
    encoder: Stack[A] | None
    decoder: Stack[A]
    generator: Matrix[A]

    @property
    def crosses(self) -> bool:
        """Whether the decoder looks at a memory."""
        return any(layer.cross is not None for layer in self.decoder.layers)

    def layers(self) -> Iterator[Layer[A]]:
        """All layers of both stacks."""
        return chain(self.encoder.layers if self.encoder else (), self.decoder.layers)


def make_recipe(shape: Shape, weights: Mapping[str, A], eps: Callable[[str], float]) -> Recipe[A]:
    """Put weights where they belong, not copied.

    Args:
        shape: of the model.
        weights: by dotted name.
        eps: of the norm of that name.

    Raises:
        NotPlain: a weight is missing or not of the shape it must have.
    """
    names = _Names(shape, weights, eps)
    alone = shape.layers[0] is None
    return Recipe(
        shape,
        None if alone else names.embedding("source_embedding", 0),
        names.embedding("embedding" if alone else "target_embedding", 1),
        None if alone else names.stack("encoder", 0, cross=False),
        names.stack("decoder", 1, cross=not alone),
        names.matrix("generator", None, shape.d_model),
    )


class _Names(Generic[A]):
    """Which weight has which name."""

    def __init__(self, shape: Shape, weights: Mapping[str, A], eps: Callable[[str], float]) -> None:
        self.shape, self.weights, self.eps = shape, weights, eps

    def embedding(self, name: str, side: int) -> Embedding[A]:
        rows = self.matrix(f"{name}.tokens", None, self.shape.d_model).weight
        return Embedding(rows, self.shape.scales[side], self.shape.layouts[side])

    def stack(self, name: str, side: int, *, cross: bool) -> Stack[A]:
        layers = tuple(self.layer(f"{name}.layers.{i}", cross=cross) for i in range(self.shape.layers[side] or 0))
        return Stack(layers, self.norm(f"{name}.norm") if self.shape.ends[side] else None)

    def layer(self, name: str, *, cross: bool) -> Layer[A]:
        shape = self.shape
        return Layer(
            self.attention(f"{name}.self_attention"),
            self.attention(f"{name}.cross_attention") if cross else None,
            self.matrix(f"{name}.feed_forward.inner", shape.d_ff, shape.d_model),
            self.matrix(f"{name}.feed_forward.outer", shape.d_model, shape.d_ff),
            self.norm(f"{name}.feed_forward_residual.norm"),
        )

    def attention(self, name: str) -> Attention[A]:
        shape = self.shape
        queries, mixed = shape.heads * shape.d_k, shape.heads * shape.d_v
        whole = self.matrix(f"{name}.projection", 2 * queries + mixed, shape.d_model)
        weight, bias = whole.weight, whole.bias
        return Attention(
            Matrix(weight[:queries], None if bias is None else bias[:queries]),
            Matrix(weight[queries:], None if bias is None else bias[queries:]),
            self.matrix(f"{name}.output", shape.d_model, mixed),
            self.norm(f"{name}_residual.norm"),
        )

    def matrix(self, name: str, rows: int | None, columns: int) -> Matrix[A]:
        weight, bias = self.weights.get(f"{name}.weight"), self.weights.get(f"{name}.bias")
        if weight is None:
            raise NotPlain(f"there is no {name}.weight")
        found = tuple(weight.shape)
        if len(found) != 2 or found != (found[0] if rows is None else rows, columns):
            raise NotPlain(f"{name}.weight has the shape {found}")
        if bias is not None and tuple(bias.shape) != found[:1]:
            raise NotPlain(f"{name}.bias has the shape {tuple(bias.shape)}")
        return Matrix(weight, bias)

    def norm(self, name: str) -> Norm[A]:
        weight, bias = (self.weights.get(f"{name}.{part}") for part in ("weight", "bias"))
        for one in (weight, bias):
            if one is not None and tuple(one.shape) != (self.shape.d_model,):
                raise NotPlain(f"{name} has the shape {tuple(one.shape)}")
        return Norm(weight, bias, self.eps(name))
