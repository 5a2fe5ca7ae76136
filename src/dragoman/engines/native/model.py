"""A model packed by the compiled library, and whole searches with it: identifiers in, identifiers out, no PyTorch."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from ctypes import byref, c_int32, c_int64

from dragoman.config import DecodingConfig
from dragoman.engines.native.library import (
    NO_MEMORY,
    NO_SUCH_TOKEN,
    NOT_A_NUMBER,
    FoundSpec,
    Library,
    MatrixSpec,
    ModelSpec,
    NormSpec,
    SearchSpec,
    TableSpec,
    load_library,
)
from dragoman.engines.recipe import TURNING, A, Array, Attention, Embedding, Matrix, Norm, Recipe, Stack
from dragoman.errors import ConfigError

PRECISIONS = ("float32", "int8", "bfloat16")
ACTIVATIONS = ("none", "relu", "gelu", "silu")
FORMULAS = ("gnmt", "power", "reward")
LAYOUTS = (None, "interleaved", "concatenated", *TURNING)

# The ids of an output and of what ends it, and the log-probability of each.
Output = tuple[list[int], list[float]]


class NativeModel:
    """The packed weights of a model. Later changes of what they were packed from are not seen.

    Args:
        recipe: the weights, float32.
        precision: of the linear maps: `float32`, `int8` or `bfloat16`.
        kernels: the name of a set of kernels that this processor can run; the fastest if None.

    Raises:
        ConfigError: the library is not there, or the processor does not have what is asked for.
    """

    def __init__(self, recipe: Recipe[A], precision: str = "float32", kernels: str | None = None) -> None:
        library = load_library()
        if isinstance(library, str):
            raise ConfigError(f"there is no native engine: {library}")
        self.library, self.precision, self.pad = library, precision, recipe.shape.pad
        self.kernels = _choose_kernels(library, kernels, precision)
        self.vocab: int = recipe.generator.weight.shape[0]
        self.handle = _packed(recipe, library, precision, self.kernels)
        # The library reads the embeddings where they are.
        self._kept: tuple[Array, Array | None] = (
            recipe.target.rows,
            None if recipe.source is None else recipe.source.rows,
        )
        layouts = {recipe.target.layout, recipe.target.layout if recipe.source is None else recipe.source.layout}
        self.knows_positions = None not in layouts
        self._free = weakref.finalize(self, library.free_model, self.handle)

    @property
    def bytes(self) -> int:
        """Memory of the packed weights; the embeddings are the model's own."""
        return self.library.model_bytes(self.handle)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        options: DecodingConfig,
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
            options: what holds for all rows.
            max_lengths: of each row's outputs.
            prefixes: what each row's outputs must begin with, or nothing at all.
            begin: the token before the first one.
            end: the token after the last one.
            never: tokens that are never emitted.
            threads: at most so many work on it.

        Raises:
            FloatingPointError: the model gives NaN.
        """
        width = max(map(len, rows), default=0)
        ids = (c_int64 * (len(rows) * width))(*(id for row in rows for id in (*row, *[self.pad] * (width - len(row)))))
        starts = [0]
        for prefix in prefixes:
            starts.append(starts[-1] + len(prefix))
        spec = SearchSpec(
            options.beam_size, options.n_best, options.min_length, options.no_repeat_ngram,
            FORMULAS.index(options.length_penalty_formula), options.length_penalty, begin, end,
            (c_int64 * len(never))(*never), len(never), (c_int32 * len(rows))(*max_lengths),
            (c_int64 * starts[-1])(*(id for prefix in prefixes for id in prefix)),
            (c_int32 * len(starts))(*starts) if prefixes else None,
        )  # fmt: skip
        found = ctypes.POINTER(FoundSpec)()
        code = self.library.search(self.handle, ids, len(rows), width, byref(spec), threads, byref(found))
        try:
            check(code)
            return _outputs(found.contents, len(rows))
        finally:
            self.library.free_found(found)


def default_threads() -> int:
    """As many as PyTorch was told, if it is there; else as `OMP_NUM_THREADS` says; else one for each processor."""
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "get_num_threads"):
        return sys.modules["torch"].get_num_threads()
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check(code: int) -> None:
    """Say in Python what the library says with a code.

    Raises:
        MemoryError: there is not enough.
        IndexError: a token is not in the vocabulary.
        FloatingPointError: the model gives NaN.
    """
    if code == NO_MEMORY:
        raise MemoryError("the native engine found no memory")
    if code == NO_SUCH_TOKEN:
        raise IndexError("a token is not in the vocabulary of the model")
    if code == NOT_A_NUMBER:
        raise FloatingPointError("the model gives NaN")


def _outputs(found: FoundSpec, rows: int) -> list[list[Output]]:
    counts = found.counts[:rows]
    lengths = found.lengths[: sum(counts)] if any(counts) else []
    total = sum(lengths)
    tokens, values = (found.tokens[:total], found.values[:total]) if total else ([], [])
    outputs, place = [], 0
    for length in lengths:
        outputs.append((tokens[place : place + length], values[place : place + length]))
        place += length
    each = iter(outputs)
    return [[next(each) for _ in range(count)] for count in counts]


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
    kept: list[Array] = []  # contiguous copies live until everything is packed

    def pointer(array: Array | None) -> int | None:
        if array is None:
            return None
        kept.append(array.contiguous())
        return kept[-1].data_ptr()

    matrices = [MatrixSpec(pointer(m.weight), pointer(m.bias), *m.weight.shape) for m in _matrices(recipe)]
    norms = [
        NormSpec() if norm is None else NormSpec(pointer(norm.weight), pointer(norm.bias), norm.eps, 1)
        for norm in _norms(recipe)
    ]
    shape = recipe.shape
    spec = ModelSpec(
        PRECISIONS.index(precision), kernels, shape.d_model, shape.d_ff, shape.heads, shape.d_k, shape.d_v,
        shape.pre_norm, ACTIVATIONS.index(shape.activation), recipe.crosses,
        len(recipe.encoder.layers) if recipe.encoder else 0, len(recipe.decoder.layers), shape.pad,
        _table(recipe.source), _table(recipe.target),
        (MatrixSpec * len(matrices))(*matrices), (NormSpec * len(norms))(*norms),
    )  # fmt: skip
    handle = library.model(byref(spec))
    if not handle:
        raise MemoryError("the native engine found no memory for the model")
    return handle


def _table(embedding: Embedding[A] | None) -> TableSpec:
    if embedding is None:
        return TableSpec()
    rows = embedding.rows
    assert rows.contiguous().data_ptr() == rows.data_ptr()
    return TableSpec(rows.data_ptr(), rows.shape[0], embedding.scale, LAYOUTS.index(embedding.layout))


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
