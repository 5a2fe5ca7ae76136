"""The guard against loops: it mends what went in circles, and touches nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from dragoman.config import DecodingConfig
from dragoman.search import Hypothesis, SearchRequest
from dragoman.search.guard import is_finished, is_loop
from dragoman.sequences import Source
from dragoman.translation.backend import Backend
from dragoman.translation.plan import SearchPlan

LIMIT = 40
LOOP = [4, 5, 6] * 14


class Recorded(Backend):
    """A search that gives what it was told to: first, and again where n-grams may not be repeated."""

    def __init__(self, first: list[list[int]], again: list[list[int]]) -> None:
        super().__init__(lambda: pytest.fail("nothing is to be loaded"))
        self.first, self.again = first, again
        self.requests: list[list[SearchRequest]] = []

    def search(self, requests: Sequence[SearchRequest], threads: int | None = None) -> list[list[Hypothesis]]:
        self.requests.append(list(requests))
        if len(self.requests) == 1:
            return [[Hypothesis(tuple(tokens), -1.0, -1.0)] for tokens in self.first]
        return [[Hypothesis(tuple(self.again[one.source.ids[0]]), -2.0, -2.0)] for one in requests]


def request(rows: int, **options: object) -> list[SearchRequest]:
    """Sources of 30 tokens that begin with the number of their row, so that the limit is `LIMIT`."""
    settings = DecodingConfig.from_dict({"max_length_offset": 10, "loop_guard": 4, **options})
    return [SearchRequest(Source((row, *[4] * 29)), settings, seed=row) for row in range(rows)]


def found(search: Recorded, asked: list[SearchRequest]) -> list[list[int]]:
    guarded = SearchPlan(asked[0].options, search, 0.0, False).run(asked)
    assert [bool(again) for again in guarded.again] == [h[0].score == -2.0 for h in guarded.hypotheses]
    return [list(hypotheses[0].tokens) for hypotheses in guarded.hypotheses]


def test_only_unfinished_loops_are_searched_again() -> None:
    varied = list(range(4, 4 + LIMIT))
    first = [LOOP[:LIMIT], varied, LOOP[: LIMIT - 1], [4, 5], [7] * LIMIT]
    search = Recorded(first, [[8], [9], [10], [11], [12]])
    assert found(search, request(5)) == [[8], varied, LOOP[: LIMIT - 1], [4, 5], [12]]
    _, second = search.requests
    assert [(one.source.ids[0], one.seed, one.options.no_repeat_ngram) for one in second] == [(0, 0, 4), (4, 4, 4)]
    assert [one.max_length for one in second] == [LIMIT] * 2
    assert second[0].options is second[1].options, "they are searched together"


def test_an_output_that_does_not_end_the_second_time_either_stays() -> None:
    search = Recorded([LOOP[:LIMIT]] * 2, [list(range(4, 4 + LIMIT)), [8]])
    assert found(search, request(2)) == [LOOP[:LIMIT], [8]]


@pytest.mark.parametrize("options", [{"loop_guard": 0}, {"no_repeat_ngram": 40}, {"max_length": LIMIT}])
def test_it_is_off_where_it_is_not_wanted(options: dict[str, int]) -> None:
    search = Recorded([LOOP[:LIMIT]], [LOOP[:LIMIT]])
    assert found(search, request(1, **options)) == [LOOP[:LIMIT]]
    assert len(search.requests) == 1


def test_requests_of_different_searches_are_guarded_each_by_its_own() -> None:
    guarded, free = request(1)[0], request(1, loop_guard=0)[0]
    search = Recorded([LOOP[:LIMIT], LOOP[:LIMIT]], [[8]])
    assert found(search, [guarded, free]) == [[8], LOOP[:LIMIT]]


def test_a_batch_without_loops_is_searched_once() -> None:
    search = Recorded([[4], [5, 6]], [[], []])
    assert found(search, request(2)) == [[4], [5, 6]]
    assert len(search.requests) == 1


def test_what_is_finished_and_what_is_a_loop() -> None:
    assert is_finished(Hypothesis((4,) * 9, -1.0, -1.0), 10)
    assert not is_finished(Hypothesis((4,) * 10, -1.0, -1.0), 10)
    draw = random.Random(0)
    assert not any(is_loop(draw.choices(range(50), k=60), 4) for _ in range(100))
    for period in range(1, 15):
        circle = draw.sample(range(100), period)
        assert is_loop((circle * 60)[:60], 4)
    # A good sentence, then a loop; a refrain is none; few tokens are none.
    assert is_loop([*range(20), *[7] * 40], 4)
    assert not is_loop([*range(20), *range(30), *range(10)], 4)
    assert not is_loop([7] * 10, 4)
    assert is_loop([7] * 11, 4)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(20))
def test_what_brings_something_new_up_to_its_end_is_no_loop(size: int, seed: int) -> None:
    draw = random.Random(seed)
    repeated = [draw.randrange(4, 9) for _ in range(3)] * 20
    fresh = [*range(100, 100 + draw.randrange(1, 9))]
    assert is_loop(repeated, size)
    assert not is_loop(repeated + fresh, size)
    assert is_loop(fresh + repeated, size)
    counted = [token for number in range(60) for token in (4, 5, 6, 50 + number)]
    assert not is_loop(counted, size)
