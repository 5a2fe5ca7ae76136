"""The compiled library as Python sees it: its functions and structures, through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable, Mapping
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import ModelError

ABI = 7  # DRAGOMAN_ABI of api.h
NO_MEMORY, NO_SUCH_TOKEN, NOT_A_NUMBER, BAD_ARGUMENT, TOO_LONG = 1, 2, 3, 4, 6
MOST = 1 << 30  # rows of anything, and tokens of an output
WIDEST = 1 << 24  # numbers of a row
WIDEST_BYTES = 1 << 17  # the same in int8, so that their products can be added up


class MatrixSpec(ctypes.Structure):
    """`DragomanMatrix` of api.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("weight", "bytes", "factors", "bias")),
        *(("out", c_int32), ("in", c_int32)),
    )


class NormSpec(ctypes.Structure):
    """`DragomanNorm` of api.h."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float), ("present", c_int32))


class TableSpec(ctypes.Structure):
    """`DragomanTable` of api.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("rows", "bytes", "factors")),
        *(("count", c_int64), ("scale", c_float), ("layout", c_int32)),
        *(("positions", c_void_p), ("longest", c_int64)),
    )


class ModelSpec(ctypes.Structure):
    """`DragomanModel` of api.h."""

    _fields_ = (
        *((name, c_int32) for name in ("precision", "kernels", "d_model", "d_ff", "heads", "d_k", "d_v")),
        *((name, c_int32) for name in ("pre_norm", "activation", "cross", "encoder_layers", "decoder_layers")),
        *((name, c_int32) for name in ("matrix_count", "norm_count", "mels", "blank")),
        ("source", TableSpec),
        ("target", TableSpec),
        ("matrices", POINTER(MatrixSpec)),
        ("norms", POINTER(NormSpec)),
    )


class SentenceSpec(ctypes.Structure):
    """`DragomanSentence` of api.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("source", "frames", "prefix", "never")),
        ("begin", c_int64),
        ("end", c_int64),
        ("alpha", c_double),
        ("ctc_weight", c_double),
        *((name, c_int32) for name in ("source_length", "prefix_length", "never_count", "beam_size", "n_best")),
        *(
            (name, c_int32)
            for name in ("min_length", "max_length", "no_repeat_ngram", "formula", "end_at_limit", "early")
        ),
    )


class FoundSpec(ctypes.Structure):
    """`DragomanFound` of api.h."""

    _fields_ = (
        ("sentences", c_int64),
        ("numbers", POINTER(c_int64)),
        ("codes", POINTER(c_int32)),
        ("counts", POINTER(c_int32)),
        ("lengths", POINTER(c_int32)),
        ("tokens", POINTER(c_int64)),
        ("values", POINTER(c_float)),
    )


STRUCTURES = {
    "DragomanMatrix": MatrixSpec, "DragomanNorm": NormSpec, "DragomanTable": TableSpec, "DragomanModel": ModelSpec,
    "DragomanSentence": SentenceSpec, "DragomanFound": FoundSpec,
}  # fmt: skip
_P, _I = c_void_p, c_int32
FUNCTIONS = {
    "message": (c_char_p, ()),
    "kernels": (c_int32, ()),
    "kernels_name": (c_char_p, (_I,)),
    "kernels_bfloat16": (c_int32, (_I,)),
    "model": (c_int32, (_P, _P)),
    "free_model": (None, (_P,)),
    "model_bytes": (c_size_t, (_P,)),
    "start": (c_int32, (_P, _P, _P, _P, _I, _I, _P)),
    "free_state": (None, (_P,)),
    "reorder": (c_int32, (_P, _P, _I)),
    "join": (c_int32, (_P, _P)),
    "step": (c_int32, (_P, _P, _I, _P, _P, _I)),
    "step_top": (c_int32, (_P, _P, _I, _P, _I, _I, _P, _P, _I)),
    "search": (c_int32, (_P, _P, _I, _I, _P)),
    "free_found": (None, (_P,)),
    "open": (c_int32, (_P, _I, _P)),
    "admit": (c_int32, (_P, _P, _I, _P)),
    "advance": (c_int32, (_P, _I, _I, _P)),
    "take": (c_int32, (_P, _P)),
    "peek": (c_int32, (_P, c_int64, _P)),
    "cancel": (c_int32, (_P, c_int64, _P)),
    "close": (None, (_P,)),
}


class Kernel(NamedTuple):
    """A set of kernels that this processor can run: its name, and whether it multiplies bfloat16."""

    name: str
    bfloat16: bool


class Library:
    """The functions of api.h, without their prefix, and the kernels of this processor, slowest first.

    Raises:
        OSError: it does not load, or is not the library of these sources.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        loaded = open_library(path, STRUCTURES)
        functions = {name: bind(loaded, name, *types) for name, types in FUNCTIONS.items()}
        self.message = functions["message"]
        self.model, self.free_model = functions["model"], functions["free_model"]
        self.model_bytes, self.start, self.free_state = (
            functions[name] for name in ("model_bytes", "start", "free_state")
        )
        self.reorder, self.join, self.step, self.step_top = (
            functions[name] for name in ("reorder", "join", "step", "step_top")
        )
        self.search, self.free_found = functions["search"], functions["free_found"]
        self.open, self.admit, self.advance, self.take, self.peek, self.cancel, self.close = (
            functions[name] for name in ("open", "admit", "advance", "take", "peek", "cancel", "close")
        )
        name_of, bfloat16 = functions["kernels_name"], functions["kernels_bfloat16"]
        self.kernels = tuple(
            Kernel(name_of(index).decode(), bool(bfloat16(index))) for index in range(functions["kernels"]())
        )

    def check(self, code: int) -> None:
        """Say in Python what the library says with a code.

        Raises:
            MemoryError: there is not enough.
            IndexError: a token is not in the vocabulary.
            FloatingPointError: the model gives NaN.
            ModelError: a sequence is longer than the model's table of positions.
            ValueError: it was given what it does not take.
            RuntimeError: it failed otherwise.
        """
        if code:
            raise self.error(code)

    def error(self, code: int) -> Exception:
        """Return the exception that stands for a code other than 0."""
        if code == NO_MEMORY:
            return MemoryError("the native engine found no memory")
        if code == NO_SUCH_TOKEN:
            return IndexError("a token is not in the vocabulary of the model")
        if code == NOT_A_NUMBER:
            return FloatingPointError("the model gives NaN")
        if code == TOO_LONG:
            hint = "split the text or limit the length of the output"
            return ModelError("a sequence is longer than the model's table of positions", hint=hint)
        told = self.message().decode(errors="replace")
        return (ValueError if code == BAD_ARGUMENT else RuntimeError)(f"the native engine: {told}")


def open_library(path: Path, structures: Mapping[str, type[ctypes.Structure]]) -> ctypes.CDLL:
    """Load a compiled library and make sure that it speaks as this package does.

    Args:
        path: the file.
        structures: what will be handed over, by its name in C; their sizes are compared.

    Raises:
        OSError: it does not load, or is not the library of these sources.
    """
    loaded = ctypes.CDLL(str(path))
    try:
        abi, size_of = bind(loaded, "abi", c_int32, ()), bind(loaded, "size_of", c_size_t, (c_char_p,))
    except AttributeError:
        raise OSError("it is of an older version") from None
    if abi() != ABI:
        raise OSError(f"it is of version {abi()} of the interface, not {ABI}")
    for name, structure in structures.items():
        wanted, found = ctypes.sizeof(structure), size_of(name.encode())
        if wanted != found:
            raise OSError(f"its {name} has {found} bytes, not {wanted}")
    return loaded


def bind(loaded: ctypes.CDLL, name: str, result: Any, arguments: Iterable[Any]) -> Any:
    """Return a function of the library, its name given without the prefix."""
    function = getattr(loaded, f"dragoman_{name}")
    function.restype, function.argtypes = result, tuple(arguments)
    return function


@functools.cache
def load_library() -> Library | str:
    """Load the compiled library, or return why there is none, in words."""
    from dragoman.engines.native import build  # not above: it is run as a program too

    if os.environ.get(build.OFF):
        return f"{build.OFF} is set"
    path = build.library_path()
    if not path.exists():
        return "its library is not compiled: `python -m dragoman.engines.native.build` does it, with a C++ compiler"
    try:
        return Library(path)
    except (OSError, AttributeError) as error:
        return f"its library does not load: {error}"
