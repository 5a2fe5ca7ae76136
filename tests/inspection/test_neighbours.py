"""What `explain` tells of a datastore: the numbers of the search, and targets that are known."""

from __future__ import annotations

import json

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.inspection import Trace, explain
from dragoman.inspection import neighbours as module
from dragoman.memory import KnnModel, make_datastore
from dragoman.nn import Transformer
from dragoman.sequences import Source, SourceBatch
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator
from end_to_end import small

TEXTS = small.sentences(12, longest=6)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    where, tokenizers = tmp_path_factory.mktemp("neighbours") / "model", small.word_pair()
    model = small.model(small.shape(tokenizers))
    assert isinstance(model, Transformer)
    small.save(where, model.float(), small.shape(tokenizers), tokenizers, DecodingConfig(max_length=12))
    rows = [tokenizers.source.encode(text) for text in TEXTS]
    make_datastore(model, [(row, row[::-1]) for row in rows], where).save(where)
    return Translator.from_pretrained(where, engine="module")


def traced(translator: Translator, changes: dict[str, float], beam_size: int = 1) -> Trace:
    before = translator.decoding
    translator.decoding = translator.options(changes)
    try:
        return explain(translator, TEXTS[3], beam_size=beam_size)
    finally:
        translator.decoding = before


@pytest.mark.parametrize(("changes", "beam_size"), [({}, 1), ({}, 4), ({"knn_weight": 0.35, "knn_neighbours": 5}, 1)])
def test_each_step_has_the_numbers_of_the_search(
    translator: Translator, changes: dict[str, float], beam_size: int
) -> None:
    trace = traced(translator, changes, beam_size)
    knn = translator.backend.torch.next_token_model(translator.options(changes))
    assert isinstance(knn, KnnModel)
    assert trace.source is not None
    source = SourceBatch.of([Source(trace.source.ids, end=())])
    state, alone = knn.start(source), translator.transformers[0].start(source.ids)
    token = BOS
    for step in trace.steps:
        log_probs, state = knn.step(state, torch.tensor([token]))
        with torch.no_grad():
            outputs = translator.transformers[0].hidden_step(alone, torch.tensor([token]))
        near = knn.neighbours(outputs)
        assert step.retrieval is not None
        token = step.chosen.id
        assert step.retrieval.together == pytest.approx(float(log_probs[0, token].exp()), abs=1e-5)
        assert step.retrieval.weight == pytest.approx(float(near.log_odds.sigmoid()), abs=1e-5)
        for neighbour in step.retrieval.neighbours:
            assert neighbour.share == pytest.approx(float(near.shares[near.tokens == neighbour.id].sum()), abs=1e-5)
        if changes:
            assert step.retrieval.weight == pytest.approx(0.35)
    assert token == EOS or len(trace.steps) == 13


def test_voices_are_the_loudest_and_their_targets_are_known(translator: Translator) -> None:
    known = {" ".join(text.split()[::-1]) for text in TEXTS}
    for step in traced(translator, {}).steps:
        assert step.retrieval is not None
        neighbours = step.retrieval.neighbours
        assert 1 <= len(neighbours) <= 3
        assert [neighbour.share for neighbour in neighbours] == sorted(
            (neighbour.share for neighbour in neighbours), reverse=True
        )
        assert sum(neighbour.share for neighbour in neighbours) <= 1 + 1e-6
        for neighbour in neighbours:
            assert neighbour.target in known
            assert neighbour.id == EOS or neighbour.piece.lstrip("▁") in neighbour.target.split()


def test_of_many_quiet_voices_the_loudest_is_heard(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST", 1.1)
    trace = traced(translator, {})
    assert [len(step.retrieval.neighbours) for step in trace.steps if step.retrieval] == [1] * len(trace.steps)
    assert sum(line.lstrip().startswith("step ") for line in trace.select("steps").lines()) == 2 * len(trace.steps)


def test_without_weight_nothing_is_recalled(translator: Translator) -> None:
    trace = traced(translator, {"knn_weight": 0.0})
    assert {step.retrieval for step in trace.steps} == {None}
    assert trace.notes == ()
    assert not any("datastore" in line for line in trace.lines())


def test_a_datastore_that_was_fitted_to_nothing_says_nothing(translator: Translator) -> None:
    store = translator.backend.torch.datastores[0]
    assert store is not None
    before, store.weight = store.weight, torch.zeros(1)
    try:
        assert {step.retrieval for step in traced(translator, {}).steps} == {None}
    finally:
        store.weight = before


def test_people_and_programs_read_it(translator: Translator) -> None:
    trace = traced(translator, {}).select("steps")
    steps = json.loads("".join(trace.json()))["steps"]
    first = trace.steps[0].retrieval
    assert first is not None
    assert steps[0]["retrieval"]["weight"] == pytest.approx(first.weight)
    assert steps[0]["retrieval"]["neighbours"][0]["target"] == first.neighbours[0].target
    lines = list(trace.lines())
    [heading] = [row for row, line in enumerate(lines) if line.split()[:3] == ["by", "both", "weight"]]
    told = lines[heading + 1]
    assert told.split()[:2] == ["step", "1"]
    assert f"{first.together:.4f}" in told
    assert f"{first.weight:.2f}" in told
    assert first.neighbours[0].target in told
