"""The native engine as a next-token model: each step of a search is one call of the compiled library."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.engines.module import ModuleEngine, added_positions
from dragoman.engines.native.library import load_library
from dragoman.engines.native.model import NativeModel, check, native_precision
from dragoman.engines.native.searching import search_rows
from dragoman.engines.serial import exact_log_probabilities
from dragoman.models.blueprint import Blueprint
from dragoman.models.reading import read_blueprint
from dragoman.nn import CausalLM, Transformer
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.protocol import SearchRequest


class NativeState:
    """Rows of a search, held by the library: keys and values stay where they are when rows are reordered."""

    def __init__(self, engine: NativeEngine, handle: int, rows: int) -> None:
        self.engine, self.handle, self.rows, self.length = engine, handle, rows, 0
        self._free = engine.native.library.free_state

    def __del__(self) -> None:
        self._free(self.handle)

    def reorder(self, indices: Int[Tensor, " rows"]) -> NativeState:
        """Keep the rows at `indices`, in that order."""
        indices = indices.contiguous()
        check(self.engine.native.library.reorder(self.handle, indices.data_ptr(), len(indices)))
        self.rows = len(indices)
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

    def search(self, request: SearchRequest) -> list[list[Hypothesis]] | None:
        """Return what greedy or beam search finds, run by the library; None where it does not know the positions."""
        if not self.native.knows_positions:
            return None
        return search_rows(
            self.native, request.source.tolist(), request.options, request.max_lengths, request.prefixes,
            begin=request.bos, end=request.eos, never=request.never, threads=torch.get_num_threads(),
        )  # fmt: skip

    def start(self, source: Int[Tensor, "batch src"]) -> NativeState:
        """Encode the framed source: the state before the first step."""
        source = source.contiguous()
        batch, width = source.shape
        positions = self._positions("source", 0, width)
        handle = ctypes.c_void_p()
        code = self.native.library.start(
            self.native.handle, source.data_ptr(), batch, width, None if positions is None else positions.data_ptr(),
            torch.get_num_threads(), ctypes.byref(handle),
        )  # fmt: skip
        check(code)
        assert handle.value is not None
        return NativeState(self, handle.value, batch)

    def step(
        self, state: NativeState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], NativeState]:
        """Log-probabilities of the token after `tokens`, the newest of each row, and the state grown by them."""
        return self._stepped(state, tokens, None), state

    def step_with_outputs(
        self, state: NativeState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch d_model"], NativeState]:
        """`step`, and between log-probabilities and state what the decoder gives to the generator, in float32."""
        outputs = torch.empty(state.rows, self.model.generator.in_features)
        return self._stepped(state, tokens, outputs), outputs, state

    def _stepped(self, state: NativeState, tokens: Tensor, outputs: Tensor | None) -> Tensor:
        tokens = _input(state, tokens)
        position = self._positions("target", state.length, 1)
        log_probs = torch.empty(state.rows, self.native.vocab)
        code = self.native.library.step(
            state.handle, tokens.data_ptr(), None if position is None else position.data_ptr(), log_probs.data_ptr(),
            None if outputs is None else outputs.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        check(code)
        state.length += 1
        return log_probs

    def step_top(
        self, state: NativeState, tokens: Int[Tensor, " batch"], count: int, banned: Int[Tensor, " banned"]
    ) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"], NativeState]:
        """The `count` likeliest next tokens (or all there are) of each row, likeliest first: values and tokens."""
        tokens = _input(state, tokens)
        position = self._positions("target", state.length, 1)
        count = min(count, self.native.vocab)
        values = torch.empty(state.rows, count)
        best = torch.empty(state.rows, count, dtype=torch.long)
        code = self.native.library.step_top(
            state.handle, tokens.data_ptr(), None if position is None else position.data_ptr(), banned.data_ptr(),
            len(banned), count, values.data_ptr(), best.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        check(code)
        state.length += 1
        return values, best, state

    def token_log_probabilities(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch labels"]:
        """Teacher forcing: log-probability of each token of the framed target after its first."""
        return exact_log_probabilities(self, source, target)

    def _positions(self, side: str, start: int, length: int) -> Tensor | None:
        """What is added to some tokens, where the library does not know it."""
        known = self.native.knows_positions or (side == "source" and not isinstance(self.model, Transformer))
        return None if known else added_positions(self.model, side, start, length).contiguous()


def _input(state: NativeState, tokens: Tensor) -> Tensor:
    if len(tokens) != state.rows:
        raise ValueError(f"a state of {state.rows} rows needs as many tokens, got {len(tokens)}")
    return tokens.contiguous()
