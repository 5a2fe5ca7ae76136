"""The engine without a compiler: the same arithmetic as the native one, in PyTorch alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.engines.module import ModuleEngine, added_positions
from dragoman.engines.serial import exact_log_probabilities
from dragoman.errors import ConfigError
from dragoman.models.blueprint import (
    Attention,
    Blueprint,
    Embedding,
    Layer,
    Matrix,
    Norm,
    NotPlain,
    Shape,
    Stack,
    halves,
)
from dragoman.models.quantised import LARGEST, quantise
from dragoman.models.reading import read_blueprint
from dragoman.nn import AttentionPositions, CausalLM, DecoderCache, StepCache, Transformer, scaled_dot_product_attention
from dragoman.nn.cache import FixedCache, GrowingCache, LayerCache
from dragoman.nn.positions import make_positions
from dragoman.sequences import SourceBatch

PRECISIONS = ("float32", "int8")
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}

Linear = Callable[[Tensor], Tensor]


class PackedEngine(ModuleEngine):
    """A `Transformer` or `CausalLM` as a next-token model (see `dragoman.search.NextTokenModel`).

    Weights are packed once: later changes of the model are not seen. In float32 they lie as oneDNN wants them, where
    PyTorch has it. In int8, weights have a scale per output and activations one per row; products are summed exactly
    and everything between the linear maps is float32.

    Args:
        model: the trained model, on the CPU, in float32.
        precision: of the linear maps, `float32` or `int8`.

    Raises:
        ConfigError: there is no such precision.
        NotPlain: the model has parts that only its own modules know how to run.
    """

    name = "packed"

    def __init__(self, model: Transformer | CausalLM, precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise ConfigError(
                "the engine in PyTorch has no such precision", expected=" or ".join(PRECISIONS), found=precision
            )
        super().__init__(model)
        self.precision = precision
        self.blueprint = blueprint = read_blueprint(model)
        if why_not := self.supports(blueprint):
            raise NotPlain(why_not)
        nothing = Stack((), None)
        encoder, self._stack = blueprint.encoder or nothing, blueprint.decoder or nothing
        self._encoder = [_Layer(layer, blueprint.shape, precision) for layer in encoder.layers]
        self._decoder = [_Layer(layer, blueprint.shape, precision) for layer in self._stack.layers]
        self._generator = pack(blueprint.generator, precision)

    def __reduce__(self) -> Any:
        return PackedEngine, (self.model, self.precision)  # what was packed is packed again

    @classmethod
    def supports(cls, blueprint: Blueprint[Any]) -> str | None:
        """See `ModuleEngine.supports`."""
        if blueprint.decoder is None:
            return "a model without a decoder does not decode"
        if any(layer.self_attention.distances is not None for layer in blueprint.layers()):
            return f"{blueprint.shape.self_positions} positions, which have weights, are left to their own modules"
        return None

    @classmethod
    def choose_precision(cls, wanted: str) -> tuple[str, str]:
        """See `ModuleEngine.choose_precision`."""
        if wanted != "auto":
            return wanted, f"{wanted} asked for"
        if torch.backends.cpu.get_cpu_capability().startswith("AVX512") and multiplies_bytes():
            return "int8", "int8, the fastest with AVX-512"
        return "float32", "float32, because this processor does not multiply bytes in its vector units"

    @torch.no_grad()
    def start(self, sources: SourceBatch) -> DecoderCache:
        """Encode the sources: the state before the first step."""
        blueprint = self.blueprint
        if blueprint.encoder is None or not blueprint.crosses:
            return DecoderCache([LayerCache(GrowingCache()) for _ in self._decoder], rows=len(sources))
        x, there = self._read(sources)
        mask = there[:, None, None, :]
        for layer in self._encoder:
            x = layer.own.residual(x, lambda y, attend=layer.own: attend.to_itself(y, mask))
            x = layer.feed_forward(x)
        memory = _end(x, blueprint.encoder)
        layers = [
            LayerCache(
                GrowingCache(), None if layer.cross is None else FixedCache(*layer.cross.keys_and_values(memory, 0))
            )
            for layer in self._decoder
        ]
        return DecoderCache(layers, mask, rows=len(sources))

    @torch.no_grad()
    def step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], StepCache]:
        """Return log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        log_probs, _, state = self.step_with_outputs(state, tokens)
        return log_probs, state

    @torch.no_grad()
    def step_with_outputs(
        self, state: StepCache, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch d_model"], StepCache]:
        """As `step`, with the decoder's outputs between log-probabilities and state."""
        outputs = state.step(tokens, self._newest)
        return self._generator(outputs).log_softmax(-1), outputs, state

    def _newest(self, state: DecoderCache, tokens: Tensor) -> Tensor:
        """What the decoder makes of the newest tokens, whose rows are all at one step."""
        x = self._embed(self.blueprint.target, tokens[:, None], "target", state.length)
        for layer, cache in zip(self._decoder, state.layers, strict=True):
            x = layer.own.residual(x, lambda y, attend=layer.own, own=cache.own: attend.to_past(y, own))
            if layer.cross is not None and cache.cross is not None:
                fixed, attend = cache.cross, layer.cross
                x = attend.residual(x, lambda y, a=attend, f=fixed: a.to_memory(y, f, state.memory_mask))
            x = layer.feed_forward(x)
        state.length += 1
        return _end(x, self._stack)[:, 0]

    def token_log_probabilities(
        self, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Return the log-probability of each token of the framed target after its first, teacher-forced."""
        return exact_log_probabilities(self, sources, target)

    def _read(self, sources: SourceBatch) -> tuple[Tensor, Tensor]:
        """What enters the encoder's first layer, and where there is something; frames are heard by the modules."""
        source = self.blueprint.source
        if source is not None:
            return self._embed(source, sources.ids, "source", 0), sources.mask
        assert isinstance(self.model, Transformer)
        return self.model.read(sources.ids, sources.mask)

    def _embed(self, embedding: Embedding[Tensor], ids: Tensor, side: str, start: int) -> Tensor:
        rows = F.embedding(ids, embedding.rows) * embedding.scale
        if embedding.positions is None:
            return rows
        return rows + added_positions(self.model, side, start, ids.shape[1])


def pack(matrix: Matrix[Tensor], precision: str) -> Linear:
    """Pack the weights of a linear map over the last dimension; return the map."""
    bias = matrix.bias
    if precision == "int8":
        weight, scale = quantise(matrix.weight)
        weight = F.pad(weight, (0, _short_of_four(weight))).t()
        return lambda x: _int8_product(x, weight, scale[:, 0], bias)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(matrix.weight.contiguous(), None)
        pointwise = torch.ops.mkldnn._linear_pointwise
        pointwise(matrix.weight.new_zeros(1, matrix.weight.shape[1]), packed, bias, "none", [], "")
    except (AttributeError, RuntimeError):
        return lambda x: F.linear(x, matrix.weight, bias)
    return lambda x: pointwise(x, packed, bias, "none", [], "")


def _short_of_four(rows: Tensor) -> int:
    # PyTorch's product of bytes is wrong for rows of one.
    return -rows.shape[-1] % 4


@functools.cache
def multiplies_bytes() -> bool:
    """Return whether PyTorch sums products of bytes exactly here.

    Without VNNI, oneDNN may add two of them in 16 bits and cut what does not fit.
    """
    if not hasattr(torch, "_int_mm"):
        return False
    largest = torch.full((16, 64), LARGEST, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest.t().contiguous()) == 64 * LARGEST**2).all())


def _int8_product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.flatten(0, -2)
    values, row_scale = quantise(rows)
    if short := _short_of_four(rows):
        values = F.pad(values, (0, short))
    # Both ways give the exact sums.
    sums = torch._int_mm(values, weight) if multiplies_bytes() else values.double() @ weight.double()
    product = sums.float() * (scale * row_scale)
    return (product if bias is None else product + bias).view(*x.shape[:-1], -1)


def _normed(x: Tensor, norm: Norm[Tensor]) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)


def _end(x: Tensor, stack: Stack[Tensor]) -> Tensor:
    return x if stack.end is None else _normed(x, stack.end)


class _Layer:
    """One layer, packed."""

    def __init__(self, layer: Layer[Tensor], shape: Shape, precision: str) -> None:
        around = _Residual(layer.self_attention_norm, shape.pre_norm)
        self.own = _Attention(layer.self_attention, around, shape.self_positions, shape, precision)
        self.cross: _Attention | None = None
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            around = _Residual(layer.cross_attention_norm, shape.pre_norm)
            self.cross = _Attention(layer.cross_attention, around, shape.cross_positions, shape, precision)
        self.inner, self.outer = pack(layer.inner, precision), pack(layer.outer, precision)
        self.activation = ACTIVATIONS[shape.activation]
        self.around = _Residual(layer.feed_forward_norm, shape.pre_norm)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.around(x, lambda y: self.outer(self.activation(self.inner(y))))


@dataclass
class _Residual:
    """A sub-layer's connection."""

    norm: Norm[Tensor]
    pre: bool

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + sublayer(_normed(x, self.norm)) if self.pre else _normed(x + sublayer(x), self.norm)


class _Attention:
    """Attention, packed."""

    def __init__(
        self, attention: Attention[Tensor], residual: _Residual, positions: str | None, shape: Shape, precision: str
    ) -> None:
        self.heads, self.keys, self.residual = shape.heads, shape.heads * shape.d_k, residual
        self.query, self.key_value, self.output = (
            pack(matrix, precision) for matrix in (*halves(attention.projection, self.keys), attention.output)
        )
        self.positions = make_positions(positions, heads=shape.heads, d_k=shape.d_k) or AttentionPositions()

    def keys_and_values(self, x: Tensor, start: int) -> tuple[Tensor, Tensor]:
        packed = self.key_value(x)
        return self.positions.place(self._split(packed[..., : self.keys]), start), self._split(packed[..., self.keys :])

    def to_itself(self, x: Tensor, mask: Bool[Tensor, "batch 1 1 src"]) -> Tensor:
        return self._weigh(self._queries(x, 0), *self.keys_and_values(x, 0), mask)

    def to_past(self, x: Tensor, cache: GrowingCache) -> Tensor:
        query, new = self._queries(x, cache.length), self.keys_and_values(x, cache.length)
        return self._weigh(query, *cache.append(*new), None)

    def to_memory(self, x: Tensor, cache: FixedCache, mask: Tensor | None) -> Tensor:
        query = self._queries(x, cache.length)
        cache.length += x.shape[1]
        return self._weigh(query, cache.key, cache.value, mask)

    def _queries(self, x: Tensor, start: int) -> Tensor:
        return self.positions.place(self._split(self.query(x)), start)

    def _weigh(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        bias = self.positions.bias(query, key.shape[-2])
        mixed = scaled_dot_product_attention(query, key, value, mask, bias=bias)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        # [batch, len, heads * d] -> [batch, heads, len, d]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
