"""Requests join and leave a running search between steps, and get exactly what they get alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine, NativeEngine, PackedEngine
from dragoman.engines.native import load_library
from dragoman.markov import FirstOrder, Skips
from dragoman.models import build_model
from dragoman.nn import CausalLM, Transformer
from dragoman.search import Ensemble, Hypothesis, NextTokenModel, SearchRequest, search
from dragoman.search.dispatch import open_search, sentences_of
from dragoman.search.sentence import Sentence
from dragoman.sequences import Source
from oracle.search import HistoryModel

VOCAB = 12


def transformer(seed: int = 1, **changes: object) -> Transformer | CausalLM:
    torch.manual_seed(seed)
    sizes = {"target_vocab": VOCAB, "d_model": 16, "num_heads": 2, "d_ff": 24, "num_decoder_layers": 2}
    if changes.get("family") != "causal":
        sizes |= {"source_vocab": VOCAB, "num_encoder_layers": 1}
    model = build_model(ModelConfig.from_dict({**sizes, **changes}))
    assert isinstance(model, (Transformer, CausalLM))
    with torch.no_grad():
        model.generator.weight.mul_(3)
    return model


def in_float64(**changes: object) -> ModuleEngine:
    return ModuleEngine(transformer(**changes).double())


MODELS: dict[str, Callable[[], NextTokenModel]] = {
    "a random table": lambda: HistoryModel(VOCAB, 3, sharpness=1.0),
    "modules": in_float64,
    "rotary": lambda: in_float64(positions="rotary-cross"),
    "relative": lambda: in_float64(positions="relative"),
    "causal": lambda: in_float64(family="causal"),
    "packed": lambda: PackedEngine(transformer()),
    "native": lambda: NativeEngine(transformer()),
    "native, rotary, int8": lambda: NativeEngine(transformer(positions="rotary"), "int8"),
    "ensemble": lambda: Ensemble([in_float64(seed=1), in_float64(seed=2)]),
    "Markov": lambda: FirstOrder.fit([[4, 5, 6, 7], [4, 6, 5, 5]], VOCAB, k=0.1),
    "skips": lambda: Skips.fit([[4, 5, 6, 7], [4, 6, 5, 5], [5, 5, 8, 9]], VOCAB, k=0.1),
}


def random_request(draw: random.Random) -> SearchRequest:
    beam_size, min_length = draw.randint(1, 4), draw.randint(0, 3)
    options = {
        "beam_size": beam_size,
        "n_best": draw.randint(1, beam_size),
        "length_penalty": draw.choice([0.0, 0.6, 1.4]),
        "length_penalty_formula": draw.choice(["gnmt", "power", "reward"]),
        "min_length": min_length,
        "max_length": draw.choice([min_length + 1, min_length + 4, 9]),
        "no_repeat_ngram": draw.choice([0, 0, 2]),
        "end_at_limit": draw.choice(["charged", "free", "none"]),
        "beam_early_stopping": draw.random() < 0.5,
        "sampling": draw.random() < 0.25,
        "top_k": draw.choice([0, 3]),
        "temperature": draw.choice([1.0, 0.7]),
    }
    source = Source(tuple(draw.choices(range(4, VOCAB), k=draw.randint(1, 6))))
    prefix = tuple(draw.choices(range(4, VOCAB), k=draw.choice([0, 0, 0, 2])))
    return SearchRequest(source, DecodingConfig.from_dict(options), prefix, seed=draw.randint(0, 99))


@dataclass
class Asked:
    """A request with what it is searched as, which may be cancelled at a step of its own."""

    request: SearchRequest
    sentences: list[Sentence]
    cancelled: int | None = None

    def found(self) -> list[Hypothesis]:
        hypotheses = [one for sentence in self.sentences for one in sentence.found or []]
        return sorted(hypotheses, key=lambda one: -one.score) if len(self.sentences) > 1 else hypotheses


def scheduled(model: NextTokenModel, draw: random.Random) -> list[Asked]:
    """Some requests that join, and some that leave, at random steps."""
    running, waiting, seen = open_search(model), [random_request(draw) for _ in range(draw.randint(2, 6))], []
    while waiting or running.sentences:
        joining = draw.randint(0, 2) if running.sentences else 1
        for request in waiting[:joining]:
            one = Asked(request, sentences_of(request))
            running.admit(one.sentences)
            seen.append(one)
        waiting = waiting[joining:]
        gone = [one for one in seen if draw.random() < 0.03 and any(s.found is None for s in one.sentences)]
        for one in gone:
            running.cancel(one.sentences)
            one.cancelled = one.sentences[0].step
        seen = [one for one in seen if one.cancelled is None]
        if running.sentences:
            running.step()
    return seen


@pytest.mark.parametrize(("name", "schedules"), [(name, 300 if name == "a random table" else 12) for name in MODELS])
def test_a_request_that_joins_gets_what_it_gets_alone(name: str, schedules: int) -> None:
    if "native" in name and isinstance(load_library(), str):
        pytest.skip(str(load_library()))
    model, compared = MODELS[name](), 0
    # The native engine's rows do not depend on each other, bit by bit.
    tolerance = 1e-5 if name == "packed" else 0.0 if "native" in name else 1e-10
    for seed in range(schedules):
        for one in scheduled(model, random.Random(seed)):
            [alone] = search(model, [one.request])
            found = one.found()
            assert [each.tokens for each in found] == [each.tokens for each in alone]
            for each, its in zip(found, alone, strict=True):
                assert each.token_log_probabilities == pytest.approx(its.token_log_probabilities, abs=tolerance)
            compared += 1
    assert compared > 2 * schedules


def test_who_left_costs_nothing() -> None:
    class Counting(HistoryModel):
        rows = 0

        def step(self, state, tokens):
            self.rows += len(tokens)
            return super().step(state, tokens)

    model = Counting(VOCAB, 5)
    options = DecodingConfig(beam_size=1, min_length=8, max_length=8)
    running = open_search(model)
    stays, leaves = (sentences_of(SearchRequest(Source(ids), options)) for ids in ((4, 5), (6,)))
    running.admit([*stays, *leaves])
    for _ in range(3):
        running.step()
    running.cancel(leaves)
    running.run()
    assert model.rows == 2 * 3 + 6
    assert stays[0].found is not None
    assert leaves[0].found is None


def test_a_cache_that_does_not_know_its_rows_says_so() -> None:
    model = transformer(family="causal")
    assert isinstance(model, CausalLM)
    with pytest.raises(ValueError, match="does not know its rows"):
        model.start().join(model.start())
