"""What a search is told to have looked at is what a plain search, written anew, looks at."""

from __future__ import annotations

import math
import re
from itertools import product

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.inspection import explain
from dragoman.inspection.beam_events import Watch, watched_plan, watched_search
from dragoman.inspection.beam_lines import beam_lines
from dragoman.nn import Transformer
from dragoman.search import beam_search, greedy_search, hypothesis_score
from dragoman.search.request import SearchRequest
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator
from end_to_end import small

TEXTS = small.sentences(4, seed=3, longest=6)
Candidate = tuple[float, tuple[int, ...]]


def log_probabilities(model: Transformer, source: list[int], prefix: tuple[int, ...]) -> list[float]:
    """Of the next token, by one pass over everything."""
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *prefix]]))[0, -1]
    return logits.log_softmax(-1).tolist()


def plain_beam(
    model: Transformer, source: list[int], request: SearchRequest
) -> tuple[list[list[Candidate]], list[Candidate]]:
    """The first 2K candidates of each step, likeliest first, and all that were finished."""
    size, options = request.options.beam_size, request.options
    live: list[Candidate] = [(0.0, ())]
    steps: list[list[Candidate]] = []
    finished: list[Candidate] = []

    def score(one: Candidate, length: int) -> float:
        return hypothesis_score(one[0], length, options.length_penalty, options.length_penalty_formula)

    while True:
        grown = []
        for total, prefix in live:
            values = log_probabilities(model, source, prefix)
            some = (token for token in range(len(values)) if token not in (0, BOS))
            allowed = [EOS] if len(prefix) >= request.max_length else some
            grown += [(total + values[token], (*prefix, token)) for token in allowed]
        ranked = sorted(grown, key=lambda one: -one[0])[: 2 * size]
        steps.append(ranked)
        finished += [one for one in ranked[:size] if one[1][-1] == EOS]
        live = [one for one in ranked if one[1][-1] != EOS][:size]
        best = sorted((score(one, len(one[1])) for one in finished), reverse=True)
        if not live:
            break
        if len(best) >= size and score(live[0], len(live[0][1])) <= best[size - 1]:
            break
        longest = max(request.max_length, len(live[0][1])) + 1
        if len(best) >= options.n_best and score(live[0], longest) <= best[options.n_best - 1]:
            break
    return steps, finished


def paths(watch: Watch) -> dict[str, tuple[int, ...]]:
    """The tokens of each candidate."""
    found: dict[str, tuple[int, ...]] = {}
    for event in watch.events:
        found[event.id] = (*(() if event.parent is None else found[event.parent]), event.token)
    return found


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(("alpha", "formula"), [(1.0, "gnmt"), (0.4, "reward")])
def test_a_beam_is_a_plain_one(size: int, alpha: float, formula: str) -> None:
    translator = small.translator(small.word_pair(), size)
    [model] = translator.transformers
    decoding = {"beam_size": size, "n_best": size, "length_penalty": alpha, "length_penalty_formula": formula}
    options = DecodingConfig.from_dict({"max_length": 6, **decoding})
    fates = set()
    for text in TEXTS:
        source = translator.tokenizers.encode_source(text)
        request = SearchRequest(source, options)
        engine = translator.backend.torch.together
        found, watch = watched_search(engine, request)
        assert found == beam_search(engine, [request])[0]
        expected, finished = plain_beam(model, source.framed, request)
        tokens = paths(watch)
        assert len({event.step for event in watch.events}) == len(expected)
        for step, candidates in enumerate(expected, 1):
            some = [event for event in watch.events if event.step == step]
            assert [tokens[event.id] for event in some] == [one for _, one in candidates]
            assert [event.sum for event in some] == pytest.approx([total for total, _ in candidates])
            assert [event.rank for event in some] == list(range(1, len(some) + 1))
        done = {tokens[event.id] for event in watch.events if event.fate == "finished"}
        assert done == {one for _, one in finished}
        assert {(*one.tokens, EOS) for one in found} <= done
        last = max(event.step for event in watch.events)
        alive = [event for event in watch.events if event.fate in ("kept", "left")]
        assert all((event.step == last) == (event.fate == "left") for event in alive)
        assert watch.stop
        fates |= {event.fate for event in watch.events}
        for event in watch.events:
            assert event.score == pytest.approx(hypothesis_score(event.sum, event.step, alpha, formula))
            assert event.why
    assert {"kept", "pruned", "finished"} <= fates


def test_greedy_search_is_one_path() -> None:
    translator = small.translator(small.word_pair(), 2)
    options = DecodingConfig(beam_size=1, max_length=6)
    request = SearchRequest(translator.tokenizers.encode_source(TEXTS[0]), options)
    engine = translator.backend.torch.together
    found, watch = watched_search(engine, request)
    assert found == greedy_search(engine, [request])[0]
    assert [event.token for event in watch.events] == [*found[0].tokens, EOS]
    assert watch.events[-1].sum == pytest.approx(found[0].log_probability)
    assert [event.fate for event in watch.events] == ["kept"] * len(found[0].tokens) + ["finished"]


def test_what_greedy_search_takes_is_told_beside_the_beam() -> None:
    said = set()
    for seed, text in product(range(2), TEXTS[:2]):
        pair = small.word_pair()
        translator = Translator([small.model(small.shape(pair), seed)], pair, DecodingConfig(beam_size=1, max_length=6))
        request = translator.plan(translator.decoding).request(translator.tokenizers.encode_source(text))
        greedy = greedy_search(translator.backend.torch.together, [request])[0][0]
        trace = explain(translator, text, beam_size=4, max_length=6)
        told = " ".join(" ".join(beam_lines(trace)).split())
        taken = re.findall(r"\d+\.\d+", told.partition("Greedy search takes ")[2].partition("with the score")[0])
        events = {event.id: event for event in trace.beam}
        wanted = [*greedy.tokens, EOS]
        assert [events[one].token for one in taken] == wanted[: len(taken)]
        ends = events[taken[-1]].fate == "finished"
        assert ends == ("leaves the beam" not in told)
        if ends:
            best = max(event.score for event in trace.beam if event.fate == "finished")
            assert ("scores best here, too" in told) == (events[taken[-1]].score == best)
        said.add(ends)
    assert True in said


def test_batch_mates_change_nothing() -> None:
    translator = small.translator(small.word_pair(), 2)
    options = DecodingConfig(beam_size=3, n_best=3, max_length=6)
    requests = [SearchRequest(translator.tokenizers.encode_source(text), options) for text in TEXTS]
    engine = translator.backend.torch.together
    _, alone = watched_search(engine, requests[0])
    _, beside = watched_search(engine, requests[0], requests[1:])
    assert paths(alone) == paths(beside)
    assert all(math.isclose(a.sum, b.sum, abs_tol=1e-9) for a, b in zip(alone.events, beside.events, strict=True))


def test_a_search_in_circles_is_seen_twice() -> None:
    pair, seen = small.word_pair(), set()
    for seed in range(12):
        translator = Translator([small.model(small.shape(pair), seed)], pair, DecodingConfig(beam_size=1))
        plan = translator.plan(translator.decoding)
        for text in small.sentences(4, seed=seed):
            found, watches = watched_plan(plan, plan.request(translator.tokenizers.encode_source(text)))
            [expected] = translator.translate([text])
            assert pair.target.decode(found[0].tokens) == expected.text
            seen.add(len(watches))
        if seen == {1, 2}:
            break
    assert seen == {1, 2}
