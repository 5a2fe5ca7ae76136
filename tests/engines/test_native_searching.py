"""Searches that the native engine runs as a whole are those in Python, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine, NativeEngine
from dragoman.engines.native import load_library
from dragoman.engines.native.searching import NativeSearcher
from dragoman.errors import ModelError
from dragoman.models import build_model
from dragoman.nn import CausalLM, Transformer
from dragoman.search import Hypothesis, SearchRequest, beam_search, greedy_search, search
from dragoman.search.request import output_limit
from dragoman.sequences import FRAME, NOTHING, SPECIALS, Frame, Source, SourceBatch, sources_of

pytestmark = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))


@dataclass(frozen=True)
class Weights:
    """A small model, some of whose tokens may be equally likely to the last bit."""

    config: ModelConfig
    seed: int
    scale: float
    alike: bool
    precision: str

    def engine(self) -> NativeEngine:
        torch.manual_seed(self.seed)
        model = build_model(self.config)
        assert isinstance(model, (Transformer, CausalLM))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(self.scale)
            if self.alike:
                half = (self.config.target_vocab or 0) // 2
                model.generator.weight[half:] = model.generator.weight[half]
        return NativeEngine(model, self.precision)


@st.composite
def weights(draw: st.DrawFn) -> Weights:
    causal, vocab = draw(st.booleans()), draw(st.sampled_from([6, 9, 40]))
    config = ModelConfig(
        family="causal" if causal else "transformer",
        source_vocab=None if causal else vocab,
        target_vocab=vocab,
        d_model=16,
        num_heads=2,
        d_ff=24,
        num_encoder_layers=1,
        num_decoder_layers=draw(st.integers(1, 2)),
        norm=draw(st.sampled_from(["pre", "post"])),
        positions=draw(st.sampled_from(["interleaved", "concatenated", "marian", "fairseq", "rotary", "alibi"])),
    )
    precision = draw(st.sampled_from(["float32", "int8"]))
    return Weights(
        config, draw(st.integers(0, 9999)), draw(st.sampled_from([1.0, 3.0])), draw(st.booleans()), precision
    )


@dataclass(frozen=True)
class Wanted:
    """What is searched for. Only plain values are drawn: the check of types draws lots too, which is no strategy's."""

    rows: list[list[int]]
    options: list[dict[str, object]]
    prefixes: list[list[int]]
    picks: list[int]

    def requests(self, *, causal: bool) -> list[SearchRequest]:
        options = list(map(DecodingConfig.from_dict, self.options))
        return [
            SearchRequest(
                NOTHING if causal else Source(tuple(row)), options[pick], tuple(prefix),
                limit=output_limit(options[pick], len(row)) if causal else None,
            )
            for row, prefix, pick in zip(self.rows, self.prefixes, self.picks, strict=True)
        ]  # fmt: skip


@st.composite
def one_search(draw: st.DrawFn, beam_sizes: st.SearchStrategy[int]) -> dict[str, object]:
    beam_size, min_length = draw(beam_sizes), draw(st.integers(0, 3))
    return {
        "beam_size": beam_size,
        "n_best": draw(st.integers(1, beam_size)),
        "length_penalty": draw(st.sampled_from([0.0, 0.6, 1.0, 2.0])),
        "length_penalty_formula": draw(st.sampled_from(["gnmt", "power", "reward"])),
        "min_length": min_length,
        "max_length": draw(st.sampled_from([None, min_length + 1, min_length + 5])),
        "max_length_offset": 9,
        "no_repeat_ngram": draw(st.integers(0, 3)),
        "end_at_limit": draw(st.sampled_from(["charged", "free", "none"])),
        "beam_early_stopping": draw(st.booleans()),
    }


@st.composite
def searches(draw: st.DrawFn, kinds: int = 1) -> tuple[Weights, Wanted]:
    chosen = draw(weights())
    tokens = st.integers(4, (chosen.config.target_vocab or 0) - 1)
    rows = draw(st.lists(st.lists(tokens, max_size=7), max_size=5))
    rows = [row for row in rows for _ in range(draw(st.integers(1, 2)))]  # some twice, which are encoded once
    options = [draw(one_search(st.integers(1, 6))) for _ in range(kinds)]
    forced = draw(st.booleans())
    prefixes = [draw(st.lists(tokens, max_size=3)) if forced else [] for _ in rows]
    return chosen, Wanted(rows, options, prefixes, [draw(st.integers(0, kinds - 1)) for _ in rows])


def in_python(engine: NativeEngine, requests: list[SearchRequest]) -> list[list[Hypothesis]]:
    """One kind of search for all of them."""
    return (greedy_search if requests and requests[0].options.beam_size == 1 else beam_search)(engine, requests)


def whole(engine: NativeEngine) -> NativeSearcher:
    found = engine.whole
    assert found is not None
    return found


@settings(max_examples=40)
@given(case=searches())
def test_a_whole_search_finds_what_the_search_in_python_finds(case: tuple[Weights, Wanted]) -> None:
    chosen, wanted = case
    engine, requests = chosen.engine(), wanted.requests(causal=chosen.config.family == "causal")
    expected = in_python(engine, requests)
    assert search(engine, requests) == expected
    assert whole(engine).search(requests, threads=3) == expected


@settings(max_examples=40)
@given(case=searches(kinds=3))
def test_requests_with_other_options_in_one_batch_are_as_alone(case: tuple[Weights, Wanted]) -> None:
    chosen, wanted = case
    engine, requests = chosen.engine(), wanted.requests(causal=chosen.config.family == "causal")
    expected = [found for request in requests for found in in_python(engine, [request])]
    assert search(engine, requests) == expected
    assert whole(engine).search(requests, threads=3) == expected
    assert [found for request in requests for found in whole(engine).search([request])] == expected


def random_engine(seed: int, **changes: object) -> NativeEngine:
    torch.manual_seed(seed)
    sizes = {"source_vocab": 300, "target_vocab": 300, "d_model": 64, "num_heads": 4, "d_ff": 128}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    model = build_model(ModelConfig.from_dict({**sizes, **layers, **changes}))
    assert isinstance(model, Transformer)
    with torch.no_grad():
        model.generator.weight.mul_(4)
    return NativeEngine(model)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_threads_and_batch_mates_change_nothing(beam_size: int) -> None:
    engine = random_engine(3)
    lengths = (3, 30, 11, 1, 17, 8, 25, 2) * 5  # more parts than threads
    sources = [torch.randint(4, 300, (length,)).tolist() for length in lengths]
    options = DecodingConfig(beam_size=beam_size, n_best=beam_size)
    requests = asked(sources, options)
    found = whole(engine).search(requests, threads=2)
    for threads in (1, 3):
        assert found == whole(engine).search(requests, threads=threads)
    for row, request in enumerate(requests):
        assert [found[row]] == whole(engine).search([request], threads=1)
    assert found == in_python(engine, requests)


def asked(rows: list[list[int]], options: DecodingConfig, **changes: Any) -> list[SearchRequest]:
    return [SearchRequest(source, options, **changes) for source in sources_of(rows)]


def test_what_is_no_number_is_told() -> None:
    engine = random_engine(1)
    with torch.no_grad():
        engine.model.generator.weight.fill_(float("nan"))
    spoilt = NativeEngine(engine.model)
    for beam_size, sources, threads in (
        (1, [[5, 6]], 1),
        (3, [[5, 6]], 1),
        (1, [[5, 6], [7]], 2),
        (3, [[7], [8], [9]], 2),
    ):
        with pytest.raises(ModelError, match="NaN instead of probabilities"):
            whole(spoilt).search(asked(sources, DecodingConfig(beam_size=beam_size)), threads=threads)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    native, options = whole(random_engine(1)), DecodingConfig()
    for ids, changes in (
        ([[300]], {}), ([[-1]], {}), ([[5]], {"prefix": (300,)}), ([[5]], {"frame": Frame(FRAME.begin, 300)}),
    ):  # fmt: skip
        with pytest.raises(IndexError, match="not in the vocabulary"):
            native.search(asked(ids, options, **changes))


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "alibi"])
def test_long_outputs_have_the_positions_of_the_modules(layout: str) -> None:
    """Longer than the first table of positions that the library makes."""
    engine = random_engine(2, positions=layout)
    tokens = torch.randint(4, 300, (1, 200))
    source = SourceBatch.of_padded(torch.randint(4, 300, (1, 150)), SPECIALS.pad)
    oracle = ModuleEngine(engine.model)
    state, like = engine.start(source), oracle.start(source)
    for step in range(200):
        found, state = engine.step(state, tokens[:, step])
        expected, like = oracle.step(like, tokens[:, step])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
