from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data import TokenStore, collate, collate_causal, eval_batches, plan_epoch
from dragoman.sequences import SPECIALS, Direction, Source, SourceBatch, Specials, TargetBatch

lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=60)


def sides(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def flat(updates: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [batch for update in updates for batch in update]


def check_partition_and_budget(batches: list[np.ndarray], pairs: list[tuple[int, int]], budget: int) -> None:
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(pairs)))
    for batch in batches:
        source = max(pairs[i][0] for i in batch) + 1
        target = max(pairs[i][1] for i in batch) + 2
        assert len(batch) == 1 or len(batch) * max(source, target) <= budget


@given(pairs=lengths, budget=st.integers(1, 400), accumulate=st.integers(1, 3), ranks=st.integers(1, 3))
def test_each_pair_once_within_the_budget_in_full_groups(
    pairs: list[tuple[int, int]], budget: int, accumulate: int, ranks: int
) -> None:
    source, target = sides(pairs)
    settings = {"batch_tokens": budget, "seed": 1, "epoch": 2}
    updates = plan_epoch(source, target, accumulate=accumulate * ranks, **settings)
    check_partition_and_budget(flat(updates), pairs, budget)
    assert all(len(update) == accumulate * ranks for update in updates[:-1])
    assert all(0 < len(update) <= accumulate * ranks for update in updates)
    # Grouping never changes the batches or their order, so world size and accumulation can be traded.
    alone = flat(plan_epoch(source, target, **settings))
    assert [batch.tolist() for batch in flat(updates)] == [batch.tolist() for batch in alone]


@given(pairs=lengths, budget=st.integers(1, 400))
def test_evaluation_batches_are_a_partition_longest_first(pairs: list[tuple[int, int]], budget: int) -> None:
    source, target = sides(pairs)
    batches = eval_batches(source, target, batch_tokens=budget)
    check_partition_and_budget(batches, pairs, budget)
    alone = eval_batches(source, batch_tokens=budget)
    check_partition_and_budget(alone, [(s, s - 1) for s, _ in pairs], budget)
    longest = [int(source[batch].max()) for batch in alone]
    assert longest == sorted(longest, reverse=True)


def corpus(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    source = random.poisson(random.gamma(9.0, 1.6, count)) + 3
    return source, np.maximum(source + random.normal(1, 2.5, count).astype(int), 2)


def test_an_epoch_is_a_pure_function_and_no_two_are_the_same() -> None:
    source, target = corpus(2000)

    def plan(**changes: int) -> list[list[int]]:
        settings = {"batch_tokens": 500, "seed": 1, "epoch": 0} | changes
        return [batch.tolist() for batch in flat(plan_epoch(source, target, **settings))]

    assert plan() == plan()
    first = {frozenset(batch) for batch in plan()}
    for other in (plan(epoch=1), plan(seed=2)):
        assert len(first & {frozenset(batch) for batch in other}) < 0.05 * len(first)


def test_batches_of_all_lengths_are_mixed() -> None:
    source, target = corpus(4000)
    means = [
        float(target[batch].mean()) for batch in flat(plan_epoch(source, target, batch_tokens=500, seed=1, epoch=0))
    ]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.3


def test_little_of_a_batch_is_padding() -> None:
    source, target = corpus(29_000)
    batches = flat(plan_epoch(source, target, batch_tokens=4096, seed=1, epoch=0))
    for framed, most in ((target + 2, 0.03), (source + 1, 0.12)):
        area = sum(len(batch) * int(framed[batch].max()) for batch in batches)
        assert 1 - framed.sum() / area <= most
    # And the budget is used: at most a tenth more batches than the tokens alone would need.
    assert len(batches) <= 1.1 * np.maximum(source + 1, target + 2).sum() / 4096


def test_a_million_pairs_are_planned_in_seconds() -> None:
    source, target = corpus(1_000_000)
    start = time.process_time()
    plan_epoch(source, target, batch_tokens=4096, seed=1, epoch=0)
    assert time.process_time() - start < 5


def test_a_batch_is_framed_and_padded(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "s", [([5, 6, 7], [8]), ([], [9, 9])], vocabulary_size=10)
    batch = collate(store, np.array([1, 0]))
    assert batch.source.ids.tolist() == [[3, 0, 0, 0], [5, 6, 7, 3]]
    assert batch.target.ids.tolist() == [[2, 9, 9, 3], [2, 8, 3, 0]]
    assert batch.source.ids.dtype == batch.target.ids.dtype == torch.int64
    assert (len(batch), batch.source_tokens, batch.target_tokens) == (2, 5, 5)
    assert batch.target_tokens == int(batch.label_mask.sum())
    assert batch.source_tokens == int(batch.source.mask.sum())
    moved = batch.to("meta")
    assert {part.device.type for side in (moved.source, moved.target) for part in (side.ids, side.mask)} == {"meta"}


OTHER = Specials(pad=9, unk=1, bos=8, eos=0)
ids = st.lists(st.integers(4, 9), max_size=5)


@given(
    st.lists(st.tuples(ids, st.lists(ids, max_size=2), ids), min_size=1, max_size=4),
    st.sampled_from([tuple(Direction)[:1], tuple(Direction)[1:], tuple(Direction)]),
    st.sampled_from([SPECIALS, OTHER, OTHER._replace(ends_source=False)]),
)
def test_a_batch_is_what_the_types_make_of_the_pairs(
    rows: list[tuple[list[int], list[list[int]], list[int]]], directions: tuple[Direction, ...], specials: Specials
) -> None:
    sources = [Source(tuple(own), tuple(map(tuple, matches)), specials) for own, matches, _ in rows]
    targets = [target for *_, target in rows]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(source.joined, target) for source, target in zip(sources, targets, strict=True)]
        store = TokenStore.write(Path(folder) / "s", pairs, vocabulary_size=10)
        batch = collate(store, range(len(rows)), directions, specials)
    source, target = SourceBatch.of(sources), TargetBatch.of(targets, specials, directions)
    assert batch.target.directions == directions
    for found, expected in ((batch.source, source), (batch.target, target)):
        assert torch.equal(found.ids, expected.ids)
        assert torch.equal(found.mask, expected.mask)
    assert (batch.source_tokens, batch.target_tokens) == (int(source.mask.sum()), int(target.label_mask.sum()))


def test_repeated_pairs_come_one_copy_after_the_other_in_each_direction(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "s", [([5, 6], [7, 8, 9]), ([4], [5])], vocabulary_size=10)
    once = collate(store, [0, 1], tuple(Direction))
    twice = once.repeat(2)
    again = collate(store, [0, 1, 0, 1], tuple(Direction))
    assert (twice.source_tokens, twice.target_tokens) == (again.source_tokens, again.target_tokens)
    for found, expected in ((twice.source, again.source), (twice.target, again.target)):
        assert torch.equal(found.ids, expected.ids)
        assert torch.equal(found.mask, expected.mask)
    lines = collate_causal(store, [0, 1]).repeat(2)
    expected = collate_causal(store, [0, 1, 0, 1])
    assert lines.target_tokens == expected.target_tokens
    for name in ("ids", "mask", "labels", "label_mask"):
        assert torch.equal(getattr(lines, name), getattr(expected, name))


def test_targets_may_come_once_more_from_their_end(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "s", [([5, 6, 7], [8, 4]), ([], []), ([4], [9, 8, 7])], vocabulary_size=10)
    batch = collate(store, [0, 1, 2], tuple(Direction))
    once = collate(store, [0, 1, 2])
    assert batch.source.ids.tolist() == once.source.ids.tolist()
    assert batch.target.ids[:3].tolist() == once.target.ids.tolist()
    # What stands between `<s>` and `</s>` is the same, the other way round: reading it begins with `</s>`.
    assert batch.target.ids[3:].tolist() == [[3, 4, 8, 2, 0], [3, 2, 0, 0, 0], [3, 7, 8, 9, 2]]
    assert (batch.source_tokens, batch.target_tokens) == (once.source_tokens, 2 * once.target_tokens)
    assert batch.target_tokens == int((batch.labels != 0).sum()) == int(batch.label_mask.sum())


@pytest.mark.parametrize("rows", [[0], [1, 1], [0, 1, 0]])
def test_rows_keep_the_order_asked_for(tmp_path: Path, rows: list[int]) -> None:
    store = TokenStore.write(tmp_path / "s", [([4], [5]), ([6], [7])], vocabulary_size=10)
    assert collate(store, rows).source.ids[:, 0].tolist() == [[4, 6][row] for row in rows]
