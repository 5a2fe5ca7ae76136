"""The native engine: each step of a search is one call of the compiled library."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.module import ModuleEngine
from dragoman.engines.native.library import (
    NO_MEMORY,
    NO_SUCH_TOKEN,
    Library,
    MatrixSpec,
    ModelSpec,
    NormSpec,
    TableSpec,
    load_library,
)
from dragoman.engines.recipe import Attention, Embedding, Matrix, Norm, Recipe, Stack, read_recipe
from dragoman.engines.serial import serial_log_probabilities
from dragoman.errors import ConfigError
from dragoman.nn import CausalLM, Transformer

PRECISIONS = ("float32", "int8", "bfloat16")
ACTIVATIONS = ("none", "relu", "gelu", "silu")


class NativeState:
    """Rows of a search, held by the library: keys and values stay where they are when rows are reordered."""

    def __init__(self, engine: NativeEngine, handle: int, rows: int) -> None:
        self.engine, self.handle, self.rows, self.length = engine, handle, rows, 0
        self._free = engine.library.free_state

    def __del__(self) -> None:
        self._free(self.handle)

    def reorder(self, indices: Int[Tensor, " rows"]) -> NativeState:
        """Keep the rows at `indices`, in that order."""
        indices = indices.contiguous()
        _check(self.engine.library.reorder(self.handle, indices.data_ptr(), len(indices)))
        self.rows = len(indices)
        return self


class NativeEngine(ModuleEngine):
    """A `Transformer` or `CausalLM` as a next-token model (see `dragoman.decoding.NextTokenModel`), run natively.

    Weights are packed once: later changes of the model are not seen. Results of a row depend neither on the rows
    beside it nor on the number of threads, bit by bit. In int8, weights have a scale per output and activations one
    per row; products are summed exactly and everything between the linear maps is float32.

    Args:
        model: the trained model, on the CPU, in float32.
        precision: of the linear maps: `float32`, `int8` or `bfloat16`.
        kernels: the name of a set of kernels that this processor can run; the fastest if None.

    Raises:
        ConfigError: the library is not there, or the processor does not have what is asked for.
        NotPlain: the model has parts that only its own modules know how to run.
    """

    name = "native"

    def __init__(self, model: Transformer | CausalLM, precision: str = "float32", kernels: str | None = None) -> None:
        library = load_library()
        if isinstance(library, str):
            raise ConfigError(f"there is no native engine: {library}")
        super().__init__(model)
        self.library, self.precision = library, precision
        self.kernels = _choose_kernels(library, kernels, precision)
        self.recipe = read_recipe(model)
        self._vocab = self.recipe.generator.weight.shape[0]
        self._handle = _packed(self.recipe, library, precision, self.kernels)
        self._free = weakref.finalize(self, library.free_model, self._handle)

    @property
    def bytes(self) -> int:
        """Memory of the packed weights; the embeddings are the model's own."""
        return self.library.model_bytes(self._handle)

    def start(self, source: Int[Tensor, "batch src"]) -> NativeState:
        """Encode the framed source: the state before the first step."""
        source = source.contiguous()
        batch, width = source.shape
        embedding = self.recipe.source
        positions = None if embedding is None or not width else embedding.first_positions(width).contiguous()
        handle = ctypes.c_void_p()
        code = self.library.start(
            self._handle, source.data_ptr(), batch, width, None if positions is None else positions.data_ptr(),
            torch.get_num_threads(), ctypes.byref(handle),
        )  # fmt: skip
        _check(code)
        assert handle.value is not None
        return NativeState(self, handle.value, batch)

    def step(
        self, state: NativeState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], NativeState]:
        """Log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        tokens, position = self._input(state, tokens)
        log_probs = torch.empty(state.rows, self._vocab)
        code = self.library.step(
            state.handle, tokens.data_ptr(), position.data_ptr(), log_probs.data_ptr(), torch.get_num_threads()
        )
        _check(code)
        state.length += 1
        return log_probs, state

    def step_top(
        self, state: NativeState, tokens: Int[Tensor, " batch"], count: int, banned: Int[Tensor, " banned"]
    ) -> tuple[Float[Tensor, "batch {count}"], Int[Tensor, "batch {count}"], NativeState]:
        """The `count` likeliest next tokens of each row that are not banned, likeliest first: values and tokens."""
        tokens, position = self._input(state, tokens)
        values = torch.empty(state.rows, count)
        best = torch.empty(state.rows, count, dtype=torch.long)
        code = self.library.step_top(
            state.handle, tokens.data_ptr(), position.data_ptr(), banned.data_ptr(), len(banned), count,
            values.data_ptr(), best.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        _check(code)
        state.length += 1
        return values, best, state

    def token_log_probabilities(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Teacher forcing: log-probability of each token of the framed target after its first."""
        if self.precision == "float32":
            return super().token_log_probabilities(source, target)
        return serial_log_probabilities(self, source, target)

    def _input(self, state: NativeState, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if len(tokens) != state.rows:
            raise ValueError(f"a state of {state.rows} rows needs as many tokens, got {len(tokens)}")
        return tokens.contiguous(), self.recipe.target.position(state.length)


def _check(code: int) -> None:
    if code == NO_MEMORY:
        raise MemoryError("the native engine found no memory")
    if code == NO_SUCH_TOKEN:
        raise IndexError("a token is not in the vocabulary of the model")


def _choose_kernels(library: Library, wanted: str | None, precision: str) -> int:
    names = [kernel.name for kernel in library.kernels]
    if wanted is not None and wanted not in names:
        raise ConfigError("this processor cannot run these kernels", expected=" or ".join(names), found=wanted)
    index = len(names) - 1 if wanted is None else names.index(wanted)
    if precision not in PRECISIONS:
        raise ConfigError("there is no such precision", expected=" or ".join(PRECISIONS), found=precision)
    if precision == "bfloat16" and not library.kernels[index].bfloat16:
        raise ConfigError("the native engine needs a processor that multiplies bfloat16", expected="float32 or int8")
    return index


def _packed(recipe: Recipe, library: Library, precision: str, kernels: int) -> int:
    kept: list[Tensor] = []  # contiguous copies live until everything is packed

    def pointer(tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        kept.append(tensor.contiguous())
        return kept[-1].data_ptr()

    matrices = [MatrixSpec(pointer(m.weight), pointer(m.bias), *m.weight.shape) for m in _matrices(recipe)]
    norms = [
        NormSpec() if norm is None else NormSpec(pointer(norm.weight), pointer(norm.bias), norm.eps, 1)
        for norm in _norms(recipe)
    ]
    spec = ModelSpec(
        PRECISIONS.index(precision), kernels, recipe.d_model, recipe.d_ff, recipe.heads, recipe.d_k, recipe.d_v,
        recipe.pre_norm, ACTIVATIONS.index(recipe.activation), recipe.crosses,
        len(recipe.encoder.layers) if recipe.encoder else 0, len(recipe.decoder.layers), recipe.pad,
        _table(recipe.source), _table(recipe.target),
        (MatrixSpec * len(matrices))(*matrices), (NormSpec * len(norms))(*norms),
    )  # fmt: skip
    handle = library.model(ctypes.byref(spec))
    if not handle:
        raise MemoryError("the native engine found no memory for the model")
    return handle


def _table(embedding: Embedding | None) -> TableSpec:
    if embedding is None:
        return TableSpec()
    assert embedding.rows.is_contiguous()
    return TableSpec(embedding.rows.data_ptr(), len(embedding.rows), embedding.scale)


def _stacks(recipe: Recipe) -> Iterator[Stack]:
    yield recipe.encoder or Stack((), None)
    yield recipe.decoder


def _attentions(attention: Attention, cross: Attention | None) -> list[Attention]:
    return [attention] if cross is None else [attention, cross]


def _matrices(recipe: Recipe) -> Iterator[Matrix]:
    for layer in recipe.layers():
        for attention in _attentions(layer.attention, layer.cross):
            yield from (attention.query, attention.key_value, attention.output)
        yield from (layer.inner, layer.outer)
    yield recipe.generator


def _norms(recipe: Recipe) -> Iterator[Norm | None]:
    for stack in _stacks(recipe):
        for layer in stack.layers:
            yield from (attention.norm for attention in _attentions(layer.attention, layer.cross))
            yield layer.norm
        yield stack.end
