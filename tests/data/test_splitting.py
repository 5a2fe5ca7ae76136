from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.splitting import choose_held_out, held_out_size
from dragoman.errors import DataError
from dragoman.text import Pair
from dragoman.text.keys import skeleton

PAIRS = [Pair(f"source {i // 2}", f"target {i}", "f", i + 1) for i in range(1000)]


def test_the_size_rule() -> None:
    assert [held_out_size(n) for n in (2, 19, 40, 1000, 20_000, 10**6)] == [1, 1, 2, 50, 1000, 1000]


def test_the_choice_depends_on_the_pairs_and_not_on_their_order() -> None:
    chosen = choose_held_out(PAIRS)
    held = {pair for pair in PAIRS if chosen(pair)}
    assert 50 <= len(held) <= 51
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))
    again = choose_held_out(shuffled)
    assert held == {pair for pair in shuffled if again(pair)}
    numbers = sorted(pair.line for pair in held)
    assert numbers[-1] - numbers[0] > 800  # spread over the file


@given(st.lists(st.builds(Pair, st.sampled_from("abcdeABC .!"), st.sampled_from("xy "), st.just("f"), st.just(1))))
def test_no_source_is_on_both_sides_and_neither_side_is_empty(pairs: list[Pair]) -> None:
    complete = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    if len({skeleton(pair.source) for pair in complete}) < 2:
        with pytest.raises(DataError, match="too few pairs"):
            choose_held_out(pairs)
        return
    chosen = choose_held_out(pairs)
    held = {skeleton(pair.source) for pair in pairs if chosen(pair)}
    kept = {skeleton(pair.source) for pair in complete if not chosen(pair)}
    assert held
    assert kept
    assert not held & kept
    assert not any(chosen(pair) for pair in pairs if pair not in complete)


def test_one_source_with_very_many_targets_is_not_held_out() -> None:
    pairs = PAIRS[:200] + [Pair("the", f"target {i}", "f", i) for i in range(5000)]
    chosen = choose_held_out(pairs)
    assert not chosen(pairs[-1])
    assert sum(map(chosen, pairs)) == 100  # half of the 101 sources, two pairs each
