"""Training's kernels of the compiled library as functions of tensors: float32, on the CPU, rows without gaps."""

from __future__ import annotations

import copy
import ctypes
import functools
import os
from collections.abc import Sequence
from ctypes import byref, c_double, c_float, c_int32, c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.native import build
from dragoman.engines.native.library import Library, bind, open_library
from dragoman.engines.native.memory import address_of

# Rows of vectors, of heads and of weights are read in whole vectors of the widest kernels.
ALIGNED = 16
Three = tuple[Tensor, Tensor, Tensor]
SETS = ("plain", "avx2", "avx512")
_LEVELS = 1 << 32


class Drop(ctypes.Structure):
    """`Drop` of training.h: what dropout zeroes, drawn again from the same numbers in the backward pass."""

    _fields_ = (("limit", c_uint32), ("seed_0", c_uint32), ("seed_1", c_uint32), ("scale", c_float))


class AttentionSpec(ctypes.Structure):
    """`Attention` of training.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("query", "key", "value", "query_starts", "key_starts", "weight_starts")),
        *((name, c_int32) for name in ("sentences", "heads", "width", "causal", "lanes", "query_stride", "key_stride")),
        *((name, c_void_p) for name in ("weights", "output", "slopes")),
    )


class GradientsSpec(ctypes.Structure):
    """`AttentionGradients` of training.h."""

    _fields_ = tuple((name, c_void_p) for name in ("output", "query", "key", "value"))


STRUCTURES = {"Drop": Drop, "Attention": AttentionSpec, "AttentionGradients": GradientsSpec}
_P, _I = c_void_p, c_int32
# A tensor that a kernel takes: its kind, with a question mark where it may be left out, and its shape, in which a name
# stands for the argument of that name.
Takes = tuple[str | int, ...]
_MATRIX, _MAYBE, _ROW = ("float32", "rows", "d"), ("float32?", "rows", "d"), ("float32", "d")
_LOGITS, _LABELS = ("float32", "rows", "vocab"), ("int64", "rows", 1)
# What each function of training_api.h takes between the kernels and the number of threads; a name is a size.
FUNCTIONS: dict[str, tuple[Takes | str | type, ...]] = {
    "add_norm": (
        _MAYBE, _ROW, _MATRIX, _ROW, _ROW, c_float, _P, "rows", "d", _MATRIX, _MATRIX, ("float32", "rows", 2),
    ),
    "add_norm_back": (
        _MATRIX, _MAYBE, _MATRIX, ("float32", "rows", 2), _ROW, _P, "rows", "d", _MATRIX, _MAYBE, ("float32", 3, "d"),
    ),
    "relu": (_MATRIX, _ROW, _P, "rows", "d"),
    "relu_back": (_MATRIX, _MATRIX, c_float, "rows", "d", _ROW),
    "column_sums": (_MATRIX, "rows", "d", _ROW),
    "attend": (_P,),
    "attend_back": (_P, _P),
    "cross_entropy": (_LOGITS, _LABELS, "rows", "vocab", c_float, _P),
    "agreement": (_LOGITS, _LOGITS, _LABELS, "rows", "vocab", c_float, c_float, _P),
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Which rows attend to which: sentences in rows without padding.

    Attributes:
        query_starts: row at which each sentence's queries begin, and the number of all at the end.
        key_starts: the same of keys.
        weight_starts: where each sentence's weights begin, and the number of all at the end.
        heads: number of heads.
        causal: a query sees no later key.
        lanes: of how many a row of weights has a multiple.
        slopes: by which scores fall with the distance, of each head; None where they do not.
    """

    query_starts: np.ndarray
    key_starts: np.ndarray
    weight_starts: np.ndarray
    heads: int
    causal: bool
    lanes: int
    slopes: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        queries: Int[Tensor, " batch"],
        keys: Int[Tensor, " batch"],
        heads: int,
        lanes: int,
        *,
        causal: bool = False,
        slopes: Sequence[float] = (),
    ) -> Layout:
        """Make the layout of sentences with so many queries and keys each."""
        across = (keys + lanes - 1) // lanes * lanes
        query_starts, key_starts, weight_starts = (
            np.concatenate([[0], many.cumsum(0).numpy()]) for many in (queries, keys, heads * queries * across)
        )
        fall = np.array(slopes, np.float32) if slopes else None
        return cls(
            query_starts.astype(np.int32), key_starts.astype(np.int32), weight_starts, heads, causal, lanes, fall
        )

    def spec(
        self,
        query: Float[Tensor, "queries width"],
        key: Float[Tensor, "keys width"],
        value: Float[Tensor, "keys width"],
        weights: Float[Tensor, " weights"],
        output: Float[Tensor, "queries width"],
    ) -> AttentionSpec:
        """Return what the kernels take; it lives no longer than what it is made of.

        Raises:
            ValueError: a tensor is not of the size that the sentences have, or has gaps.
        """
        many, width = (int(self.query_starts[-1]), int(self.key_starts[-1])), query.shape[1]
        if value.stride(0) != key.stride(0):
            raise ValueError("keys and values must be columns of one matrix")
        return AttentionSpec(
            address_of(query, "float32", (many[0], width), "queries", columns=True),
            address_of(key, "float32", (many[1], width), "keys", columns=True),
            address_of(value, "float32", (many[1], width), "values", columns=True),
            self.query_starts.ctypes.data, self.key_starts.ctypes.data, self.weight_starts.ctypes.data,
            len(self.query_starts) - 1, self.heads, width // self.heads, self.causal,
            self.lanes, query.stride(0), key.stride(0),
            address_of(weights, "float32", (int(self.weight_starts[-1]),), "weights"),
            address_of(output, "float32", (many[0], width), "the output"),
            None if self.slopes is None else self.slopes.ctypes.data,
        )  # fmt: skip


class Kernels:
    """The functions of training_api.h."""

    def __init__(self, path: Path, kind: str | None = None) -> None:
        library = Library(path)
        loaded = open_library(path, STRUCTURES)
        self.check, self.functions = library.check, {}
        for name, arguments in FUNCTIONS.items():
            types = [_P if isinstance(one, tuple) else _I if isinstance(one, str) else one for one in arguments]
            self.functions[name] = bind(loaded, name, _I, (_P, *types, _I))
        self._tensors = {name: _tensors(name) for name in FUNCTIONS}
        choose = bind(loaded, "training", _P, (_P, _I))
        found = {name: choose(_parallel(), index) for index, name in enumerate(SETS) if kind in (None, name)}
        usable = [name for name, handle in found.items() if handle]
        if not usable:
            raise ValueError(f"this processor does not run {kind} kernels")
        self.kind = usable[-1]
        self.handle = found[self.kind]
        self.lanes = 16 if self.kind == "avx512" else 8
        self.factors = torch.float32

    def rounding(self, factors: torch.dtype) -> Kernels:
        """Return the same kernels with products of `factors`, float32 or bfloat16."""
        other = copy.copy(self)
        other.factors = factors
        return other

    def round(self, *tensors: Float[Tensor, "..."]) -> list[Float[Tensor, "..."]]:
        """Return tensors rounded to the type that factors of a product have."""
        return [one.to(self.factors) for one in tensors]

    def call(self, name: str, *arguments: object) -> None:
        """Run a kernel on as many threads as PyTorch uses; tensors stand for their memory.

        Raises:
            TypeError: a tensor is of another type than the kernel takes.
            ValueError: a tensor is of another size, or has gaps; or the kernel says what is wrong.
            IndexError: a label is not in the vocabulary.
            MemoryError: there is not enough.
        """
        takes, tensors = FUNCTIONS[name], self._tensors[name]
        sizes: dict[str | int, Any] = {1: 1, 2: 2, 3: 3}
        for one, value in zip(takes, arguments, strict=True):
            if type(one) is str:
                sizes[one] = value
        given = list(arguments)
        for place, kind, shape, optional, told in tensors:
            tensor = arguments[place]
            if tensor is not None or not optional:
                given[place] = address_of(tensor, kind, tuple([sizes[size] for size in shape]), told)
        self.check(self.functions[name](self.handle, *given, torch.get_num_threads()))

    def cross_entropy(
        self, logits: Float[Tensor, "rows vocab"], wanted: Int[Tensor, "rows 1"], smoothing: float
    ) -> tuple[tuple[float, float, int], Float[Tensor, "rows vocab"]]:
        """Return loss, likelihood and hits of some rows, and the loss's derivative by the logits, in their place."""
        totals = (c_double * 3)()
        self.call("cross_entropy", logits, wanted.contiguous(), *logits.shape, smoothing, totals)
        return (totals[0], totals[1], int(totals[2])), logits

    def agreement(
        self,
        both: tuple[Float[Tensor, "rows vocab"], Float[Tensor, "rows vocab"]],
        wanted: Int[Tensor, "rows 1"],
        smoothing: float,
        weight: float,
    ) -> tuple[tuple[float, float, int], tuple[Float[Tensor, "rows vocab"], Float[Tensor, "rows vocab"]]]:
        """Return the same of R-Drop's loss, from the logits of both passes; hits are those of the first."""
        totals = (c_double * 3)()
        self.call("agreement", *both, wanted.contiguous(), *both[0].shape, smoothing, weight, totals)
        return (totals[0], totals[1], int(totals[2])), both


def _tensors(name: str) -> list[tuple[int, str, tuple[str | int, ...], bool, str]]:
    """Of each tensor that a kernel takes: its place, kind and shape, whether it may be left out, and its name."""
    found = []
    for place, takes in enumerate(FUNCTIONS[name]):
        if isinstance(takes, tuple):
            kind, *shape = takes
            assert isinstance(kind, str)
            found.append((place, kind.removesuffix("?"), tuple(shape), kind.endswith("?"), f"a tensor of {name}"))
    return found


def _parallel() -> int | None:
    """`GOMP_parallel` of the OpenMP library that PyTorch brings, if it is that one."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, c_void_p).value
    except (AttributeError, OSError):
        return None


@functools.cache
def load_kernels() -> Kernels | None:
    """Load the kernels for this processor; None without the compiled library."""
    path = build.library_path()
    if os.environ.get(build.OFF) or not path.exists():
        return None
    try:
        return Kernels(path)
    except (OSError, AttributeError):
        return None


def draw_drop(p: float) -> Drop:
    """Draw the seed of dropout with probability `p` from PyTorch's generator."""
    if not p:
        return Drop(0, 0, 0, 1.0)
    limit = min(round(p * _LEVELS), _LEVELS - 1)
    low, high = torch.randint(0, _LEVELS, (2,), device="cpu").tolist()
    return Drop(limit, low, high, _LEVELS / (_LEVELS - limit))


def attend(
    kernels: Kernels,
    layout: Layout,
    query: Float[Tensor, "queries width"],
    key: Float[Tensor, "keys width"],
    value: Float[Tensor, "keys width"],
) -> tuple[Float[Tensor, "queries width"], Float[Tensor, " weights"]]:
    """Return what attention mixes, `[queries, heads * width]`, and its weights, for `attend_back`.

    All may be columns of wider matrices, keys and values of the same one.
    """
    output, weights = query.new_empty(query.shape), query.new_empty(int(layout.weight_starts[-1]))
    kernels.call("attend", byref(layout.spec(query, key, value, weights, output)))
    return output, weights


def attend_back(
    kernels: Kernels,
    layout: Layout,
    given: Three,
    weights: Float[Tensor, " weights"],
    by_output: Float[Tensor, "queries width"],
    wanted: Three,
) -> None:
    """Write the gradients of queries, keys and values into tensors laid out as they are."""
    spec = layout.spec(*given, weights, by_output)
    if any(to.stride() != of.stride() for to, of in zip(wanted, given, strict=True)):
        raise ValueError("gradients must be laid out as what they are of")
    addresses = [address_of(to, "float32", tuple(of.shape), "a gradient", columns=True)
                 for to, of in zip(wanted, given, strict=True)]  # fmt: skip
    pointers = GradientsSpec(by_output.data_ptr(), *addresses)
    kernels.call("attend_back", byref(spec), byref(pointers))
