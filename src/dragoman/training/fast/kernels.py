"""Training's kernels of the compiled library as functions of tensors: float32, on the CPU, rows without gaps."""

from __future__ import annotations

import copy
import ctypes
import functools
import os
from ctypes import byref, c_double, c_float, c_int32, c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.native import build

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
        ("weights", c_void_p),
        ("output", c_void_p),
    )


class GradientsSpec(ctypes.Structure):
    """`AttentionGradients` of training.h."""

    _fields_ = tuple((name, c_void_p) for name in ("output", "query", "key", "value"))


_P, _I = c_void_p, c_int32
FUNCTIONS = {
    "add_norm": (_P, _P, _P, _P, _P, c_float, _P, _I, _I, _P, _P, _P, _I),
    "add_norm_back": (_P, _P, _P, _P, _P, _P, _I, _I, _P, _P, _P, _I),
    "relu": (_P, _P, _P, _I, _I, _I),
    "relu_back": (_P, _P, c_float, _I, _I, _P, _I),
    "column_sums": (_P, _I, _I, _P, _I),
    "attend": (_P, _I),
    "attend_back": (_P, _P, _I),
    "cross_entropy": (_P, _P, _I, _I, c_float, _P, _I),
    "agreement": (_P, _P, _P, _I, _I, c_float, c_float, _P, _I),
}


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
    """

    query_starts: np.ndarray
    key_starts: np.ndarray
    weight_starts: np.ndarray
    heads: int
    causal: bool
    lanes: int

    @classmethod
    def of(
        cls,
        queries: Int[Tensor, " batch"],
        keys: Int[Tensor, " batch"],
        heads: int,
        lanes: int,
        *,
        causal: bool = False,
    ) -> Layout:
        """From the numbers of queries and of keys of each sentence."""
        across = (keys + lanes - 1) // lanes * lanes
        query_starts, key_starts, weight_starts = (
            np.concatenate([[0], many.cumsum(0).numpy()]) for many in (queries, keys, heads * queries * across)
        )
        return cls(query_starts.astype(np.int32), key_starts.astype(np.int32), weight_starts, heads, causal, lanes)

    def spec(
        self,
        query: Float[Tensor, "queries width"],
        key: Float[Tensor, "keys width"],
        value: Float[Tensor, "keys width"],
        weights: Float[Tensor, " weights"],
        output: Float[Tensor, "queries width"],
    ) -> AttentionSpec:
        """What the kernels take; lives no longer than what it is made of."""
        return AttentionSpec(
            query.data_ptr(), key.data_ptr(), value.data_ptr(),
            self.query_starts.ctypes.data, self.key_starts.ctypes.data, self.weight_starts.ctypes.data,
            len(self.query_starts) - 1, self.heads, query.shape[1] // self.heads, self.causal,
            self.lanes, query.stride(0), key.stride(0), weights.data_ptr(), output.data_ptr(),
        )  # fmt: skip


class Kernels:
    """The functions of training_api.h."""

    def __init__(self, path: Path, kind: str | None = None) -> None:
        loaded = ctypes.CDLL(str(path))
        self.functions = {}
        for name, arguments in FUNCTIONS.items():
            function = getattr(loaded, f"dragoman_{name}")
            function.restype, function.argtypes = None, (c_void_p, *arguments)
            self.functions[name] = function
        choose = loaded.dragoman_training
        choose.restype, choose.argtypes = c_void_p, (c_void_p, c_int32)
        found = {name: choose(_parallel(), index) for index, name in enumerate(SETS) if kind in (None, name)}
        usable = [name for name, handle in found.items() if handle]
        if not usable:
            raise ValueError(f"this processor does not run {kind} kernels")
        self.kind = usable[-1]
        self.handle = found[self.kind]
        self.lanes = 16 if self.kind == "avx512" else 8
        self.factors = torch.float32

    def rounding(self, factors: torch.dtype) -> Kernels:
        """The same kernels with products of `factors`, float32 or bfloat16."""
        other = copy.copy(self)
        other.factors = factors
        return other

    def round(self, *tensors: Float[Tensor, "..."]) -> list[Float[Tensor, "..."]]:
        """Tensors as factors of a product."""
        return [one.to(self.factors) for one in tensors]

    def call(self, name: str, *arguments: object) -> None:
        """Run a kernel on as many threads as PyTorch uses; tensors stand for their memory."""
        given = [one.data_ptr() if isinstance(one, Tensor) else one for one in arguments]
        self.functions[name](self.handle, *given, torch.get_num_threads())

    def cross_entropy(
        self, logits: Float[Tensor, "rows vocab"], wanted: Int[Tensor, "rows 1"], smoothing: float
    ) -> tuple[tuple[float, float, int], Float[Tensor, "rows vocab"]]:
        """Loss, likelihood and hits of some rows; and the loss's derivative by the logits, in their place."""
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
        """The same of R-Drop's loss, from the logits of both passes; hits are those of the first."""
        totals = (c_double * 3)()
        self.call("agreement", *both, wanted.contiguous(), *both[0].shape, smoothing, weight, totals)
        return (totals[0], totals[1], int(totals[2])), both


def _parallel() -> int | None:
    """`GOMP_parallel` of the OpenMP library that PyTorch brings, if it is that one."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, c_void_p).value
    except (AttributeError, OSError):
        return None


@functools.cache
def load_kernels() -> Kernels | None:
    """The kernels for this processor; None without the compiled library."""
    path = build.library_path()
    if os.environ.get(build.OFF) or not path.exists():
        return None
    try:
        return Kernels(path)
    except (OSError, AttributeError):
        return None


def draw_drop(p: float) -> Drop:
    """Dropout with probability `p`, its seed drawn from PyTorch's generator."""
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
    """What attention mixes, `[queries, heads * width]`, and its weights, for `attend_back`.

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
    """From queries, keys and values write their gradients into tensors laid out as they are."""
    spec = layout.spec(*given, weights, by_output)
    pointers = GradientsSpec(by_output.data_ptr(), *(one.data_ptr() for one in wanted))
    kernels.call("attend_back", byref(spec), byref(pointers))
