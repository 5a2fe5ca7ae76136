"""The native engine as a next-token model: each step of a search is one call of the compiled library."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.module import ModuleEngine
from dragoman.engines.native.library import load_library
from dragoman.engines.native.memory import address_of
from dragoman.engines.native.model import NativeModel, native_precision
from dragoman.engines.native.searching import NativeSearcher
from dragoman.engines.serial import exact_log_probabilities
from dragoman.models.blueprint import Blueprint
from dragoman.models.reading import read_blueprint
from dragoman.nn import CausalLM, Transformer
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest
from dragoman.sequences import SourceBatch


class NativeState:
    """Rows of a search, held by the library: keys and values stay where they are when rows are reordered.

    Attributes:
        engine: whose state it is.
        lengths: how many tokens each row has, `[rows]`.
    """

    def __init__(self, engine: NativeEngine, handle: int, rows: int) -> None:
        self.engine, self.handle = engine, handle
        self.lengths: Int[Tensor, " rows"] = torch.zeros(rows, dtype=torch.long)
        self._free = engine.native.library.free_state

    def __del__(self) -> None:
        self._free(self.handle)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.lengths)

    def reorder(self, indices: Int[Tensor, " rows"]) -> NativeState:
        """Keep the rows at `indices`, in that order.

        Raises:
            ValueError: an index is not one of a row.
        """
        indices, library = _whole(indices, "indices"), self.engine.native.library
        address = address_of(indices, "int64", (len(indices),), "indices")
        library.check(library.reorder(self.handle, address, len(indices)))
        self.lengths = self.lengths[indices]
        return self

    def join(self, other: NativeState) -> NativeState:
        """Append the rows of another state, whichever step they are at; the other one is left without rows.

        Raises:
            ValueError: it is of another model, or this one itself.
        """
        if other is self:
            raise ValueError("a state cannot join itself")
        library = self.engine.native.library
        library.check(library.join(self.handle, other.handle))
        self.lengths = torch.cat([self.lengths, other.lengths])
        other.lengths = other.lengths[:0]
        return self


class NativeEngine(ModuleEngine):
    """A `Transformer` or `CausalLM` as a next-token model (see `dragoman.search.NextTokenModel`), run natively.

    Weights are packed once: later changes of the model are not seen. Results of a row depend neither on the rows
    beside it nor on the number of threads, bit by bit. In int8, weights have a scale per output and activations one
    per row; products are summed exactly and everything between the linear maps is float32. Both have 8 bits with
    AVX-512 VNNI, else 7, for then four products fit into 16 bits, and activations a zero of their own.

    Args:
        model: the trained model, on the CPU, in float32.
        precision: of the linear maps: `float32`, `int8` or `bfloat16`.
        kernels: the name of a set of kernels that this processor can run; the fastest if None.

    Raises:
        ConfigError: the library is not there, or the processor does not have what is asked for.
        NotPlain: the model has parts that only its own modules know how to run.

    Attributes:
        native: the packed model, which also runs whole searches.
    """

    name = "native"

    def __init__(self, model: Transformer | CausalLM, precision: str = "float32", kernels: str | None = None) -> None:
        super().__init__(model)
        self.precision = precision
        self.native = NativeModel(read_blueprint(model), precision, kernels)

    @classmethod
    def supports(cls, blueprint: Blueprint[Any]) -> str | None:
        """See `ModuleEngine.supports`."""
        library = load_library()
        return f"no native engine: {library}" if isinstance(library, str) else NativeModel.supports(blueprint)

    @classmethod
    def choose_precision(cls, wanted: str) -> tuple[str, str]:
        """See `ModuleEngine.choose_precision`."""
        return native_precision(wanted)

    @property
    def bytes(self) -> int:
        """Memory of the packed weights; the embeddings are the model's own."""
        return self.native.bytes

    def search(self, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
        """Return what greedy or beam search finds, run by the library."""
        return self.whole.search(requests)

    @property
    def whole(self) -> NativeSearcher:
        """What runs whole searches with the packed weights."""
        return NativeSearcher(self.native)

    def start(self, sources: SourceBatch) -> NativeState:
        """Encode the sources: the state before the first step.

        Raises:
            IndexError: an id is not in the vocabulary.
            ModelError: a row is longer than the model's table of positions.
            ValueError: there is padding before the end of a row.
        """
        batch, library = len(sources), self.native.library
        ids = frames = lengths = None
        if isinstance(self.model, Transformer):
            given, lengths = without_padding(sources)
            ids, frames = (None, given) if self.native.mels else (_whole(given, "the source"), None)
        handle = ctypes.c_void_p()
        code = library.start(
            self.native.handle,
            None if ids is None else address_of(ids, "int64", (len(ids),), "ids"),
            None if frames is None else address_of(frames, "float32", (len(frames), self.native.mels), "frames"),
            None if lengths is None else address_of(lengths, "int32", (batch,), "lengths"),
            batch,
            torch.get_num_threads(),
            ctypes.byref(handle),
        )
        library.check(code)
        assert handle.value is not None
        return NativeState(self, handle.value, batch)

    def step(
        self, state: NativeState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], NativeState]:
        """Return log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        return self._stepped(state, tokens, None), state

    def step_with_outputs(
        self, state: NativeState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch d_model"], NativeState]:
        """As `step`, with the decoder's outputs, in float32, between log-probabilities and state."""
        outputs = torch.empty(state.rows, self._width)
        return self._stepped(state, tokens, outputs), outputs, state

    def _stepped(self, state: NativeState, tokens: Tensor, outputs: Tensor | None) -> Tensor:
        library, tokens = self.native.library, _input(state, tokens)
        log_probs = torch.empty(state.rows, self.native.vocab)
        code = library.step(
            state.handle,
            address_of(tokens, "int64", (state.rows,), "tokens"),
            state.rows,
            log_probs.data_ptr(),
            None if outputs is None else outputs.data_ptr(),
            torch.get_num_threads(),
        )
        library.check(code)
        state.lengths = state.lengths + 1
        return log_probs

    def step_top(
        self, state: NativeState, tokens: Int[Tensor, " batch"], count: int, banned: Int[Tensor, " banned"]
    ) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"], NativeState]:
        """Return the `count` likeliest next tokens (or all) of each row, likeliest first: values and tokens.

        Raises:
            IndexError: a token, banned or not, is not in the vocabulary.
        """
        library, tokens = self.native.library, _input(state, tokens)
        banned, count = _whole(banned, "banned tokens"), min(count, self.native.vocab)
        values = torch.empty(state.rows, max(count, 0))
        best = torch.empty(state.rows, max(count, 0), dtype=torch.long)
        code = library.step_top(
            state.handle,
            address_of(tokens, "int64", (state.rows,), "tokens"),
            state.rows,
            address_of(banned, "int64", (len(banned),), "banned tokens"),
            len(banned),
            count,
            values.data_ptr(),
            best.data_ptr(),
            torch.get_num_threads(),
        )
        library.check(code)
        state.lengths = state.lengths + 1
        return values, best, state

    def token_log_probabilities(
        self, sources: SourceBatch, target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Return the log-probability of each token of the framed target after its first, teacher-forced."""
        return exact_log_probabilities(self, sources, target)

    @property
    def _width(self) -> int:
        return self.model.generator.in_features


def without_padding(
    sources: SourceBatch,
) -> tuple[Int[Tensor, " ids"] | Float[Tensor, "frames mels"], Int[Tensor, " batch"]]:
    """Return the ids or frames of padded rows, one row after the other, and how many each has, in 32 bits.

    Raises:
        ValueError: there is padding before the end of a row.
    """
    lengths = sources.mask.sum(1)
    if not torch.equal(sources.mask, torch.arange(sources.mask.shape[1]) < lengths[:, None]):
        raise ValueError("the native engine reads rows with padding at their end only")
    return sources.ids[sources.mask].contiguous(), lengths.int()


def _input(state: NativeState, tokens: Tensor) -> Tensor:
    if len(tokens) != state.rows:
        raise ValueError(f"a state of {state.rows} rows needs as many tokens, got {len(tokens)}")
    return _whole(tokens, "tokens")


def _whole(ids: Tensor, name: str) -> Tensor:
    """Ids of any width as the library reads them: 64 bits, without gaps."""
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise TypeError(f"{name} must be whole numbers, not {ids.dtype}")
    return ids.long().contiguous()
