from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sequences import SPECIALS, Direction, Source, SourceBatch, Specials, TargetBatch, frame_target, sources_of

OTHER = Specials(pad=9, unk=1, bos=8, eos=0)
content = st.lists(st.integers(4, 7), max_size=6).map(tuple)


@given(content, st.lists(content, max_size=3).map(tuple))
def test_a_source_is_what_stores_keep_of_it(ids: tuple[int, ...], matches: tuple[tuple[int, ...], ...]) -> None:
    source = Source(ids, matches)
    assert Source.from_joined(source.joined) == source
    assert source.width == len(source.joined) == len(source.framed) - 1
    assert len(source) == len(ids)
    assert source.framed[-1] == SPECIALS.eos
    assert source.joined.count(SPECIALS.bos) == len(matches)


@given(content, st.lists(content, max_size=3).map(tuple))
def test_a_vocabulary_may_say_that_sources_have_no_end(
    ids: tuple[int, ...], matches: tuple[tuple[int, ...], ...]
) -> None:
    source = Source(ids, matches, SPECIALS._replace(ends_source=False))
    assert source.framed == source.joined
    assert source.specials.ids == SPECIALS.ids
    assert source.cut(3).framed == source.joined[:3]


@given(content, st.lists(content, max_size=3).map(tuple), st.integers(0, 30))
def test_a_cut_keeps_the_beginning(ids: tuple[int, ...], matches: tuple[tuple[int, ...], ...], most: int) -> None:
    source = Source(ids, matches, OTHER)
    cut = source.cut(most)
    assert cut.joined == source.joined[:most]
    assert cut.specials is OTHER
    assert len(cut) <= len(source)


def test_a_batch_knows_its_padding_whatever_its_ids_are() -> None:
    sources = [Source((5, 9, 6), ((7,),), OTHER), Source((9,), (), OTHER)]
    batch = SourceBatch.of(sources)
    assert batch.ids.tolist() == [[5, 9, 6, 8, 7, 0], [9, 0, 9, 9, 9, 9]]
    assert batch.mask.tolist() == [[True] * 6, [True, True, False, False, False, False]]
    assert batch.take([1]).mask.tolist() == [batch.mask[1].tolist()]
    assert len(SourceBatch.nothing(3)) == 3


def test_directions_are_named() -> None:
    left, right = Direction.LEFT_TO_RIGHT, Direction.RIGHT_TO_LEFT
    assert frame_target([5, 6], direction=left) == [SPECIALS.bos, 5, 6, SPECIALS.eos]
    assert frame_target([5, 6], direction=right) == [SPECIALS.eos, 6, 5, SPECIALS.bos]
    batch = TargetBatch.of([[5, 6], [7]], directions=(left, right))
    assert batch.ids.tolist() == [[2, 5, 6, 3], [2, 7, 3, 0], [3, 6, 5, 2], [3, 7, 2, 0]]
    assert torch.equal(batch.mask, batch.ids != SPECIALS.pad)
    assert torch.equal(batch.inputs[:, 1:], batch.labels[:, :-1])


def test_blocks_are_of_one_direction_each() -> None:
    batch = TargetBatch.of([[5, 6], [7], [8]], directions=tuple(Direction))
    assert (batch.per_source, batch.sources, len(batch)) == (2, 3, 6)
    for direction, block in zip(Direction, batch.blocks(), strict=True):
        alone = TargetBatch.of([[5, 6], [7], [8]], directions=(direction,))
        assert block.directions == (direction,)
        assert torch.equal(block.ids, alone.ids)
        assert torch.equal(block.mask, alone.mask)
        assert torch.equal(block.label_mask, block.labels != SPECIALS.pad)


def test_repeated_sources_have_their_targets_with_each_copy() -> None:
    sources = SourceBatch.of(sources_of([[5], [6]])).repeat(2)
    assert sources.ids[:, 0].tolist() == [5, 6, 5, 6]
    ids = torch.tensor([[2, n, 3] for n in range(4, 12)])  # two sources, two candidates, two directions
    batch = TargetBatch(ids, torch.ones_like(ids, dtype=torch.bool), tuple(Direction), 2).repeat(2)
    assert batch.ids[:, 1].tolist() == [4, 5, 4, 5, 6, 7, 6, 7, 8, 9, 8, 9, 10, 11, 10, 11]
    assert (batch.sources, batch.candidates, batch.mask.shape) == (4, 2, batch.ids.shape)


@pytest.mark.parametrize("given", [{"candidates": 2}, {"directions": tuple(Direction)}, {"directions": ()}])
def test_rows_are_as_many_as_is_said(given: dict[str, object]) -> None:
    ids = torch.ones(3, 2, dtype=torch.long)
    with pytest.raises(ValueError, match="3 rows are not"):
        TargetBatch(ids, ids.bool(), **given)


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count: int) -> None:
    assert SourceBatch.of(sources_of([[4]] * count)).ids.shape == (count, 2 * count)
