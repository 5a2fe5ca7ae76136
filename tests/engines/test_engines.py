"""Every engine is held to the modules themselves, the oracle, by the same tests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine, NativeEngine, PackedEngine
from dragoman.engines.native import load_library
from dragoman.engines.packed import multiplies_bytes
from dragoman.engines.serial import serial_log_probabilities
from dragoman.models import build_model
from dragoman.nn import CausalLM, Transformer
from dragoman.search import SearchRequest, beam_search, greedy_search, score_serial
from dragoman.sequences import SPECIALS, Source, SourceBatch, sources_of

LIBRARY = load_library()
KERNELS = () if isinstance(LIBRARY, str) else tuple(kernel.name for kernel in LIBRARY.kernels)
NO_LIBRARY = LIBRARY if isinstance(LIBRARY, str) else ""
NARROW = ("plain", "avx2")  # processors that sum products of bytes in 16 bits
Make = Callable[[Transformer | CausalLM, str], ModuleEngine]


def native(kernels: str | None = None) -> Make:
    return lambda model, precision: NativeEngine(model, precision, kernels)


needs_library = pytest.mark.skipif(bool(NO_LIBRARY), reason=NO_LIBRARY)
ENGINES = [
    pytest.param(PackedEngine, id="packed"),
    *(pytest.param(native(name), id=name) for name in KERNELS),
    *([] if KERNELS else [pytest.param(native(), id="native", marks=needs_library)]),
]


@dataclass(frozen=True)
class Case:
    """A model and what is done with it."""

    config: ModelConfig
    lengths: tuple[int, ...]
    steps: int
    seed: int

    def model(self) -> Transformer | CausalLM:
        torch.manual_seed(self.seed)
        model = build_model(self.config)
        assert isinstance(model, (Transformer, CausalLM))
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.nn.init.normal_(parameter, 0.5, 0.5)
        return model

    def source(self) -> SourceBatch:
        rows = [torch.randint(4, self.config.source_vocab or 9, (length,)) for length in self.lengths]
        return SourceBatch.of_padded(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), SPECIALS.pad)

    def sources(self) -> list[Source]:
        """Whose lengths are with what ends them."""
        return sources_of([torch.randint(4, self.config.source_vocab or 9, (n - 1,)).tolist() for n in self.lengths])

    def framed(self) -> SourceBatch:
        return SourceBatch.of(self.sources())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    heads, causal = draw(st.sampled_from([1, 2, 5])), draw(st.booleans())
    d_model = heads * draw(st.sampled_from([1, 4, 8, 19]))
    odd_heads = draw(st.booleans())
    tied = draw(st.sampled_from(["none", "decoder", "all"]))
    vocab = draw(st.sampled_from([9, 37, 64]))
    d_k = draw(st.integers(1, 40)) if odd_heads else None
    rotary = [] if (d_k or d_model // heads) % 2 else ["rotary"] if causal else ["rotary", "rotary-cross"]
    foreign = ["marian", "fairseq"] if d_model % 2 == 0 and d_model >= 4 else []
    config = ModelConfig(
        family="causal" if causal else "transformer",
        source_vocab=None if causal else vocab,
        target_vocab=vocab,
        d_model=d_model,
        num_heads=heads,
        d_k=d_k,
        d_v=draw(st.integers(1, 70)) if odd_heads else None,
        d_ff=draw(st.sampled_from([3, 16, 70])),
        num_encoder_layers=draw(st.integers(0, 3)),
        num_decoder_layers=draw(st.integers(1, 3)),
        norm=draw(st.sampled_from(["pre", "post"])),
        norm_eps=draw(st.sampled_from([1e-5, 1e-3])),
        activation=draw(st.sampled_from(["relu", "gelu", "silu"])),
        bias=draw(st.booleans()),
        generator_bias=draw(st.booleans()),
        positions=draw(st.sampled_from(["interleaved", "concatenated", "alibi", *foreign, *rotary])),
        tie_embeddings="decoder" if causal and tied == "all" else tied,
    )
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    return Case(config, tuple(lengths), draw(st.integers(1, 6)), draw(st.integers(0, 10_000)))


def walk(engines: list[ModuleEngine], case: Case) -> list[list[torch.Tensor]]:
    """Log-probabilities of each step of each engine, rows repeated, dropped and exchanged on the way."""
    source = case.source()
    states = [engine.start(source) for engine in engines]
    rows, found = len(source), [[] for _ in engines]
    for step in range(case.steps):
        tokens = torch.randint(0, case.config.target_vocab or 9, (rows,))
        for index, engine in enumerate(engines):
            log_probs, states[index] = engine.step(states[index], tokens)
            found[index].append(log_probs)
        if step % 2 == 0:
            indices = torch.randint(0, rows, (max(1, rows + step - 1),))
            states = [state.reorder(indices) for state in states]
            rows = len(indices)
    return found


def close(found: torch.Tensor, expected: torch.Tensor, case: Case) -> None:
    """Assert equality up to rounding, which layer norm multiplies where it divides by the spread of a few values."""
    tolerance = 1e-4 if case.config.d_model >= 8 else 2e-3
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("make", ENGINES)
@settings(max_examples=40)
@given(case=cases())
def test_float32_is_the_oracle_up_to_rounding(make: Make, case: Case) -> None:
    model = case.model()
    expected, found = walk([ModuleEngine(model), make(model, "float32")], case)
    for one, other in zip(expected, found, strict=True):
        close(other, one, case)


@pytest.mark.parametrize("make", ENGINES)
@settings(max_examples=30)
@given(case=cases())
def test_what_the_generator_reads_is_the_oracles_up_to_rounding(make: Make, case: Case) -> None:
    model = case.model()
    one, other = ModuleEngine(model), make(model, "float32")
    source = case.source()
    state, same, alone = one.start(source), other.start(source), other.start(source)
    for _ in range(case.steps):
        tokens = torch.randint(0, case.config.target_vocab or 9, (len(source),))
        expected, outputs, state = one.step_with_outputs(state, tokens)
        log_probs, found, same = other.step_with_outputs(same, tokens)
        close(found, outputs, case)
        close(log_probs, expected, case)
        without, alone = other.step(alone, tokens)
        assert torch.equal(without, log_probs), "whether outputs are wanted or not"
    torch.testing.assert_close(one.model.generator(outputs).log_softmax(-1), expected, rtol=1e-5, atol=1e-5)


def bytes_product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, narrow: bool) -> torch.Tensor:
    """What `linear` is in int8: weights of 8 bits, or of 7 where activations have 7 and a zero of their own."""
    most = 63.0 if narrow else 127.0
    largest = weight.abs().amax(-1, keepdim=True)
    of_weight = largest / most
    weights = (weight * torch.where(largest > 1e-30, most / largest, 0.0)).round()
    down, up = (-x).amax(-1, keepdim=True).clamp(min=0.0), x.amax(-1, keepdim=True).clamp(min=0.0)
    extent = down + up if narrow else torch.maximum(down, up)
    factor = torch.where(extent > 1e-30, 127.0 / extent, 0.0)
    zero = (down * factor).round() if narrow else torch.zeros_like(down)
    activations = (x * factor).round() + zero
    assert 0 <= float(activations.min()) <= float(activations.max()) <= 128 or not narrow
    exact = (activations - zero).double() @ weights.double().T
    product = exact.float() * (of_weight.squeeze(-1) * (extent / 127.0))
    return product if bias is None else product + bias


class InBytes(ModuleEngine):
    """The oracle of int8: the modules, with every product made of bytes."""

    def __init__(self, model: Transformer | CausalLM, narrow: bool) -> None:
        super().__init__(model)
        self.product = functools.partial(bytes_product, narrow=narrow)

    def start(self, sources: SourceBatch) -> Any:
        with mock.patch("torch.nn.functional.linear", self._linear):
            return super().start(sources)

    def step(self, state: Any, tokens: torch.Tensor) -> Any:
        with mock.patch("torch.nn.functional.linear", self._linear):
            return super().step(state, tokens)

    def _linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return self.product(x, weight, bias)


def in_bytes(make: Make, case: Case) -> list[list[torch.Tensor]]:
    """A walk of the oracle and one of an engine in int8."""
    model = case.model()
    engine = make(model, "int8")
    narrow = isinstance(engine, NativeEngine) and engine.native.library.kernels[engine.native.kernels].name in NARROW
    return walk([InBytes(model, narrow), engine], case)


@pytest.mark.parametrize("make", ENGINES)
@settings(max_examples=30)
@given(case=cases())
def test_int8_is_the_same_arithmetic_in_every_engine(make: Make, case: Case) -> None:
    expected, found = in_bytes(make, case)
    for one, other in zip(expected, found, strict=True):
        away = (one - other).abs()
        assert away.median() <= 0.03
        assert away.max() <= 2.0


@pytest.mark.parametrize("make", ENGINES)
def test_int8_is_that_arithmetic_to_the_last_byte(make: Make) -> None:
    rows = []
    for seed in range(4):
        expected, found = in_bytes(make, dataclasses.replace(base_case(), seed=seed))
        rows += [(one - two).abs().amax(-1) for one, two in zip(expected, found, strict=True)]
    # Rounding in float32 seldom moves an activation across the border between two bytes; weights of another width do
    # so everywhere.
    assert (torch.cat(rows) < 1e-3).float().mean() > 0.9


def test_bytes_are_summed_exactly_where_pytorch_adds_two_in_sixteen_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.stack([(a[:, i : i + 1].int() @ b[i : i + 1].int()).clamp(max=9999) for i in range(len(b))]).sum(0)

    def walked() -> list[torch.Tensor]:
        multiplies_bytes.cache_clear()
        return walk([PackedEngine(case.model(), "int8")], case)[0]

    case = base_case()
    exact = walked()
    monkeypatch.setattr(torch, "_int_mm", saturating, raising=False)
    found = walked()
    assert not multiplies_bytes()
    monkeypatch.undo()
    multiplies_bytes.cache_clear()
    for one, other in zip(exact, found, strict=True):
        assert (one - other).abs().max() < 1e-6


@pytest.mark.parametrize(
    "kernels", [[name for name in KERNELS if (name in NARROW) == narrow] for narrow in (True, False)]
)
@settings(max_examples=30)
@given(case=cases())
def test_kernels_of_the_same_bytes_give_the_same_sums(kernels: list[str], case: Case) -> None:
    if len(kernels) < 2:
        pytest.skip("one set of kernels has no other to be compared with")
    model = case.model()
    first, *others = walk([NativeEngine(model, "int8", name) for name in kernels], case)
    for other in others:
        for one, two in zip(first, other, strict=True):
            assert (one - two).abs().median() <= 0.02


def base_case(**changes: object) -> Case:
    sizes = {
        "source_vocab": 61, "target_vocab": 61, "d_model": 40, "num_heads": 4, "d_ff": 72, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "tie_embeddings": "all",
    }  # fmt: skip
    return Case(ModelConfig.from_dict({**sizes, **changes}), (7, 3, 12, 1, 9), 6, 3)


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize(
    "options", [{"beam_size": 1}, {"beam_size": 4, "n_best": 3}, {"beam_size": 3, "min_length": 4}]
)
def test_searches_find_the_same_outputs(make: Make, options: dict[str, int]) -> None:
    case = base_case()
    model = case.model()
    search = greedy_search if options["beam_size"] == 1 else beam_search
    asked = DecodingConfig.from_dict({"max_length": 15, "no_repeat_ngram": 3, **options})
    requests = [SearchRequest(source, asked) for source in case.sources()]
    expected, found = search(ModuleEngine(model), requests), search(make(model, "float32"), requests)
    for one, other in zip(expected, found, strict=True):
        assert [h.tokens for h in other] == [h.tokens for h in one]
        assert [h.score for h in other] == pytest.approx([h.score for h in one], abs=1e-4)


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("positions", ["interleaved", "alibi"])
def test_steps_agree_with_one_pass_over_long_outputs(make: Make, positions: str) -> None:
    """200 positions: caches grow many times, positions go beyond the first table."""
    case = Case(base_case(positions=positions).config, (200, 64), 0, 1)
    model, source = case.model(), case.framed()
    engine = make(model, "float32")
    targets = [torch.randint(4, 61, (length,)).tolist() for length in (199, 130)]
    serial = score_serial(engine, source, targets)
    parallel = score_serial(ModuleEngine(model), source, targets)
    for one, other in zip(serial, parallel, strict=True):
        assert one == pytest.approx(other, abs=2e-3)


@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16"])
@needs_library
def test_native_rows_do_not_know_their_batch_mates(precision: str) -> None:
    if precision == "bfloat16" and not (isinstance(LIBRARY, str) or LIBRARY.kernels[-1].bfloat16):
        pytest.skip("this processor does not multiply bfloat16")
    case = base_case()
    engine = NativeEngine(case.model(), precision)
    source = case.framed()
    tokens = torch.randint(4, 61, (4, len(source)))

    def steps(rows: list[int]) -> list[torch.Tensor]:
        state, found = engine.start(source.take(rows)), []
        for step in tokens:
            log_probs, state = engine.step(state, step[rows])
            found.append(log_probs)
        return found

    together = steps([0, 1, 2, 3, 4])
    for row in range(5):
        for one, all_ in zip(steps([row]), together, strict=True):
            assert torch.equal(one[0], all_[row])


@pytest.mark.parametrize("kernels", KERNELS or [pytest.param("plain", marks=needs_library)])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_native_threads_change_no_bit(kernels: str, precision: str) -> None:
    """In shared stages and with rows of their own, where threads are at different stages; each way several times."""
    case = Case(base_case(d_model=256, num_heads=8, d_ff=512).config, tuple(range(3, 60)), 3, 2)
    engine, source = NativeEngine(case.model(), precision, kernels), case.source()
    tokens = torch.randint(4, 61, (3, len(source)))

    def steps(threads: int, rows: int) -> list[torch.Tensor]:
        torch.set_num_threads(threads)
        try:
            state, found = engine.start(source.take(range(rows))), []
            for step in tokens:
                log_probs, state = engine.step(state, step[:rows])
                found.append(log_probs)
        finally:
            torch.set_num_threads(1)
        return found

    for rows in (4, len(source)):
        alone = steps(1, rows)
        for threads in (2, 3, 2, 2):
            for one, other in zip(alone, steps(threads, rows), strict=True):
                assert torch.equal(one, other)


@needs_library
def test_states_may_be_stepped_at_the_same_time() -> None:
    """Two searches in two Python threads: who finds the threads at work goes on alone."""
    case = Case(base_case(d_model=256, num_heads=8, d_ff=512).config, tuple(range(3, 40)), 3, 2)
    engine, source = NativeEngine(case.model(), "int8"), case.source()
    tokens = torch.randint(4, 61, (6, len(source)))

    def steps() -> torch.Tensor:
        state, found = engine.start(source), []
        for step in tokens:
            log_probs, state = engine.step(state, step)
            found.append(log_probs)
        return torch.stack(found)

    expected = steps()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(3) as pool:
            found = [job.result() for job in [pool.submit(steps) for _ in range(6)]]
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(one, expected) for one in found)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@needs_library
def test_the_best_are_those_of_all_log_probabilities(precision: str) -> None:
    case = base_case(generator_bias=True)
    model = case.model()
    with torch.no_grad():
        model.generator.bias[20:40] = 9.0  # ties: the first ones win
        model.generator.weight[20:40] = model.generator.weight[20]
    engine, source, banned = NativeEngine(model, precision), case.framed(), torch.tensor([0, 2, 21])
    tokens = torch.full((len(source),), 2)
    every, _ = engine.step(engine.start(source), tokens)
    every = every.index_fill(1, banned, float("-inf"))
    for count in (1, 2, 8, 61, 200):
        values, best, _ = engine.step_top(engine.start(source), tokens, count, banned)
        expected = every.sort(dim=1, descending=True, stable=True)
        assert torch.equal(values, expected.values[:, :count])
        finite = values > float("-inf")
        assert torch.equal(best[finite], expected.indices[:, :count][finite])


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["bias", "weight"])
def test_nan_stays_nan(make: Make, precision: str, name: str) -> None:
    """A damaged model is noticed, not translated with."""
    case = base_case()
    model = case.model()
    with torch.no_grad():
        getattr(model.decoder.layers[0].feed_forward.inner, name).view(-1)[3] = float("nan")
    engine, source = make(model, precision), case.framed()
    tokens = torch.full((len(source),), 2)
    log_probs, _ = engine.step(engine.start(source), tokens)
    assert log_probs.isnan().all()
    if isinstance(engine, NativeEngine):
        values, _, _ = engine.step_top(engine.start(source), tokens, 3, torch.tensor([0]))
        assert values.isnan().all()


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_source_of_nothing_but_padding_is_a_source(make: Make, precision: str) -> None:
    case = base_case()
    model, ids = case.model(), case.framed().ids
    ids[1] = SPECIALS.pad
    source = SourceBatch.of_padded(ids, SPECIALS.pad)
    tokens = torch.full((len(source),), 5)
    engine = make(model, precision)
    first, _ = engine.step(engine.start(source), tokens)
    expected, _ = ModuleEngine(model).step(ModuleEngine(model).start(source), tokens)
    assert first.isfinite().all()
    torch.testing.assert_close(first, expected, rtol=0, atol=1e-4 if precision == "float32" else 1.0)


@pytest.mark.parametrize("make", [ModuleEngine, PackedEngine])
def test_the_mask_alone_says_what_is_padding(make: Callable[[Transformer | CausalLM], ModuleEngine]) -> None:
    """Whatever fills rows up, step by step and in one pass."""
    case = base_case()
    engine, usual = make(case.model()), case.framed()
    filled = SourceBatch(usual.ids.masked_fill(~usual.mask, 60), usual.mask)
    target = torch.randint(4, 61, (len(usual), 5))
    for score in (engine.token_log_probabilities, functools.partial(serial_log_probabilities, engine)):
        torch.testing.assert_close(score(filled, target), score(usual, target), rtol=0, atol=1e-5)


@needs_library
def test_ids_out_of_the_vocabulary_are_errors() -> None:
    case = base_case()
    engine, source = NativeEngine(case.model()), case.framed()
    with pytest.raises(IndexError):
        engine.start(SourceBatch(source.ids + 60, source.mask))
    with pytest.raises(IndexError):
        engine.step(engine.start(source), torch.tensor([1, 2, -1, 4, 5]))
    with pytest.raises(ValueError, match="5 rows needs as many tokens, got 2"):
        engine.step(engine.start(source), torch.tensor([1, 2]))


@pytest.mark.parametrize("make", ENGINES)
def test_int8_scores_are_those_of_its_own_steps(make: Make) -> None:
    case = base_case()
    engine, source = make(case.model(), "int8"), case.framed()
    target = torch.randint(4, 61, (len(source), 5))
    scores = engine.token_log_probabilities(source, target)
    serial = score_serial(engine, source, target[:, 1:-1].tolist())
    assert scores.shape == (5, 4)
    first = [engine.step(engine.start(source), target[:, 0])[0].gather(1, target[:, 1, None])]
    torch.testing.assert_close(scores[:, :1], first[0])
    assert len(serial) == 5
