"""Functions of blocks in several processes: results in order, and what becomes of workers that die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.workers import Cluster, open_workers
from dying import dying_at_three


def squared(context: int, block: int) -> int:
    return context * block * block


def refusing(context: int, block: int) -> int:
    if block == context:
        raise DataError("not this one", file="somewhere")
    return block


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_in_order_and_blocks_are_taken_a_few_ahead(count: int) -> None:
    taken = list[int]()

    def blocks() -> Iterator[int]:
        for block in range(20):
            taken.append(block)
            yield block

    with open_workers(count) as workers:
        for place, found in enumerate(workers.map(squared, 3, blocks())):
            assert found == 3 * place * place
            assert len(taken) <= place + 2 * count
        assert list(workers.map(squared, 3, [])) == []
    assert len(taken) == 20


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_comes_where_its_result_would(count: int) -> None:
    found = list[int]()
    with open_workers(count) as workers, pytest.raises(DataError, match="not this one"):
        found.extend(workers.map(refusing, 4, range(10)))
    assert found == [0, 1, 2, 3]


def test_what_a_worker_that_died_had_is_done_again(tmp_path: Path) -> None:
    with open_workers(2) as workers:
        assert list(workers.map(dying_at_three, str(tmp_path / "died"), range(9))) == list(range(9))
    assert (tmp_path / "died").exists()


def test_a_block_that_ends_every_worker_ends_in_one_message() -> None:
    with open_workers(2) as workers, pytest.raises(DragomanError, match="died 3 times"):
        list(workers.map(dying_at_three, "always", range(9)))


def test_so_many_workers_cannot_be_had() -> None:
    for wrong in (0, -1, 10**9, Cluster(workers=(3, 2)), Cluster(workers=0)):
        with pytest.raises(ConfigError, match="so many workers"), open_workers(wrong):
            pass
