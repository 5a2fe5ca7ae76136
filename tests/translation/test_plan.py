"""One search, planned once: what it refuses, what it asks, and that all who search with it find the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inspection import explain
from dragoman.search import Hypothesis, SearchRequest
from dragoman.search.hypothesis import make_hypothesis
from dragoman.search.request import NEVER
from dragoman.sequences import Direction, Source, sources_of
from dragoman.studies import evaluate, tune
from dragoman.translation import Translator
from dragoman.translation.backend import Backend
from dragoman.translation.plan import SearchPlan
from end_to_end import small

TEXTS = small.sentences(12, seed=21)
# For long sources a search has to end loops by itself.
CIRCLES = {"max_length": None, "max_length_factor": 3.0, "max_length_offset": 12, "loop_guard": 1}
KINDS = [
    {"beam_size": 1},
    {"beam_size": 4, "length_penalty": 1.4},
    {"beam_size": 4, "length_penalty": 0.5, "length_penalty_formula": "reward", "right_to_left_weight": 0.8},
    {"beam_size": 3, "no_repeat_ngram": 1},
    {"beam_size": 3, **CIRCLES},
    {"beam_size": 1, **CIRCLES},
]


def translator(seed: int = 1, decoder: str | None = "own", members: int = 1) -> Translator:
    """A random model, which says that it learned both directions if it has a decoder for that."""
    ends = {} if decoder is None else {"right_to_left": True, "right_to_left_decoder": decoder}
    made = small.translator(small.word_pair(), seed, members, **ends)
    return Translator(made.transformers, made.tokenizers, made.decoding, right_to_left=decoder is not None)


class Scripted(Backend):
    """Finds and reads what it is told to, and keeps what it was asked."""

    def __init__(self, *, learned: bool = True, datastore: bool = False) -> None:
        def load() -> object:
            raise AssertionError("nothing is to be loaded")

        super().__init__(load, learned_right_to_left=learned)
        self.datastore = datastore
        self.outputs: list[list[tuple[int, ...]]] = []
        self.read: list[list[list[float]]] = []
        self.searched: list[Sequence[SearchRequest]] = []
        self.forced: list[tuple[object, ...]] = []

    @property
    def has_datastore(self) -> bool:
        return self.datastore

    @property
    def has_heads(self) -> bool:
        return False

    def search(self, requests: Sequence[SearchRequest], threads: int | None = None) -> list[list[Hypothesis]]:
        self.searched.append(requests)
        found = self.outputs.pop(0)
        options = requests[0].options
        return [[make_hypothesis(one, [-1.0] * (len(one) + 1), options) for one in found] for _ in requests]

    def force(self, sources, outputs, options, direction=Direction.LEFT_TO_RIGHT, threads=None):
        self.forced.append((sources, outputs, direction))
        return self.read.pop(0)


# Made once


@pytest.mark.parametrize(
    ("options", "learned", "datastore", "aids", "share"),
    [
        ({}, False, False, (), 0.0),
        ({}, True, False, ("right to left",), 0.5),
        ({"right_to_left_weight": 0.3}, True, False, ("right to left",), 0.3),
        ({"right_to_left_weight": 0.0}, True, False, (), 0.0),
        ({"beam_size": 1}, True, False, (), 0.0),
        ({"sampling": True}, True, False, (), 0.0),
        ({}, False, True, ("datastore",), 0.0),
        ({"knn_weight": 0.4}, True, True, ("datastore", "right to left"), 0.5),
        ({"knn_weight": 0.0}, False, True, (), 0.0),
        ({"knn_weight": 0.0}, False, False, (), 0.0),
    ],
)
def test_a_plan_says_what_it_asks(
    options: dict[str, object], learned: bool, datastore: bool, aids: tuple[str, ...], share: float
) -> None:
    plan = SearchPlan.of(DecodingConfig.from_dict(options), Scripted(learned=learned, datastore=datastore))
    assert (plan.aids, plan.right_to_left_share, plan.datastores) == (aids, share, "datastore" in aids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"knn_weight": 0.4}, "the model has no datastore"),
        ({"right_to_left_weight": 0.4}, "did not learn to read from right to left"),
        ({"right_to_left_weight": 0.4, "beam_size": 1}, "did not learn to read|would do nothing"),
    ],
)
def test_what_the_model_has_not_is_refused_before_anything_runs(options: dict[str, object], message: str) -> None:
    engine = Scripted(learned=False)
    with pytest.raises(ConfigError, match=message):
        SearchPlan.of(DecodingConfig.from_dict(options), engine)
    made = translator(decoder=None)
    for search in (made.plan, made.aids, lambda chosen: made.translate_with([], chosen)):
        with pytest.raises(ConfigError, match=message):
            search(made.options(options))
    assert not engine.searched
    assert not engine.forced


def test_a_request_is_the_plans_search_for_one_source() -> None:
    plan = SearchPlan.of(DecodingConfig(max_length_factor=1.0, max_length_offset=1), Scripted())
    source = Source((4, 5), ((6, 7),))
    request = plan.request(source, [8, 9], seed=3)
    never = (*NEVER, source.specials.unk)
    assert request == SearchRequest(source, plan.options, (8, 9), 3, never=never)
    kept = plan.with_options(plan.options.replace({"unknown": "keep"})).request(source)
    assert kept.never == NEVER
    assert request.options is plan.options, "so that all requests of a plan are searched as one batch"
    assert (request.max_length, plan.request(Source((4, 5))).max_length) == (3, 3)
    assert plan.with_options(plan.options.replace({"max_length": 9})).request(source).max_length == 9


# Step by step


@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"sampling": True}, {"right_to_left_weight": 0.0}])
def test_where_nothing_is_ranked_nothing_is_read_from_the_right(changes: dict[str, object]) -> None:
    engine = Scripted()
    engine.outputs = [[(5,)]]
    plan = SearchPlan.of(DecodingConfig.from_dict(changes), engine)
    request = plan.request(Source((4,)))
    [[found]] = plan.run([request]).hypotheses
    assert (found.tokens, found.right_to_left) == ((5,), None)
    assert len(engine.searched) == 1
    assert engine.searched[0][0] is request, "it is asked as it stands"
    assert not engine.forced


def test_all_that_a_beam_finishes_is_ranked_by_both_directions() -> None:
    engine = Scripted()
    engine.outputs, engine.read = [[(7,), (5,), (9,)]], [[[[-2.0, -2.0], [-2.0, -2.0], [-1.0, -0.5]]]]
    plan = SearchPlan.of(DecodingConfig(beam_size=3, n_best=2, length_penalty=0.0), engine)
    source = Source((4,), ((8,),))
    [ranked] = plan.run([plan.request(source)]).hypotheses
    assert [(one.tokens, one.score, one.right_to_left) for one in ranked] == [((9,), -1.75, -1.5), ((7,), -3.0, -4.0)]
    assert engine.searched[0][0].options.n_best == 3
    assert engine.forced == [([source], [[(7,), (5,), (9,)]], Direction.RIGHT_TO_LEFT)]


def test_a_second_search_of_what_went_in_circles_is_ranked_likewise() -> None:
    engine = Scripted()
    engine.outputs, engine.read = [[(7,) * 12], [(5, 6), (5,)]], [[[[-1.0]]], [[[-9.0], [-1.0]]]]
    plan = SearchPlan.of(DecodingConfig.from_dict({"beam_size": 2, **CIRCLES, "max_length_factor": 0.0}), engine)
    guarded = plan.run([plan.request(Source((4,)))])
    assert guarded.again == [True]
    assert [(one.tokens, one.right_to_left) for one in guarded.hypotheses[0]] == [((5,), -1.0)]
    assert [one[0].options.no_repeat_ngram for one in engine.searched] == [0, 1]
    assert len(engine.forced) == 2


@pytest.mark.parametrize("options", KINDS)
def test_with_all_finished_it_is_the_same_search(options: dict[str, object]) -> None:
    made = translator()
    plan = made.plan(made.options(options))
    every = plan.with_all_finished()
    assert (every.right_to_left_share, every.aids) == (plan.right_to_left_share, plan.aids)
    for text in TEXTS[:4]:
        source = made.tokenizers.encode_source(text)
        best, all_of = plan.run([plan.request(source)]), every.run([every.request(source)])
        assert best.again == all_of.again
        assert len(all_of.hypotheses[0]) == plan.options.beam_size
        assert best.hypotheses[0][0] == all_of.hypotheses[0][0]


# Known


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize(("decoder", "members"), [("own", 1), ("shared", 2)])
def test_outputs_of_the_search_are_known_as_what_it_found(
    options: dict[str, object], decoder: str, members: int
) -> None:
    made = translator(decoder=decoder, members=members)
    plan = made.plan(made.options({**options, "n_best": options["beam_size"]}))
    sources = sources_of(made.tokenizers.source.encode(text) for text in TEXTS[:5])
    found = plan.run([plan.request(source) for source in sources]).hypotheses
    asked = [(source, one) for source, some in zip(sources, found, strict=True) for one in some]
    again = plan.known([source for source, _ in asked], [one.tokens for _, one in asked])
    assert len(again) > 4
    for (_, one), same in zip(asked, again, strict=True):
        assert same.tokens == one.tokens
        assert same.score == pytest.approx(one.score, abs=1e-9)
        assert same.token_log_probabilities == pytest.approx(one.token_log_probabilities, abs=1e-9)
        assert (same.right_to_left is None) == (plan.right_to_left_share == 0)
        assert same.right_to_left == pytest.approx(one.right_to_left, abs=1e-9)


# All who use it


@pytest.mark.parametrize("options", KINDS)
def test_what_is_explained_is_what_is_translated(options: dict[str, object]) -> None:
    made = translator(seed=3)
    made.decoding = made.options(options)
    wanted = made.options({"n_best": 1, "min_length": 0})
    for text, one in zip(TEXTS[:5], made.translate_with(TEXTS[:5], wanted), strict=True):
        trace = explain(made, text, beam_size=wanted.beam_size)
        assert trace.output.text == one.text
        assert len(trace.ranking) == (wanted.beam_size if wanted.beam_size > 1 else 0)
        for best in trace.ranking[:1]:
            assert (best.text, best.score) == (one.text, pytest.approx(one.score, abs=1e-9))
            assert best.right_to_left == pytest.approx(one.right_to_left, abs=1e-9)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_some_of_these_sources_go_in_circles(beam_size: int) -> None:
    made = translator(seed=3)
    plan = made.plan(made.options({"beam_size": beam_size, **CIRCLES}))
    again = plan.run([plan.request(made.tokenizers.encode_source(text)) for text in TEXTS[:5]]).again
    assert any(again), "the guard is part of what is compared above"


def test_what_is_evaluated_and_tuned_is_what_is_translated(tmp_path: Path) -> None:
    made = translator(seed=3)
    chosen = made.options({"beam_size": 4, "length_penalty": 1.4, "right_to_left_weight": 0.8, "n_best": 1})
    outputs = [one.text for one in made.translate_with(TEXTS, chosen)]
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    reference.write_text("".join(text + "\n" for text in outputs), encoding="utf-8")
    judged = evaluate(made, source, reference, metrics=["exact"], decoding=chosen, bootstrap=9)
    assert (judged.hypotheses, judged.aids, judged.scores[0].value) == (outputs, ("right to left",), 100.0)
    tried = tune(
        made, source, reference, metric="exact", beam_sizes=(1, 4), length_penalties=(0.0, 1.4),
        right_to_left_weights=(0.0, 0.8), samples=9,
    )  # fmt: skip
    scores = {trial.decoding: trial.score.value for trial in tried.trials}
    for options, value in scores.items():
        same = [one.text for one in made.translate_with(TEXTS, options)]
        assert value == pytest.approx(100 * sum(map(str.__eq__, same, outputs)) / len(TEXTS))
    assert scores[chosen] == 100
    assert sum(value == 100 for value in scores.values()) < len(scores)
