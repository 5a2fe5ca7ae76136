"""The blueprint of a model: its parts, their shapes and names, with its weights or without them. PyTorch is not needed.

Everything that has to know how a model is made reads it here: what builds the modules, what runs them in other ways,
what trains them fast, what counts them, and what writes them for others. It comes from a configuration
(`dragoman.models.draft`) or from a module (`dragoman.models.reading`); weights are put in by their dotted names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from dragoman.sequences.source import SPECIALS

# Each `model.positions`: the layout of the sinusoids that are added to the embeddings, what self-attention does about
# positions, and what cross-attention does (`dragoman.nn.positions` has both).
SCHEMES = {
    "interleaved": ("interleaved", None, None),
    "concatenated": ("concatenated", None, None),
    "marian": ("marian", None, None),
    "fairseq": ("fairseq", None, None),
    "rotary": (None, "rotary", None),
    "rotary-cross": (None, "rotary", "rotary"),
    "relative": (None, "relative", None),
    "alibi": (None, "alibi", None),
}
# Stands for the layout where the rows of a table are added.
GIVEN = "given"
# An offset of the generator for a token that no output has: its probability is 0 in float64 too, and what label
# smoothing makes of it, when such a model is trained on, stays small.
NO_LOGIT = -1e3


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
        """Return the array itself, or a copy without gaps."""
        ...

    def data_ptr(self) -> int:
        """Return the address of the first number."""
        ...


class Place(NamedTuple):
    """Where a weight belongs: what stands for it in a blueprint without weights.

    Attributes:
        name: dotted, as in the state of the module.
        dims: the name of each dimension.
        shape: the size of each.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]


A = TypeVar("A")
W = TypeVar("W", bound=Array)


# Fields stand in the order of the modules' own parameters. Nobody changes a section, compares or prints it; each method
# that a dataclass need not make for that saves time at every start (those that freeze one a third of a millisecond).
@dataclass(eq=False, repr=False)
class Matrix(Generic[A]):
    """A linear map: weight `[out, in]`, and the offsets `[out]` if it has any."""

    weight: A
    bias: A | None


@dataclass(eq=False, repr=False)
class Norm(Generic[A]):
    """A layer norm; a weight or bias of None is 1 or 0."""

    weight: A | None
    bias: A | None
    eps: float


@dataclass(eq=False, repr=False)
class Attention(Generic[A]):
    """One attention: `projection` makes queries, keys and values, one after the other.

    `distances` `[2 * distance + 1, d_k]` are the vectors of relative positions, None with all others.
    """

    projection: Matrix[A]
    output: Matrix[A]
    distances: A | None


@dataclass(eq=False, repr=False)
class Layer(Generic[A]):
    """One layer of either stack; the cross-attention and its norm are None where it looks at no memory."""

    self_attention: Attention[A]
    inner: Matrix[A]
    outer: Matrix[A]
    self_attention_norm: Norm[A]
    feed_forward_norm: Norm[A]
    cross_attention: Attention[A] | None
    cross_attention_norm: Norm[A] | None


@dataclass(eq=False, repr=False)
class Stack(Generic[A]):
    """Layers, and the norm that ends them, if one does."""

    layers: tuple[Layer[A], ...]
    end: Norm[A] | None

    def norms(self) -> Iterator[Norm[A]]:
        """Return all norms, in the order in which a vector meets them."""
        for layer in self.layers:
            norms = layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm
            yield from (norm for norm in norms if norm is not None)
        if self.end is not None:
            yield self.end


@dataclass(eq=False, repr=False)
class Embedding(Generic[A]):
    """Rows `[vocab, d_model]` of an embedding, what they are multiplied by, and what is added.

    That is sinusoids in the layout `positions`, or the rows of a `table` `[longest, d_model]` (`GIVEN`), or nothing
    (None). A table is no weight: it is not learned, and it is here without weights too.
    """

    rows: A
    scale: float
    positions: str | None
    table: Array | None = None


@dataclass(eq=False, repr=False)
class Convolution(Generic[A]):
    """One over time: weight `[out, in, kernel]` and offsets `[out]`; a gated linear unit halves what comes out."""

    weight: A
    bias: A


@dataclass(eq=False, repr=False)
class Hearing(Generic[A]):
    """Frames of sound to vectors: convolutions of stride 2, what their outputs are multiplied by, and what is added.

    `positions` is as in `Embedding`.
    """

    convolutions: tuple[Convolution[A], ...]
    scale: float
    positions: str | None
    table: Array | None = None


class Shape(NamedTuple):
    """What holds for all layers of a model.

    Attributes:
        d_model: width of every representation.
        d_ff: inner width of the feed-forward blocks.
        heads: of every attention.
        d_k: width of queries and keys of a head.
        d_v: width of values of a head.
        pre_norm: norms stand before the sub-layers, not after.
        activation: `relu`, `gelu` or `silu`.
        self_positions: what self-attention does about positions, as in `SCHEMES`.
        cross_positions: what cross-attention does.
        pad: id that fills rows up.
    """

    d_model: int
    d_ff: int
    heads: int
    d_k: int
    d_v: int
    pre_norm: bool
    activation: str
    self_positions: str | None
    cross_positions: str | None
    pad: int = SPECIALS.pad


@dataclass(eq=False, repr=False)
class Blueprint(Generic[A]):
    """All parts of a model: of `Place`s (its architecture alone), or of its weights.

    Attributes:
        shape: what holds for all layers.
        source: what the encoder of an encoder-decoder reads ids with; None in models of one text, and of those that
            listen.
        hearing: what the encoder of a model that listens hears frames with.
        target: what the decoder reads with; in a masked model the encoder.
        encoder: None in a causal model.
        decoder: None in a masked model.
        generator: from the last vectors to logits.
        ctc: from the encoder's vectors to logits, of models that listen and read tokens off frames too.
        right_to_left: another decoder, which reads targets right to left, if there is one.
        tied: names of weights that are another one too, and its name.
    """

    shape: Shape
    source: Embedding[A] | None
    hearing: Hearing[A] | None
    target: Embedding[A]
    encoder: Stack[A] | None
    decoder: Stack[A] | None
    generator: Matrix[A]
    ctc: Matrix[A] | None
    right_to_left: Stack[A] | None
    tied: Mapping[str, str]

    @property
    def crosses(self) -> bool:
        """Whether the decoder looks at a memory."""
        return self.decoder is not None and any(layer.cross_attention for layer in self.decoder.layers)

    @property
    def stacks(self) -> tuple[Stack[A] | None, Stack[A] | None, Stack[A] | None]:
        """Encoder, decoder, and the right-to-left decoder; None where there is none."""
        return self.encoder, self.decoder, self.right_to_left

    @property
    def embeddings(self) -> tuple[Embedding[A] | Hearing[A], ...]:
        """Those of both sides, or the only one."""
        source = self.source or self.hearing
        return (self.target,) if source is None else (source, self.target)

    @property
    def tables(self) -> tuple[Embedding[A], ...]:
        """Those of ids: of both sides, or the only one."""
        return (self.target,) if self.source is None else (self.source, self.target)

    @property
    def scheme(self) -> tuple[str | None, str | None, str | None]:
        """What is done about positions, as in `SCHEMES`; the two embeddings joined by `+` where they differ."""
        added = {one.positions: None for one in self.embeddings}
        layout = next(iter(added)) if len(added) == 1 else "+".join(map(str, added))
        return layout, self.shape.self_positions, self.shape.cross_positions

    def layers(self) -> Iterator[Layer[A]]:
        """Return the layers of the encoder, then those of the decoder."""
        return chain.from_iterable(stack.layers for stack in (self.encoder, self.decoder) if stack)

    def from_the_right(self) -> Blueprint[A]:
        """Return the right-to-left model: the same, or with its other decoder."""
        if self.right_to_left is None:
            return self
        return replace(self, decoder=self.right_to_left, right_to_left=None)

    def with_weights(self: Blueprint[Place], weights: Mapping[str, W]) -> Blueprint[W]:
        """Put weights where they belong, not copied.

        Args:
            weights: by dotted name, tied ones under each of their names.

        Raises:
            NotPlain: one is missing, left over, of another shape than its place, or not tied as it should be.
        """
        left = dict(weights)

        def find(place: Place) -> W:
            found = left.pop(place.name, None)
            if found is None:
                raise NotPlain(f"there is no {place.name}")
            if tuple(found.shape) != place.shape:
                raise NotPlain(f"{place.name} has the shape {tuple(found.shape)}, not {place.shape}")
            return found

        filled = _filled(self, find)
        if left:
            raise NotPlain(f"{next(iter(left))} has no place in the model")
        for name, other in self.tied.items():
            if weights[name].data_ptr() != weights[other].data_ptr():
                raise NotPlain(f"{name} is not {other}")
        return filled


def places(blueprint: Blueprint[Place]) -> list[Place]:
    """Return the place of every weight, in the modules' own order; tied ones under each of their names."""
    found: list[Place] = []
    _filled(blueprint, found.append)
    return found


def parameters(blueprint: Blueprint[Place]) -> list[Place]:
    """Return the place of every learned tensor, tied ones once, under their first name."""
    return [place for place in places(blueprint) if place.name not in blueprint.tied]


def count_numbers(blueprint: Blueprint[Place], part: str = "") -> int:
    """Return how many numbers are learned, tied ones counted once, in all of it or in a `part` by its dotted name."""
    found = (place for place in parameters(blueprint) if not part or place.name.startswith(f"{part}."))
    return sum(math.prod(place.shape) for place in found)


_SECTIONS = (Blueprint, Embedding, Hearing, Convolution, Stack, Layer, Attention, Norm, Matrix)


def _filled(part: Any, find: Callable[[Place], Any]) -> Any:
    """Something of the blueprint with what is found for each place in it."""
    kind = type(part)
    if kind is Place:
        return find(part)
    if kind is tuple:
        return tuple(_filled(one, find) for one in part)
    return kind(*(_filled(one, find) for one in vars(part).values())) if kind in _SECTIONS else part


def halves(matrix: Matrix[W], rows: int) -> tuple[Matrix[W], Matrix[W]]:
    """Return the first rows of a matrix and the others, each a matrix: queries; keys, then values."""
    weight, bias = matrix.weight, matrix.bias
    if bias is None:
        return Matrix(weight[:rows], None), Matrix(weight[rows:], None)
    return Matrix(weight[:rows], bias[:rows]), Matrix(weight[rows:], bias[rows:])
