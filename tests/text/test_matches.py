from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text import matches
from dragoman.text.matches import COVERED, LONGEST, PairIndex, Rows
from oracle.matches import scores, stretches

SOURCES = st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=9), min_size=1, max_size=12)


def letters(*words: str) -> list[list[int]]:
    return [[ord(letter) for letter in word] for word in words]


def index(sources: list[list[int]]) -> PairIndex:
    return PairIndex(Rows.of(sources), Rows.of([[number] for number in range(len(sources))]))


@pytest.mark.parametrize("most", [2000, 3])
@given(sources=SOURCES, ids=st.lists(st.integers(4, 10), min_size=1, max_size=9), but_equal=st.booleans())
def test_the_best_of_the_slow_and_obvious_search_is_found(
    most: int, sources: list[list[int]], ids: list[int], but_equal: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "MOST_SOURCES", most)
        found = index(sources).nearest(ids, 3, but_equal=but_equal)
    seen: set[tuple[int, ...]] = set()
    out = {number for number, source in enumerate(sources) if but_equal and source == ids}
    for match in found:
        expected = scores(sources, ids, seen, longest=LONGEST, most=most, covered=COVERED)
        expected = [0.0 if number in out else value for number, value in enumerate(expected)]
        assert match not in out
        assert expected[match] == pytest.approx(max(expected), rel=1e-9)
        assert expected[match] > 0
        out |= {number for number, source in enumerate(sources) if source == sources[match]}
        known = {
            part for part in stretches(ids, LONGEST)
            if sum(part in stretches(source, LONGEST) for source in sources) <= most
        }  # fmt: skip
        seen |= stretches(sources[match], LONGEST) & known
    if len(found) < 3:
        left = scores(sources, ids, seen, longest=LONGEST, most=most, covered=COVERED)
        assert max((value for number, value in enumerate(left) if number not in out), default=0.0) <= 0


def test_words_are_matched_by_what_they_share_and_the_second_by_what_the_first_lacks() -> None:
    words = ("vibrate", "celebrates", "vibrato", "vibrator", "cat", "dog", "abandon", "rates")
    found = index(letters(*words)).nearest(letters("vibrates")[0], 2)
    assert [words[number] for number in found] == ["vibrate", "rates"]


def test_the_source_itself_is_left_out_on_request_with_every_pair_that_has_it() -> None:
    found = index(letters("abandon", "abandon", "abandons", "cat"))
    assert found.nearest(letters("abandon")[0], 4) == [0, 2]
    assert found.nearest(letters("abandon")[0], 4, but_equal=True) == [2]


@pytest.mark.parametrize("ids", [[], [33]])
def test_nothing_is_found_where_nothing_is_shared(ids: list[int]) -> None:
    assert index(letters("cat", "dog")).nearest(ids, 2) == []
    assert index([]).nearest(ids, 2) == []


def test_rows_keep_ids_of_any_size_and_order() -> None:
    lists = [[4, 5], [], [70_000, 6]]
    rows = Rows.of(lists)
    assert [rows.row(number) for number in range(len(rows))] == lists
    assert rows.tokens.dtype == np.uint32
    assert Rows.of([[4], [5]]).tokens.dtype == np.uint16
    assert len(Rows.of([])) == 0
