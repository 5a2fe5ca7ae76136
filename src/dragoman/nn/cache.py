"""What decoding carries from step to step, so that each step computes only its newest token.

Two kinds: the keys and values of the target's own past grow by one position a step; those of the memory are fixed,
projected once a sentence. Both can `reorder` their rows when a search drops, repeats or exchanges hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass
class GrowingCache:
    """Keys and values of the positions decoded so far, in buffers that double when full: no copy on most steps."""

    length: int = 0
    _key: Tensor | None = None
    _value: Tensor | None = None

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads k_len d_k"], Float[Tensor, "batch heads k_len d_v"]]:
        """Add positions; returns all keys and values up to and with them, as views of the buffers."""
        end = self.length + key.shape[2]
        self._key = _with_room(self._key, key, self.length, end)
        self._value = _with_room(self._value, value, self.length, end)
        self._key[:, :, self.length : end] = key
        self._value[:, :, self.length : end] = value
        self.length = end
        return self._key[:, :, :end], self._value[:, :, :end]

    def reorder(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep the rows at `indices`, in that order; a row may be repeated or left out."""
        if self._key is not None and self._value is not None:
            self._key = _take_rows(self._key, indices, self.length)
            self._value = _take_rows(self._value, indices, self.length)


def _with_room(buffer: Tensor | None, new: Tensor, length: int, end: int) -> Tensor:
    if buffer is not None and end <= buffer.shape[2]:
        return buffer
    batch, heads, _, width = new.shape
    grown = new.new_empty(batch, heads, max(16, 2 * end), width)
    if buffer is not None:
        grown[:, :, :length] = buffer[:, :, :length]
    return grown


def _take_rows(buffer: Tensor, indices: Tensor, length: int) -> Tensor:
    _, heads, capacity, width = buffer.shape
    taken = buffer.new_empty(len(indices), heads, capacity, width)
    taken[:, :, :length] = buffer[:, :, :length].index_select(0, indices)
    return taken


@dataclass
class FixedCache:
    """Keys and values of the memory, and how many positions of the target have looked at them."""

    key: Float[Tensor, "batch heads src d_k"]
    value: Float[Tensor, "batch heads src d_v"]
    length: int = 0

    def reorder(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep the rows at `indices`, in that order."""
        self.key = self.key.index_select(0, indices)
        self.value = self.value.index_select(0, indices)


@dataclass
class LayerCache:
    """The caches of one decoder layer; `cross` is None where there is no memory (a decoder-only model)."""

    own: GrowingCache
    cross: FixedCache | None = None


@dataclass
class DecoderCache:
    """The caches of all decoder layers and the mask of the memory: the *state* of a search.

    Attributes:
        layers: from the first to the last.
        memory_mask: True where the memory may be attended to; None where there is none.
        length: positions decoded so far.
        rows: hypotheses; None where nobody has said it yet, without a memory.
    """

    layers: list[LayerCache]
    memory_mask: Bool[Tensor, "batch 1 1 src"] | None = None
    length: int = 0
    rows: int | None = None
    _sentence: Tensor | None = None

    def step(
        self, tokens: Int[Tensor, " batch"], run: Callable[[DecoderCache, Tensor], Tensor]
    ) -> Float[Tensor, "batch d_model"]:
        """Return what `run` makes of the cache and the newest tokens."""
        return run(self, tokens)

    def join(self, other: DecoderCache | JoinedCache) -> JoinedCache:
        """Append the rows of another cache, which may be at another step."""
        return JoinedCache.of(self).join(other)

    def reorder(self, indices: Int[Tensor, " rows"]) -> DecoderCache:
        """Keep the hypotheses at `indices`, in that order, in every layer."""
        self.rows = len(indices)
        for layer in self.layers:
            layer.own.reorder(indices)
        if self.memory_mask is None:
            return self
        rows = len(self.memory_mask)
        before = torch.arange(rows, device=indices.device) if self._sentence is None else self._sentence
        self._sentence = before.index_select(0, indices)
        if torch.equal(self._sentence, before):
            return self  # hypotheses changed places within their sentences, whose memory is the same
        for layer in self.layers:
            if layer.cross is not None:
                layer.cross.reorder(indices)
        self.memory_mask = self.memory_mask.index_select(0, indices)
        return self


@dataclass
class JoinedCache:
    """Caches whose rows are at different steps, as one: each part goes on by itself, as it would alone.

    Attributes:
        parts: caches, each with rows of one step.
        places: which rows of the whole those of each part are.
    """

    parts: list[DecoderCache]
    places: list[Int[Tensor, "_"]]

    @classmethod
    def of(cls, cache: DecoderCache | JoinedCache) -> JoinedCache:
        """Return a cache as one of parts.

        Raises:
            ValueError: nobody knows how many rows it has.
        """
        if isinstance(cache, JoinedCache):
            return cache
        if cache.rows is None:
            raise ValueError("a cache that does not know its rows cannot be joined")
        device = None if cache.memory_mask is None else cache.memory_mask.device
        return cls([cache], [torch.arange(cache.rows, device=device)])

    @property
    def rows(self) -> int:
        """How many rows all parts have."""
        return sum(map(len, self.places))

    def join(self, other: DecoderCache | JoinedCache) -> JoinedCache:
        """Append the rows of another cache."""
        more = JoinedCache.of(other)
        return JoinedCache(self.parts + more.parts, self.places + [place + self.rows for place in more.places])

    def reorder(self, indices: Int[Tensor, " rows"]) -> JoinedCache:
        """Keep the rows at `indices`, in that order; a part without any of them is dropped."""
        owner, local = torch.empty(2, self.rows, dtype=torch.long, device=indices.device)
        for number, place in enumerate(self.places):
            owner[place], local[place] = number, torch.arange(len(place), device=indices.device)
        owner, local = owner[indices], local[indices]
        places = [(owner == number).nonzero()[:, 0] for number in range(len(self.parts))]
        kept = [number for number, place in enumerate(places) if len(place)]
        parts = [self.parts[number].reorder(local[places[number]]) for number in kept]
        return JoinedCache(parts, [places[number] for number in kept])

    def step(
        self, tokens: Int[Tensor, " batch"], run: Callable[[DecoderCache, Tensor], Tensor]
    ) -> Float[Tensor, "batch d_model"]:
        """Return what `run` makes of each part and its tokens, in the order of the rows."""
        found = [run(part, tokens[place]) for part, place in zip(self.parts, self.places, strict=True)]
        return torch.cat(found)[torch.cat(self.places).argsort()]


# The state of a search, whether its rows are all at one step or not.
StepCache = DecoderCache | JoinedCache
