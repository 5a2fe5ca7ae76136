"""The forward pass of a plain model as training runs it on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.data import Batch, TextBatch
from dragoman.fast.functions import add_norm, cross_attention, feed_forward, self_attention
from dragoman.fast.kernels import ALIGNED, Kernels, Layout, draw_drop, load_kernels
from dragoman.models.bidirectional import BidirectionalTransformer, Memory, decoder_passes, read_targets
from dragoman.models.blueprint import Blueprint, NotPlain
from dragoman.models.reading import describe
from dragoman.nn import (
    AlibiPositions,
    CausalLM,
    Decoder,
    Dropout,
    Encoder,
    FeedForward,
    FrameEmbedding,
    InputEmbedding,
    MaskedLM,
    MultiHeadAttention,
    PostNorm,
    RotaryPositions,
    SinusoidalPositions,
    Transformer,
)
from dragoman.sequences import TargetBatch
from dragoman.sequences.source import positions_of

Model = Transformer | CausalLM | MaskedLM


@runtime_checkable
class Hidden(Protocol):
    """Gives vectors at each label of a batch, and appends what the encoder made of its sources to `memories`."""

    def __call__(
        self, batch: Batch | TextBatch, memories: list[Memory] | None = None
    ) -> Float[Tensor, "rows labels d_model"]:
        """See `module_hidden`."""
        ...


# Whose `hidden` is what the kernels compute.
MODELS = (Transformer, BidirectionalTransformer, CausalLM, MaskedLM)
# What is done about positions (`dragoman.models.blueprint.SCHEMES`).
POSITIONS = {
    ("interleaved", None, None), ("concatenated", None, None), ("marian", None, None), ("fairseq", None, None),
    (None, "rotary", None), (None, "rotary", "rotary"),
    (None, "alibi", None),
}  # fmt: skip
# Of longer sequences the weights, which are kept for the backward pass, would be most of the memory.
LONGEST = 256


def module_hidden(
    model: Model, batch: Batch | TextBatch, memories: list[Memory] | None = None
) -> Float[Tensor, "rows labels d_model"]:
    """Return what a model gives to its generator at each label of a batch, as its modules compute it.

    Args:
        model: of any family.
        batch: what it reads.
        memories: of pairs, what the encoder made of the sources is appended to it.
    """
    if isinstance(batch, Batch):
        assert isinstance(model, Transformer)
        return read_targets(model, batch.source, batch.target, memories)
    assert not isinstance(model, Transformer)
    return model.hidden(batch.ids, batch.mask)


def training_hidden(model: Model) -> Hidden:
    """Return what stands for `module_hidden` in training: the same vectors and gradients, to rounding, sooner.

    At positions of padding, which nobody looks at, it gives zeros. Where it does not apply (other parts than those
    that `dragoman.models` puts together for the paper's model, rotary positions or ALiBi, another device or precision,
    observers, no gradients, no compiled library, sequences above 256) it calls the modules. Dropout draws other
    numbers than the modules, from PyTorch's generator as they do. Under `torch.autocast` to bfloat16 the products with
    weights have factors of bfloat16, as the modules' have; all else is float32, attention included.
    """

    plain = is_plain(model)

    def hidden(batch: Batch | TextBatch, memories: list[Memory] | None = None) -> Tensor:
        kernels = load_kernels() if plain else None
        if kernels is None or not _applies(model, batch):
            return module_hidden(model, batch, memories)
        if not torch.is_autocast_enabled("cpu"):
            return _Run(kernels).hidden(model, batch, memories)
        with torch.autocast("cpu", enabled=False):
            return _Run(kernels.rounding(torch.bfloat16)).hidden(model, batch, memories)

    return hidden


def supports(blueprint: Blueprint[Any]) -> str | None:
    """Return None if there are kernels for such a model, else why not, in words."""
    shape, stacks = blueprint.shape, [stack for stack in blueprint.stacks if stack is not None]
    norms = [norm for stack in stacks for norm in stack.norms()]
    whole = {norm.weight is not None and norm.bias is not None for norm in norms} == {True}
    widths = (shape.d_model, shape.d_ff, shape.d_k)
    reasons = {
        "these positions": blueprint.scheme in POSITIONS,
        f"an activation of {shape.activation}": shape.activation == "relu",
        f"widths that are no multiples of {ALIGNED}": not any(width % ALIGNED for width in widths),
        "values that are not as wide as keys": shape.d_k == shape.d_v,
        "a stack without layers": all(stack.layers for stack in stacks),
        "norms of their own kind": whole and all((stack.end is not None) == shape.pre_norm for stack in stacks),
    }
    return next((f"there are no kernels for {reason}" for reason, fine in reasons.items() if not fine), None)


def is_plain(model: Model) -> bool:
    """Return whether a model is made of the parts that have kernels."""
    try:
        return type(model) in MODELS and supports(describe(model)) is None
    except NotPlain:
        return False


def _applies(model: Model, batch: Batch | TextBatch) -> bool:
    weight = model.generator.weight
    widths = [one.shape[1] for one in ((batch.target.inputs,) if isinstance(batch, Batch) else (batch.ids,))]
    if isinstance(batch, Batch):
        frames = batch.source.ids.dim() == 3
        widths.append(positions_of(batch.source.ids.shape[1]) if frames else batch.source.ids.shape[1])
    return (
        torch.is_grad_enabled()
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and (not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") == torch.bfloat16)
        and all(0 < width <= LONGEST for width in widths)
        and len(batch) > 0
        and not any(map(_is_watched, model.modules()))
    )


def _is_watched(part: nn.Module) -> bool:
    """Whether somebody looks on, or attention weights are dropped: there are no kernels for that."""
    if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks:
        return True
    return type(part) is MultiHeadAttention and bool(part._observers or (part.dropout and part.training))


@dataclass(frozen=True)
class _Side:
    """One side of a batch without its padding: which places hold tokens, which those are, how many of each sentence."""

    kept: Tensor
    places: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, mask: Tensor) -> _Side:
        return cls(mask, torch.arange(mask.shape[1]).expand(mask.shape)[mask], mask.sum(1))

    def repeat(self, times: int) -> _Side:
        """The same side so many times, one after the other."""
        return _Side(self.kept.repeat(times, 1), self.places.repeat(times), self.lengths.repeat(times))

    def spread(self, rows: Tensor) -> Tensor:
        """Rows back in their places, zeros elsewhere."""
        places = self.kept.flatten().nonzero()[:, 0]
        empty = rows.new_zeros(self.kept.numel(), rows.shape[1])
        return empty.index_copy(0, places, rows).unflatten(0, self.kept.shape)


# What a sub-layer says, and the bias that is yet to be added to it.
Said = tuple[Tensor, Tensor | None]
# Its residual connection, and itself.
SubLayer = tuple[Any, Callable[[Tensor], Said]]


@dataclass(frozen=True)
class _Run:
    """One forward pass."""

    kernels: Kernels

    def hidden(self, model: Model, batch: Batch | TextBatch, memories: list[Memory] | None) -> Tensor:
        """What `module_hidden` gives, with zeros at padding."""
        if isinstance(batch, Batch):
            assert isinstance(model, Transformer)
            x, source = self.enter(model, batch)
            memory = self.encode(model.encoder, x, source)
            if memories is not None:
                memories.append(Memory(source.spread(memory), source.kept))
            return self.read(model, batch.target, memory, source)
        assert not isinstance(model, Transformer)
        side = _Side.of(batch.mask)
        x = self.embed(model.embedding, batch.ids, side)
        if isinstance(model, CausalLM):
            return side.spread(self.decode(model.decoder, x, side))
        return side.spread(self.encode(model.encoder, x, side))

    def enter(self, model: Transformer, batch: Batch) -> tuple[Tensor, _Side]:
        """What enters the encoder; frames of sound are heard by the modules."""
        ids, mask = batch.source.ids, batch.source.mask
        if not isinstance(model.source_embedding, FrameEmbedding):
            source = _Side.of(mask)
            return self.embed(model.source_embedding, ids, source), source
        x, there = model.read(ids, mask)
        return x[there], _Side.of(there)

    def read(self, model: Transformer, target: TargetBatch, memory: Tensor, source: _Side) -> Tensor:
        """What decoders make of the targets, as in `read_targets`."""
        found = []
        for decoder, block in decoder_passes(model, target):
            side, times = _Side.of(block.input_mask), block.per_source
            seen = (memory.repeat(times, 1), source.repeat(times)) if times > 1 else (memory, source)
            x = self.embed(model.target_embedding, block.inputs, side)
            found.append(side.spread(self.decode(decoder, x, side, *seen)))
        return torch.cat(found) if len(found) > 1 else found[0]

    def embed(self, embedding: nn.Module, ids: Tensor, side: _Side) -> Tensor:
        assert isinstance(embedding, InputEmbedding)
        x = embedding.token_vectors(ids[side.kept][None])[0]
        if embedding.positions is not None:
            assert isinstance(embedding.positions, SinusoidalPositions)
            x = x + embedding.positions.table(ids.shape[1], x)[side.places]
        return embedding.dropout(x)

    def encode(self, encoder: Encoder, x: Tensor, side: _Side) -> Tensor:
        """What an encoder makes of rows without padding."""
        sublayers: list[SubLayer] = []
        for layer in _layers(encoder):
            own = self.layout(side, side, layer.self_attention)
            sublayers.append((layer.self_attention_residual, self.self_attention(layer.self_attention, own, side)))
            sublayers.append((layer.feed_forward_residual, self.feed_forward(layer.feed_forward)))
        return self.stack(sublayers, encoder.norm, x)

    def decode(
        self, decoder: Decoder, x: Tensor, side: _Side, memory: Tensor | None = None, source: _Side | None = None
    ) -> Tensor:
        """What a decoder makes of rows without padding; of pairs it looks at a memory, which is of the source."""
        sublayers: list[SubLayer] = []
        for layer in _layers(decoder):
            own = self.layout(side, side, layer.self_attention, causal=True)
            sublayers.append((layer.self_attention_residual, self.self_attention(layer.self_attention, own, side)))
            if layer.cross_attention is not None:
                assert memory is not None
                assert source is not None
                attend = self.cross_attention(layer.cross_attention, side, memory, source)
                sublayers.append((layer.cross_attention_residual, attend))
            sublayers.append((layer.feed_forward_residual, self.feed_forward(layer.feed_forward)))
        return self.stack(sublayers, decoder.norm, x)

    def stack(self, sublayers: Sequence[SubLayer], last: Any, x: Tensor) -> Tensor:
        """Rows through sub-layers and their residual connections; `last` is the norm after them."""
        norms = [residual.norm for residual, _ in sublayers]
        if not sublayers or isinstance(sublayers[0][0], PostNorm):
            for (residual, sublayer), norm in zip(sublayers, norms, strict=True):
                x, _ = self.connect(residual, sublayer(x), x, norm, keeps_sum=False)
            return x
        # What a sub-layer sees is normalised along with the sum before it.
        seen = norms[0](x)
        for (residual, sublayer), norm in zip(sublayers, [*norms[1:], last], strict=True):
            seen, x = self.connect(residual, sublayer(seen), x, norm, keeps_sum=norm is not last)
        return seen

    def connect(self, residual: Any, said: Said, x: Tensor, norm: Any, *, keeps_sum: bool) -> tuple[Tensor, Any]:
        z, bias = said
        drop = draw_drop(_rate(residual.dropout))
        return add_norm(self.kernels, z, bias, x, norm.weight, norm.bias, eps=norm.eps, drop=drop, keeps_sum=keeps_sum)

    def layout(self, queries: _Side, keys: _Side, part: MultiHeadAttention, *, causal: bool = False) -> Layout:
        slopes = part.positions.slopes if isinstance(part.positions, AlibiPositions) else ()
        lanes = self.kernels.lanes
        return Layout.of(queries.lengths, keys.lengths, part.num_heads, lanes, causal=causal, slopes=slopes)

    def self_attention(self, part: MultiHeadAttention, layout: Layout, side: _Side) -> Callable[[Tensor], Said]:
        def attend(x: Tensor) -> Said:
            rotations = _rotations(part, side, x)
            return self_attention(self.kernels, layout, x, *_weights(part), rotations), part.output.bias

        return attend

    def cross_attention(
        self, part: MultiHeadAttention, side: _Side, memory: Tensor, source: _Side
    ) -> Callable[[Tensor], Said]:
        """Attention of rows of one side to a memory of the other."""
        layout = self.layout(side, source, part)

        def attend(x: Tensor) -> Said:
            rotations = _rotations(part, side, x), _rotations(part, source, memory)
            return cross_attention(self.kernels, layout, x, memory, *_weights(part), *rotations), part.output.bias

        return attend

    def feed_forward(self, part: FeedForward) -> Callable[[Tensor], Said]:
        def transform(x: Tensor) -> Said:
            drop = draw_drop(_rate(part.dropout))
            weights = (part.inner.weight, part.inner.bias, part.outer.weight)
            return feed_forward(self.kernels, x, *weights, drop), part.outer.bias

        return transform


def _weights(part: MultiHeadAttention) -> tuple[Tensor, Tensor | None, Tensor]:
    return part.projection.weight, part.projection.bias, part.output.weight


def _rotations(part: MultiHeadAttention, side: _Side, x: Tensor) -> Tensor | None:
    """What rotary positions multiply each row by, where there are any."""
    if not isinstance(part.positions, RotaryPositions):
        return None
    return part.positions.rotations(0, side.kept.shape[1], x)[side.places]


def _layers(stack: Encoder | Decoder) -> list[Any]:
    return list(stack.layers)


def _rate(dropout: Dropout) -> float:
    return dropout.p if dropout.training else 0.0
