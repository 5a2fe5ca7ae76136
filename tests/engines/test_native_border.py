"""Whatever crosses the border to the compiled library is checked there or before: an error, never a crash."""

from __future__ import annotations

import ctypes
import math
import os
import re
import resource
from ctypes import byref, c_int32, c_void_p
from pathlib import Path
from typing import Any

import pytest
import torch

import forked
from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine, NativeEngine, PackedEngine, choose_engine
from dragoman.engines.native import build, library, load_library, sentences
from dragoman.engines.native.library import BAD_ARGUMENT, NO_SUCH_TOKEN, Library
from dragoman.engines.native.model import NativeModel
from dragoman.engines.native.running import NativeSearch
from dragoman.engines.native.searching import NativeSearcher
from dragoman.errors import ConfigError
from dragoman.fast import kernels
from dragoman.search import Hypothesis, SearchRequest, greedy_search
from dragoman.sequences import SourceBatch, sources_of
from dragoman.text.tokenizer import BOS, EOS, PAD
from engines.native_models import VOCAB, small_engine, small_model

FOUND = load_library()
pytestmark = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))
SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 4, EOS, PAD]])
TOKENS = torch.tensor([BOS, BOS, BOS])


def batch(ids: torch.Tensor) -> SourceBatch:
    return SourceBatch.of_padded(ids, PAD)


def searched(
    native: NativeModel, rows: list[list[int]], options: DecodingConfig, threads: int
) -> list[list[Hypothesis]]:
    return NativeSearcher(native).search([SearchRequest(source, options) for source in sources_of(rows)], threads)


@pytest.mark.parametrize("indices", [[0, 3], [-1], [0, 10**12], [2**31]])
def test_rows_that_are_not_there_cannot_be_kept(indices: list[int]) -> None:
    engine = small_engine()
    state = engine.start(batch(SOURCE))
    expected, _ = engine.step(engine.start(batch(SOURCE)), TOKENS)
    with pytest.raises(ValueError, match="an index is not one of a row"):
        state.reorder(torch.tensor(indices))
    assert torch.equal(engine.step(state, TOKENS)[0], expected), "the state is as it was"


@pytest.mark.parametrize("banned", [[VOCAB], [-1], [0, 10**12]])
def test_tokens_that_are_not_there_cannot_be_banned(banned: list[int]) -> None:
    engine = small_engine()
    with pytest.raises(IndexError, match="not in the vocabulary"):
        engine.step_top(engine.start(batch(SOURCE)), TOKENS, 2, torch.tensor(banned))
    for count in (0, -1):
        with pytest.raises(ValueError, match="so many tokens"):
            engine.step_top(engine.start(batch(SOURCE)), TOKENS, count, torch.tensor([0]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8])
def test_ids_of_any_width_are_the_same_ids(dtype: torch.dtype) -> None:
    engine = small_engine()
    expected, _ = engine.step(engine.start(batch(SOURCE)).reorder(torch.tensor([2, 0])), TOKENS[:2])
    state = engine.start(batch(SOURCE.to(dtype))).reorder(torch.tensor([2, 0], dtype=dtype))
    assert torch.equal(engine.step(state, TOKENS[:2].to(dtype))[0], expected)
    every = engine.step_top(engine.start(batch(SOURCE)), TOKENS, 3, torch.tensor([0, 9]))
    again = engine.step_top(engine.start(batch(SOURCE)), TOKENS.to(dtype), 3, torch.tensor([0, 9], dtype=dtype))
    assert all(torch.equal(one, other) for one, other in zip(every[:2], again[:2], strict=True))


def test_ids_with_gaps_between_them_are_the_same_ids() -> None:
    engine = small_engine()
    expected, _ = engine.step(engine.start(batch(SOURCE)), torch.tensor([4, 5, 6]))
    wide = torch.tensor([[4, 99], [5, 99], [6, 99]])
    found, _ = engine.step(engine.start(batch(SOURCE.T.contiguous().T)), wide[:, 0])
    assert torch.equal(found, expected)


def test_numbers_that_are_no_ids_are_refused() -> None:
    engine = small_engine()
    state = engine.start(batch(SOURCE))
    for give in (
        lambda: engine.start(batch(SOURCE.float())),
        lambda: engine.step(state, TOKENS.float()),
        lambda: engine.step(state, TOKENS.bool()),
        lambda: engine.step_top(state, TOKENS, 2, torch.tensor([0.5])),
        lambda: state.reorder(torch.tensor([0.0])),
    ):
        # Where every call's types are checked, as in these tests, that check comes first.
        with pytest.raises(Exception, match=r"whole numbers|[Tt]ype"):
            give()


def test_padding_stands_at_the_end() -> None:
    engine = small_engine()
    with pytest.raises(ValueError, match="padding at their end"):
        engine.start(batch(torch.tensor([[5, PAD, 6, EOS]])))


NAMES = (
    "reorder",
    "join",
    "step",
    "step_top",
    "start",
    "search",
    "open",
    "admit",
    "advance",
    "take",
    "cancel",
    "model",
)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_instead_of_something_is_refused(name: str) -> None:
    assert isinstance(FOUND, Library)
    _, types = library.FUNCTIONS[name]
    nothing = [None if one is c_void_p else 1 for one in types]
    assert getattr(FOUND, name)(*nothing) == BAD_ARGUMENT
    assert FOUND.message()
    made = {"start": small_engine().native.handle, "open": small_engine().native.handle}
    if name in made:  # with a model, and no place for what is made
        assert getattr(FOUND, name)(made[name], *nothing[1:]) == BAD_ARGUMENT


def test_freeing_nothing_is_nothing() -> None:
    assert isinstance(FOUND, Library)
    for free in (FOUND.free_model, FOUND.free_state, FOUND.free_found, FOUND.close):
        free(None)
    assert FOUND.model_bytes(None) == 0


def test_what_is_declared_is_what_is_called() -> None:
    header = (build.SOURCES / "api.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"DRAGOMAN_EXPORT [\w* ]+?dragoman_(\w+)\(", header))
    assert declared == {*library.FUNCTIONS, "abi", "size_of"}
    header = (build.SOURCES / "training_api.h").read_text(encoding="utf-8")
    assert set(re.findall(r"dragoman_(\w+)\(const void\* training", header)) == set(kernels.FUNCTIONS)


def test_sentences_and_rows_that_cannot_be_are_refused() -> None:
    engine = small_engine()
    library = engine.native.library
    ids, lengths = torch.tensor([5, EOS]), torch.tensor([2], dtype=torch.int32)
    handle = c_void_p()
    arguments = (engine.native.handle, ids.data_ptr(), None, lengths.data_ptr(), 1)
    lengths[0] = -1
    assert library.start(*arguments, 1, byref(handle)) == BAD_ARGUMENT
    state, place = engine.start(batch(SOURCE)), torch.empty(3, VOCAB)
    step = (state.handle, TOKENS.data_ptr(), 3)
    assert library.step(*step, place.data_ptr(), None, 0) == BAD_ARGUMENT
    assert library.step(step[0], step[1], 2, place.data_ptr(), None, 1) == BAD_ARGUMENT


def wanted(options: DecodingConfig | None = None) -> sentences.Wanted:
    return sentences.Wanted([[5, 6, EOS]], options or DecodingConfig(), [9], [[7]], BOS, EOS, (PAD, BOS))


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("beam_size", 0, BAD_ARGUMENT), ("beam_size", 2**31 - 1, BAD_ARGUMENT), ("n_best", 0, BAD_ARGUMENT),
        ("formula", 3, BAD_ARGUMENT), ("formula", -1, BAD_ARGUMENT), ("alpha", math.nan, BAD_ARGUMENT),
        ("alpha", math.inf, BAD_ARGUMENT), ("min_length", -1, BAD_ARGUMENT), ("max_length", -1, BAD_ARGUMENT),
        ("max_length", 2**31 - 1, BAD_ARGUMENT), ("no_repeat_ngram", -1, BAD_ARGUMENT),
        ("source_length", -1, BAD_ARGUMENT), ("prefix_length", -1, BAD_ARGUMENT), ("never_count", -1, BAD_ARGUMENT),
        ("source", None, BAD_ARGUMENT), ("prefix", None, BAD_ARGUMENT), ("never", None, BAD_ARGUMENT),
        ("begin", VOCAB, NO_SUCH_TOKEN), ("end", -1, NO_SUCH_TOKEN), ("ctc_weight", math.nan, BAD_ARGUMENT),
        ("ctc_weight", 0.3, BAD_ARGUMENT),
    ],
)  # fmt: skip
def test_a_sentence_that_asks_for_what_cannot_be_is_refused(field: str, value: Any, code: int) -> None:
    engine = small_engine()
    native = engine.native.library
    specs, _kept = wanted().specs()
    setattr(specs[0], field, value)
    found = ctypes.POINTER(library.FoundSpec)()
    assert native.search(engine.native.handle, specs, 1, 1, byref(found)) == code
    assert not found
    running, first = NativeSearch(engine.native, 1), ctypes.c_int64()
    assert native.admit(running._handle, specs, 1, byref(first)) == code
    assert running.step() == 0, "none of it was admitted"


def test_a_search_takes_no_fewer_than_no_steps_threads_or_sentences() -> None:
    engine = small_engine()
    library, live = engine.native.library, c_int32()
    handle = c_void_p()
    assert library.open(engine.native.handle, 0, byref(handle)) == BAD_ARGUMENT
    running = NativeSearch(engine.native, 1)
    assert library.advance(running._handle, -1, 0, byref(live)) == BAD_ARGUMENT
    assert library.admit(running._handle, None, -1, byref(ctypes.c_int64())) == BAD_ARGUMENT
    with pytest.raises(ValueError, match="zip"):
        running.admit([[5, EOS]], DecodingConfig(), [9, 9], begin=BOS, end=EOS, never=())


HUGE = (2**31 - 1, 2**31, 2**32 + 5, 2**62)
MOST = 2**20


@pytest.mark.parametrize(
    "options",
    [
        {"max_length": MOST},
        {"max_length_offset": MOST},
        {"no_repeat_ngram": MOST},
    ],
)
def test_the_largest_settings_mean_what_they_say(options: dict[str, int]) -> None:
    model = small_model(3, generator_bias=True)
    with torch.no_grad():
        model.generator.bias[EOS] = 50.0  # outputs end as soon as they may
    engine = NativeEngine(model)
    chosen = DecodingConfig.from_dict({"beam_size": 1, "min_length": 6, **options})
    sources = [[5, 6, 7], [8], [9, 4]]
    found = searched(engine.native, sources, chosen, 1)
    asked = [SearchRequest(source, chosen) for source in sources_of(sources)]
    expected = greedy_search(ModuleEngine(engine.model), asked)
    assert [one.tokens for [one] in found] == [one.tokens for [one] in expected]
    assert all(len(one.tokens) == 6 for [one] in found)


@pytest.mark.parametrize("size", HUGE)
def test_limits_beyond_32_bits_mean_what_they_say_and_settings_are_refused(size: int) -> None:
    model = small_model(3, generator_bias=True)
    with torch.no_grad():
        model.generator.bias[EOS] = 50.0
    options = DecodingConfig(beam_size=1, min_length=6, loop_guard=0)
    asked = [SearchRequest(source, options, limit=size) for source in sources_of([[5, 6, 7], [8]])]
    found = NativeSearcher(NativeEngine(model).native).search(asked, 1)
    assert [len(one.tokens) for [one] in found] == [6, 6]
    for name in ("max_length", "max_length_offset", "no_repeat_ngram"):
        with pytest.raises(ConfigError, match=name):
            DecodingConfig.from_dict({name: size})


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ABI", library.ABI + 1)
    reason = load_library.__wrapped__()
    assert isinstance(reason, str)
    assert "version" in reason
    assert kernels.load_kernels.__wrapped__() is None


def test_a_library_with_other_structures_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Grown(ctypes.Structure):
        _fields_ = (("one", c_int32),)

    monkeypatch.setitem(library.STRUCTURES, "DragomanModel", Grown)
    reason = load_library.__wrapped__()
    assert "its DragomanModel has" in str(reason)
    assert "not 4" in str(reason)
    from dragoman.engines.native import engine as native_engine

    monkeypatch.setattr(native_engine, "load_library", lambda: reason)
    engine, why = choose_engine(small_model())
    assert isinstance(engine, PackedEngine)
    assert "DragomanModel" in why
    monkeypatch.undo()
    monkeypatch.setitem(kernels.STRUCTURES, "Drop", Grown)
    assert kernels.load_kernels.__wrapped__() is None


@pytest.mark.skipif(build.find_compiler() is None, reason="no C++ compiler")
def test_a_library_that_does_not_say_its_version_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpp").mkdir()
    (tmp_path / "cpp" / "old.cpp").write_text('extern "C" int dragoman_kernels(void) { return 1; }', encoding="utf-8")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "cpp")
    old = build.build(target=tmp_path / "old.so")
    monkeypatch.setattr(build, "library_path", lambda: old)
    assert "does not load: it is of an older version" in str(load_library.__wrapped__())


def without_threads() -> None:
    """Let this process start none, whoever runs it: the superuser may start any number."""
    if os.getuid() == 0:
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def test_without_threads_to_be_had_one_does_it() -> None:
    """In a container that allows no more processes the search is slower, no less."""
    engine = small_engine()
    sources = [[4 + (row + place) % 19 for place in range(1 + row % 7)] for row in range(40)]
    options = DecodingConfig(max_length_offset=5)
    expected = searched(engine.native, sources, options, 1)

    def work() -> None:
        without_threads()
        assert searched(engine.native, sources, options, 4) == expected
        with pytest.raises(RuntimeError, match="can't start new thread"):
            __import__("_thread").start_new_thread(print, ())

    assert forked.run(work) == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of this process is not told")
def test_too_little_memory_is_an_error_and_the_state_is_as_it_was() -> None:
    engine, many = small_engine(), 2_000_000  # so many that freed memory of this process will not do
    state = engine.start(batch(SOURCE[:1])).reorder(torch.zeros(many, dtype=torch.long))
    tokens = torch.full((many,), BOS)
    expected, _ = engine.step(engine.start(batch(SOURCE)), TOKENS)

    def work() -> None:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        limit = pages * resource.getpagesize() + (100 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with pytest.raises(MemoryError, match="the native engine found no memory"):
            engine.step_top(state, tokens, 1, torch.tensor([PAD]))
        assert torch.equal(engine.step(engine.start(batch(SOURCE)), TOKENS)[0], expected)
        few = state.reorder(torch.tensor([0, many - 1]))
        assert torch.equal(engine.step(few, TOKENS[:2])[0], expected[[0, 0]])

    assert forked.run(work) == 0


def test_training_without_threads_to_be_had_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_parallel", lambda: None)
    made, h = kernels.Kernels(build.library_path()), torch.randn(64, 32)
    expected = torch.relu(h + 1)

    def work() -> None:
        without_threads()
        torch.set_num_threads(4)
        made.call("relu", h, torch.ones(32), byref(kernels.draw_drop(0.0)), 64, 32)
        assert torch.equal(h, expected)

    assert forked.run(work) == 0
