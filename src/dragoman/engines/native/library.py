"""The compiled library as Python sees it: its functions and structures, through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import NamedTuple

NO_MEMORY, NO_SUCH_TOKEN, NOT_A_NUMBER = 1, 2, 3


class MatrixSpec(ctypes.Structure):
    """`DragomanMatrix` of api.h."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("out", c_int32), ("in", c_int32))


class NormSpec(ctypes.Structure):
    """`DragomanNorm` of api.h."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float), ("present", c_int32))


class TableSpec(ctypes.Structure):
    """`DragomanTable` of api.h."""

    _fields_ = (("rows", c_void_p), ("count", c_int64), ("scale", c_float), ("layout", c_int32))


class ModelSpec(ctypes.Structure):
    """`DragomanModel` of api.h."""

    _fields_ = (
        *((name, c_int32) for name in ("precision", "kernels", "d_model", "d_ff", "heads", "d_k", "d_v")),
        *((name, c_int32) for name in ("pre_norm", "activation", "cross", "encoder_layers", "decoder_layers")),
        ("pad", c_int64),
        ("source", TableSpec),
        ("target", TableSpec),
        ("matrices", POINTER(MatrixSpec)),
        ("norms", POINTER(NormSpec)),
    )


class SearchSpec(ctypes.Structure):
    """`DragomanSearch` of api.h."""

    _fields_ = (
        *((name, c_int32) for name in ("beam_size", "n_best", "min_length", "no_repeat_ngram", "formula")),
        ("alpha", c_double),
        ("begin", c_int64),
        ("end", c_int64),
        ("never", POINTER(c_int64)),
        ("never_count", c_int32),
        ("max_lengths", POINTER(c_int32)),
        ("prefixes", POINTER(c_int64)),
        ("prefix_starts", POINTER(c_int32)),
    )


class FoundSpec(ctypes.Structure):
    """`DragomanFound` of api.h."""

    _fields_ = (
        ("counts", POINTER(c_int32)),
        ("lengths", POINTER(c_int32)),
        ("tokens", POINTER(c_int64)),
        ("values", POINTER(c_float)),
    )


FUNCTIONS = {
    "kernels": (c_int32, ()),
    "kernels_name": (c_char_p, (c_int32,)),
    "kernels_bfloat16": (c_int32, (c_int32,)),
    "model": (c_void_p, (c_void_p,)),
    "free_model": (None, (c_void_p,)),
    "model_bytes": (c_size_t, (c_void_p,)),
    "start": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_int32, c_void_p)),
    "free_state": (None, (c_void_p,)),
    "search": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_int32, c_void_p)),
    "free_found": (None, (c_void_p,)),
    "reorder": (c_int32, (c_void_p, c_void_p, c_int32)),
    "step": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int32)),
    "step_top": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_int32),
    ),
}


class Kernel(NamedTuple):
    """A set of kernels that this processor can run: its name, and whether it multiplies bfloat16."""

    name: str
    bfloat16: bool


class Library:
    """The functions of api.h, without their prefix, and the kernels of this processor, slowest first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, f"dragoman_{name}")
            function.restype, function.argtypes = result, arguments
        self.model, self.free_model, self.model_bytes = (
            loaded.dragoman_model, loaded.dragoman_free_model, loaded.dragoman_model_bytes,
        )  # fmt: skip
        self.start, self.free_state = loaded.dragoman_start, loaded.dragoman_free_state
        self.search, self.free_found = loaded.dragoman_search, loaded.dragoman_free_found
        self.reorder, self.step, self.step_top = (
            loaded.dragoman_reorder, loaded.dragoman_step, loaded.dragoman_step_top,
        )  # fmt: skip
        self.kernels = tuple(
            Kernel(loaded.dragoman_kernels_name(index).decode(), bool(loaded.dragoman_kernels_bfloat16(index)))
            for index in range(loaded.dragoman_kernels())
        )


@functools.cache
def load_library() -> Library | str:
    """The library, or why there is none, in words."""
    from dragoman.engines.native import build  # not above: it is run as a program too

    if os.environ.get(build.OFF):
        return f"{build.OFF} is set"
    path = build.library_path()
    if not path.exists():
        return "its library is not compiled: `python -m dragoman.engines.native.build` does it, with a C++ compiler"
    try:
        return Library(path)
    except OSError as error:
        return f"its library does not load: {error}"
