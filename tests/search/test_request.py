"""What one request is held to, and requests with different options in one batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine, NativeEngine
from dragoman.engines.native import load_library
from dragoman.errors import ConfigError
from dragoman.nn import Transformer
from dragoman.search import Hypothesis, NextTokenModel, SearchRequest, search
from dragoman.search.dispatch import search_name
from dragoman.search.request import NEVER, changed, changed_options, output_limit
from dragoman.sequences import FRAME, Frame, Source, SourceBatch
from end_to_end import small
from oracle.search import HistoryModel, HistoryState

VOCAB = len(small.word_pair().source)
OPTIONS = [
    {"beam_size": 1},
    {"beam_size": 4, "n_best": 2, "length_penalty": 1.2},
    {"beam_size": 3, "no_repeat_ngram": 1, "min_length": 4},
    {"sampling": True, "top_k": 5},
]


def engine(name: str) -> NextTokenModel:
    if name == "history":
        return HistoryModel(VOCAB, 4, sharpness=1.0)
    model = small.model(small.shape(small.word_pair()))
    assert isinstance(model, Transformer)
    return ModuleEngine(model) if name == "module" else NativeEngine(model.float())


needs_library = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))
ENGINES = ["history", "module", pytest.param("native", marks=needs_library)]


def mixed() -> list[SearchRequest]:
    """Each of the options three times, taking turns; prefixes, a limit, other ends and forbidden tokens among them."""
    shared = [DecodingConfig.from_dict({"max_length_offset": 4, **options}) for options in OPTIONS]
    draw = torch.Generator().manual_seed(1)
    requests = []
    for row in range(12):
        ids = torch.randint(4, VOCAB, (1 + row % 5,), generator=draw).tolist()
        requests.append(SearchRequest(Source(tuple(ids)), shared[row % 4], (6, 7) if row % 3 == 0 else (), seed=row))
    requests[5] = replace(requests[5], limit=2)
    requests[8] = replace(requests[8], frame=Frame(FRAME.end, FRAME.begin), never=(0,))
    requests[9] = replace(requests[9], never=(*NEVER, 9, 10, 11))
    return requests


def assert_same(found: list[Hypothesis], expected: list[Hypothesis], within: float) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=within)


@pytest.mark.parametrize("name", ENGINES)
def test_a_request_finds_in_a_mixed_batch_what_it_finds_alone(name: str) -> None:
    model, requests = engine(name), mixed()
    together = search(model, requests)
    for request, found in zip(requests, together, strict=True):
        assert_same(found, search(model, [request])[0], 1e-9 if name == "module" else 0.0)
        assert len(found) == request.options.n_best
        for one in found:
            assert one.tokens[: len(request.prefix)] == request.prefix
            assert not {*request.never, request.frame.end} & {*one.tokens}
            assert len(one.tokens) <= request.max_length
    assert len({one.tokens for found in together for one in found}) > 8, "the test needs outputs that differ"
    backwards = search(model, requests[::-1])[::-1]
    for found, expected in zip(backwards, together, strict=True):
        assert_same(found, expected, 1e-9 if name == "module" else 0.0)


def test_requests_of_one_kind_of_search_are_one_batch_whatever_else_differs() -> None:
    class Counted(HistoryModel):
        batches: list[int]

        def start(self, sources: SourceBatch) -> HistoryState:
            self.batches.append(len(sources))
            return super().start(sources)

    model, requests = Counted(VOCAB), mixed()
    model.batches = []
    search(model, requests)
    kinds = [search_name(request.options) for request in requests if not request.options.sampling]
    assert sum(model.batches) >= len(requests)
    assert {kinds.count(kind) for kind in set(kinds)} <= set(model.batches)
    assert search(model, []) == []


def test_an_output_may_be_as_long_as_options_and_the_sources_own_tokens_say() -> None:
    options = DecodingConfig(max_length_factor=2.0, max_length_offset=3)
    alone, beside = Source((4, 5)), Source((4, 5), ((6, 7, 8), (9,)))
    assert [SearchRequest(source, options).max_length for source in (alone, beside, Source(()))] == [7, 7, 3]
    assert output_limit(options.replace({"max_length": 5}), 99) == 5
    assert SearchRequest(beside, options.replace({"max_length": 5})).max_length == 5
    assert SearchRequest(alone, options, limit=1).max_length == 1
    assert SearchRequest(alone, options.replace({"max_length": 5}), limit=9).max_length == 9
    prefix = tuple(range(4, 12))
    assert SearchRequest(alone, options, prefix).max_length == SearchRequest(alone, options, prefix, limit=1).max_length
    assert SearchRequest(alone, options, prefix).max_length == len(prefix)


@pytest.mark.parametrize("name", ENGINES)
def test_limits_are_each_requests_own(name: str) -> None:
    """No output may end before its limit; one batch holds sources with and without matches, and limits by hand."""
    options = DecodingConfig(beam_size=2, min_length=99, max_length_factor=2.0, max_length_offset=3)
    sources = [Source((4, 5, 6)), Source((4, 5, 6), ((7, 8),)), Source((9,)), Source((10, 11))]
    requests = [SearchRequest(source, options) for source in sources]
    requests[3] = replace(requests[3], limit=4)
    assert [len(found[0].tokens) for found in search(engine(name), requests)] == [9, 9, 5, 4]


def test_equal_options_are_changed_into_the_same_object() -> None:
    for one in mixed():
        other = DecodingConfig.from_dict(one.options.to_dict())
        assert changed(one.options, "length_penalty", 0.3) is changed(other, "length_penalty", 0.3)
        assert changed(one.options, "length_penalty", 0.3) == one.options.replace({"length_penalty": 0.3})
    with pytest.raises(ConfigError):
        changed(DecodingConfig(), "length_penalty", -1.0)


def test_options_are_changed_together() -> None:
    options = DecodingConfig(beam_size=3)
    assert changed_options(options, {"n_best": 5}).beam_size == 5
    assert changed_options(options, {"n_best": 2}).beam_size == 3
    with pytest.raises(ConfigError, match="n_best 3 is more than beam_size 2"):
        changed_options(options, {"n_best": 3, "beam_size": 2})
