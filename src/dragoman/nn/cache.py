"""What decoding carries from step to step, so that each step computes only its newest token.

Two kinds: the keys and values of the target's own past grow by one position a step; those of the memory are fixed,
projected once a sentence. Both can `reorder` their rows when a search drops, repeats or exchanges hypotheses.
"""

from __future__ import annotations

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
    """The caches of all decoder layers and the mask of the memory: the *state* of a search."""

    layers: list[LayerCache]
    memory_mask: Bool[Tensor, "batch 1 1 src"] | None = None
    length: int = 0
    _sentence: Tensor | None = None

    def reorder(self, indices: Int[Tensor, " rows"]) -> DecoderCache:
        """Keep the hypotheses at `indices`, in that order, in every layer."""
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
