"""A model packed by the compiled library, and whole searches with it: identifiers in, identifiers out, no PyTorch."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from ctypes import byref

from dragoman.config import DecodingConfig
from dragoman.engines.native.library import (
    MOST,
    WIDEST,
    WIDEST_BYTES,
    Library,
    MatrixSpec,
    ModelSpec,
    NormSpec,
    TableSpec,
    load_library,
)
from dragoman.engines.native.memory import address_of
from dragoman.engines.native.sentences import Output, Wanted, take_found
from dragoman.engines.recipe import TURNING, A, Array, Attention, Embedding, Matrix, Norm, NotPlain, Recipe, Stack
from dragoman.errors import ConfigError

PRECISIONS = ("float32", "int8", "bfloat16")
ACTIVATIONS = ("none", "relu", "gelu", "silu")
LAYOUTS = (None, "interleaved", "concatenated", *TURNING)


class NativeModel:
    """The packed weights of a model. Later changes of what they were packed from are not seen.

    Args:
        recipe: the weights, float32.
        precision: of the linear maps: `float32`, `int8` or `bfloat16`.
        kernels: the name of a set of kernels that this processor can run; the fastest if None.

    Raises:
        ConfigError: the library is not there, or the processor does not have what is asked for.
        NotPlain: a size of the model is beyond what the library counts.

    Attributes:
        knows_positions: whether the library makes all positions itself, so that it can search by itself.
    """

    def __init__(self, recipe: Recipe[A], precision: str = "float32", kernels: str | None = None) -> None:
        library = load_library()
        if isinstance(library, str):
            raise ConfigError(f"there is no native engine: {library}")
        self.library, self.precision = library, precision
        self.kernels = _choose_kernels(library, kernels, precision)
        self.vocab: int = recipe.generator.weight.shape[0]
        self.handle = _packed(recipe, library, precision, self.kernels)
        # The library reads the embeddings where they are.
        self._kept: tuple[Array, Array | None] = (
            recipe.target.rows,
            None if recipe.source is None else recipe.source.rows,
        )
        self.knows_source_positions = recipe.source is None or recipe.source.layout is not None
        self.knows_target_positions = recipe.target.layout is not None
        self.knows_positions = self.knows_source_positions and self.knows_target_positions
        self._free = weakref.finalize(self, library.free_model, self.handle)

    @property
    def bytes(self) -> int:
        """Memory of the packed weights; the embeddings are the model's own."""
        return self.library.model_bytes(self.handle)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        options: DecodingConfig | Sequence[DecodingConfig],
        max_lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        *,
        begin: int,
        end: int,
        never: Sequence[int],
        threads: int,
    ) -> list[list[Output]]:
        """Greedy or beam search: the best outputs of each row, best first; none where every one is impossible.

        Args:
            rows: framed ids of each source; only their number counts without an encoder.
            options: of each row, or one for all of them.
            max_lengths: of each row's outputs.
            prefixes: what each row's outputs must begin with, or nothing at all.
            begin: the token before the first one.
            end: the token after the last one.
            never: tokens that are never emitted.
            threads: at most so many work on it.

        Raises:
            FloatingPointError: the model gives NaN.
            IndexError: a token is not in the vocabulary.
            MemoryError: there is not enough.
            ValueError: there are not as many options, lengths or prefixes as rows.
        """
        specs, kept = Wanted(rows, options, max_lengths, prefixes, begin, end, never).specs()
        found = take_found(self.library, self.library.search, self.handle, specs, len(specs), min(threads, MOST))
        del kept
        for one in found:
            if one.error is not None:
                raise one.error
        return [one.outputs for one in found]


def default_threads() -> int:
    """As many as PyTorch was told, if it is there; else as `OMP_NUM_THREADS` says; else one for each processor."""
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "get_num_threads"):
        return sys.modules["torch"].get_num_threads()
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def _packed(recipe: Recipe[A], library: Library, precision: str, kernels: int) -> int:
    _check_sizes(recipe, precision)
    kept: list[Array] = []  # contiguous copies live until everything is packed

    def pointer(array: Array | None, name: str) -> int | None:
        if array is None:
            return None
        kept.append(array.contiguous())
        return address_of(kept[-1], "float32", tuple(array.shape), name)

    matrices = [
        MatrixSpec(pointer(one.weight, "a weight"), pointer(one.bias, "a bias"), *one.weight.shape)
        for one in _matrices(recipe)
    ]
    norms = [
        NormSpec() if one is None else NormSpec(pointer(one.weight, "a gain"), pointer(one.bias, "a bias"), one.eps, 1)
        for one in _norms(recipe)
    ]
    shape = recipe.shape
    spec = ModelSpec(
        PRECISIONS.index(precision), kernels, shape.d_model, shape.d_ff, shape.heads, shape.d_k, shape.d_v,
        shape.pre_norm, ACTIVATIONS.index(shape.activation), recipe.crosses,
        len(recipe.encoder.layers) if recipe.encoder else 0, len(recipe.decoder.layers), len(matrices), len(norms),
        _table(recipe.source), _table(recipe.target),
        (MatrixSpec * len(matrices))(*matrices), (NormSpec * len(norms))(*norms),
    )  # fmt: skip
    handle = ctypes.c_void_p()
    library.check(library.model(byref(spec), byref(handle)))
    assert handle.value is not None
    return handle.value


def _check_sizes(recipe: Recipe[A], precision: str) -> None:
    """Sizes are counted in 32 bits there, and products of bytes are added up in as many."""
    shape, tables = recipe.shape, [one.rows for one in (recipe.source, recipe.target) if one is not None]
    inputs = max(shape.d_model, shape.d_ff, shape.heads * shape.d_v)
    if max(inputs, shape.heads * (shape.d_k + shape.d_v)) > WIDEST or max(rows.shape[0] for rows in tables) > MOST:
        raise NotPlain("the model is larger than the native engine counts")
    if precision == "int8" and inputs > WIDEST_BYTES:
        raise NotPlain(f"a sum of more than {WIDEST_BYTES:,} products is not exact in int8")
    if recipe.generator.weight.shape[0] != recipe.target.rows.shape[0]:
        raise NotPlain("the generator has not one output for each row of the target embedding")


def _table(embedding: Embedding[A] | None) -> TableSpec:
    if embedding is None:
        return TableSpec()
    rows = embedding.rows
    address = address_of(rows, "float32", tuple(rows.shape), "an embedding")
    return TableSpec(address, rows.shape[0], embedding.scale, LAYOUTS.index(embedding.layout))


def _stacks(recipe: Recipe[A]) -> Iterator[Stack[A]]:
    yield recipe.encoder or Stack((), None)
    yield recipe.decoder


def _attentions(attention: Attention[A], cross: Attention[A] | None) -> list[Attention[A]]:
    return [attention] if cross is None else [attention, cross]


def _matrices(recipe: Recipe[A]) -> Iterator[Matrix[A]]:
    for layer in recipe.layers():
        for attention in _attentions(layer.attention, layer.cross):
            yield from (attention.query, attention.key_value, attention.output)
        yield from (layer.inner, layer.outer)
    yield recipe.generator


def _norms(recipe: Recipe[A]) -> Iterator[Norm[A] | None]:
    for stack in _stacks(recipe):
        for layer in stack.layers:
            yield from (attention.norm for attention in _attentions(layer.attention, layer.cross))
            yield layer.norm
        yield stack.end
