"""A model packed by the compiled library, and whole searches with it: identifiers in, identifiers out, no PyTorch."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from ctypes import byref
from typing import Any

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
from dragoman.engines.native.memory import address_of, rows_of
from dragoman.engines.native.sentences import Output, Read, Wanted, take_found
from dragoman.errors import ConfigError, ModelError
from dragoman.models.blueprint import (
    GIVEN,
    A,
    Array,
    Blueprint,
    Convolution,
    Embedding,
    Hearing,
    Matrix,
    Norm,
    NotPlain,
    Shape,
    Stack,
    W,
    halves,
)

PRECISIONS = ("float32", "int8", "bfloat16")
ACTIVATIONS = ("none", "relu", "gelu", "silu")
# What is done about positions (`dragoman.models.blueprint.SCHEMES`), as the library numbers it.
LAYOUTS: dict[tuple[str | None, str | None, str | None], int] = {
    (GIVEN, None, None): 0,
    ("interleaved", None, None): 1,
    ("concatenated", None, None): 2,
    ("marian", None, None): 3,
    ("fairseq", None, None): 4,
    (None, "rotary", None): 5,
    (None, "rotary", "rotary"): 6,
    (None, "alibi", None): 7,
}


class NativeModel:
    """The packed weights of a model. Later changes of what they were packed from are not seen.

    Args:
        blueprint: of a model that decodes, with its weights, float32.
        precision: of the linear maps: `float32`, `int8` or `bfloat16`.
        kernels: the name of a set of kernels that this processor can run; the fastest if None.

    Raises:
        ConfigError: the library is not there, or the processor does not have what is asked for.
        NotPlain: the library does not run such a model, or a size of it is beyond what the library counts.
    """

    def __init__(self, blueprint: Blueprint[W], precision: str = "float32", kernels: str | None = None) -> None:
        library = load_library()
        if isinstance(library, str):
            raise ConfigError(f"there is no native engine: {library}")
        if why_not := self.supports(blueprint):
            raise NotPlain(why_not)
        self.library, self.precision = library, precision
        self.kernels = _choose_kernels(library, kernels, precision)
        self.vocab: int = blueprint.generator.weight.shape[0]
        self.mels, self.has_head = _mels(blueprint), blueprint.ctc is not None
        self.handle = _packed(blueprint, library, precision, self.kernels)
        # The library reads embeddings and tables of positions where they are.
        tables = [one.rows for one in blueprint.tables]
        self._kept: list[Any] = [*tables, *(one.table for one in blueprint.embeddings)]
        self._free = weakref.finalize(self, library.free_model, self.handle)

    def __reduce__(self) -> str:
        hint = "open the model with from_pretrained, whose path is pickled; or with engine='module'"
        raise ModelError("weights that were packed in memory are neither pickled nor copied", hint=hint)

    @staticmethod
    def supports(blueprint: Blueprint[A]) -> str | None:
        """Return None if the library runs such a model, else why not, in words."""
        if blueprint.decoder is None:
            return "a model without a decoder does not decode"
        if not any(blueprint.layers()):
            return "there are no layers"
        own, cross = blueprint.shape.self_positions, blueprint.shape.cross_positions
        for embedding in blueprint.embeddings:
            if (embedding.positions, own, cross) not in LAYOUTS:
                inside = ", ".join(map(str, dict.fromkeys(filter(None, (embedding.positions, own, cross)))))
                return f"the library does not know these positions: {inside or 'none'}"
        return None

    @property
    def bytes(self) -> int:
        """Memory of the packed weights; the embeddings are the model's own."""
        return self.library.model_bytes(self.handle)

    def search(
        self,
        rows: Sequence[Read],
        options: DecodingConfig | Sequence[DecodingConfig],
        max_lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        *,
        begin: int,
        end: int,
        never: Sequence[int],
        threads: int,
        shares: Sequence[float] = (),
    ) -> list[list[Output]]:
        """Search greedily or with a beam: the best outputs of each row, best first; none where all are impossible.

        Args:
            rows: framed ids of each source, or of a model that listens its frames; only their number counts without an
                encoder.
            options: of each row, or one for all of them.
            max_lengths: of each row's outputs.
            prefixes: what each row's outputs must begin with, or nothing at all.
            begin: the token before the first one.
            end: the token after the last one.
            never: tokens that are never emitted.
            threads: at most so many work on it.
            shares: of what the head reads off each row's frames, or nothing at all.

        Raises:
            FloatingPointError: the model gives NaN.
            IndexError: a token is not in the vocabulary.
            MemoryError: there is not enough.
            ModelError: a sequence is longer than the model's table of positions.
            ValueError: there are not as many options, lengths, prefixes or shares as rows, or frames are too wide.
        """
        specs, kept = Wanted(rows, options, max_lengths, prefixes, begin, end, never, shares, self.mels).specs()
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


def native_precision(wanted: str) -> tuple[str, str]:
    """Return the precision of the native engine: the one asked for, or the fastest; and why, in words."""
    library = load_library()
    if wanted != "auto" or isinstance(library, str):
        return wanted, f"{wanted} asked for"
    fastest = library.kernels[-1].name
    if fastest == "plain":
        return "float32", "float32, because this processor does not multiply bytes in its vector units"
    return "int8", f"int8, the fastest with {fastest}"


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


def _packed(blueprint: Blueprint[W], library: Library, precision: str, kernels: int) -> int:
    _check_sizes(blueprint, precision)
    kept: list[Array] = []  # contiguous copies live until everything is packed

    def pointer(array: Array | None, name: str) -> int | None:
        if array is None:
            return None
        kept.append(array.contiguous())
        return address_of(kept[-1], "float32", tuple(array.shape), name)

    def matrix(one: Matrix[W] | Convolution[W]) -> MatrixSpec:
        kept.append(one.weight.contiguous())
        return MatrixSpec(*rows_of(kept[-1], "a weight"), pointer(one.bias, "a bias"), kept[-1].shape[0], _inputs(one))

    matrices = [matrix(one) for one in _matrices(blueprint)]
    norms = [
        NormSpec() if one is None else NormSpec(pointer(one.weight, "a gain"), pointer(one.bias, "a bias"), one.eps, 1)
        for one in _norms(blueprint)
    ]
    shape, stacks = blueprint.shape, _stacks(blueprint)
    spec = ModelSpec(
        PRECISIONS.index(precision), kernels, shape.d_model, shape.d_ff, shape.heads, shape.d_k, shape.d_v,
        shape.pre_norm, ACTIVATIONS.index(shape.activation), blueprint.crosses,
        len(stacks[0].layers), len(stacks[1].layers), len(matrices), len(norms),
        _mels(blueprint), -1 if blueprint.ctc is None else shape.pad,
        _table(blueprint.source or blueprint.hearing, shape), _table(blueprint.target, shape),
        (MatrixSpec * len(matrices))(*matrices), (NormSpec * len(norms))(*norms),
    )  # fmt: skip
    handle = ctypes.c_void_p()
    library.check(library.model(byref(spec), byref(handle)))
    assert handle.value is not None
    return handle.value


def _check_sizes(blueprint: Blueprint[W], precision: str) -> None:
    """Sizes are counted in 32 bits there, and products of bytes are added up in as many."""
    shape, tables = blueprint.shape, [one.rows for one in blueprint.tables]
    inputs = max([shape.d_model, shape.d_ff, shape.heads * shape.d_v, *map(_inputs, _convolutions(blueprint))])
    if max(inputs, shape.heads * (shape.d_k + shape.d_v)) > WIDEST or max(rows.shape[0] for rows in tables) > MOST:
        raise NotPlain("the model is larger than the native engine counts")
    if precision == "int8" and inputs > WIDEST_BYTES:
        raise NotPlain(f"a sum of more than {WIDEST_BYTES:,} products is not exact in int8")
    for one in filter(None, (blueprint.generator, blueprint.ctc)):
        if one.weight.shape[0] != blueprint.target.rows.shape[0]:
            raise NotPlain("the generator has not one output for each row of the target embedding")


def _table(embedding: Embedding[W] | Hearing[W] | None, shape: Shape) -> TableSpec:
    if embedding is None:
        return TableSpec()
    layout, table = LAYOUTS[embedding.positions, shape.self_positions, shape.cross_positions], embedding.table
    rows = embedding.rows if isinstance(embedding, Embedding) else None
    places, count = ((None, None, None), 0) if rows is None else (rows_of(rows, "an embedding"), rows.shape[0])
    spec = TableSpec(*places, count, embedding.scale, layout)
    if table is not None:
        spec.positions = address_of(table, "float32", (table.shape[0], shape.d_model), "a table of positions")
        spec.longest = table.shape[0]
    return spec


def _stacks(blueprint: Blueprint[W]) -> tuple[Stack[W], Stack[W]]:
    return blueprint.encoder or Stack((), None), blueprint.decoder or Stack((), None)


def _matrices(blueprint: Blueprint[W]) -> Iterator[Matrix[W] | Convolution[W]]:
    queries = blueprint.shape.heads * blueprint.shape.d_k
    yield from _convolutions(blueprint)
    for layer in blueprint.layers():
        for attention in filter(None, (layer.self_attention, layer.cross_attention)):
            yield from (*halves(attention.projection, queries), attention.output)
        yield from (layer.inner, layer.outer)
    yield blueprint.generator
    if blueprint.ctc is not None:
        yield blueprint.ctc


def _inputs(matrix: Matrix[W] | Convolution[W]) -> int:
    return math.prod(matrix.weight.shape[1:])


def _convolutions(blueprint: Blueprint[W]) -> tuple[Convolution[W], ...]:
    return () if blueprint.hearing is None else blueprint.hearing.convolutions


def _mels(blueprint: Blueprint[W]) -> int:
    """Numbers of a frame, 0 where ids are read."""
    return 0 if blueprint.hearing is None else blueprint.hearing.convolutions[0].weight.shape[1]


def _norms(blueprint: Blueprint[W]) -> Iterator[Norm[W] | None]:
    for stack in _stacks(blueprint):
        for layer in stack.layers:
            yield from filter(None, (layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm))
        yield stack.end
