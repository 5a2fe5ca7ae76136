"""A function of many blocks, computed by several workers, with results in the order of the blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from dragoman.config.placement import MOST_THREADS
from dragoman.errors import ConfigError, DragomanError
from dragoman.workers.cluster import Cluster, joined
from dragoman.workers.processes import TRIES, begin, leave

C = TypeVar("C")
B = TypeVar("B")
R = TypeVar("R")


class Workers(ABC):
    """Who computes functions of blocks; made by `open_workers`."""

    @abstractmethod
    def map(self, function: Callable[[C, B], R], context: C, blocks: Iterable[B]) -> Iterator[R]:
        """Yield what a function makes of each block, in order; blocks are taken a few ahead of what is yielded.

        Args:
            function: of a module, so that other processes find it; what it returns depends on its arguments alone.
            context: its first argument, which each worker gets once.
            blocks: what may be its second argument.

        Raises:
            DragomanError: the function did, or workers have died again and again.
        """


class _Here(Workers):
    def map(self, function: Callable[[C, B], R], context: C, blocks: Iterable[B]) -> Iterator[R]:
        """See `Workers.map`."""
        return (function(context, block) for block in blocks)


def check_workers(workers: int | Cluster) -> None:
    """Refuse a number of workers that cannot be, before any work.

    Raises:
        ConfigError: there cannot be so many.
    """
    if isinstance(workers, Cluster):
        Cluster.of(workers)
    elif not 1 <= workers <= MOST_THREADS:
        expected = f"a whole number from 1 to {MOST_THREADS:,}"
        raise ConfigError("so many workers cannot be had", expected=expected, found=workers)


@contextmanager
def open_workers(workers: int | Cluster) -> Iterator[Workers]:
    """Have workers at hand: this process if it is one, so many processes, or Ray.

    Raises:
        ConfigError: there cannot be so many.
        DragomanError: Ray is not installed, not to be reached, or gave up.
    """
    check_workers(workers)
    if isinstance(workers, Cluster):
        with joined(workers) as ray:
            yield _OnRay(ray, workers)
        return
    yield _Here() if workers == 1 else _Processes(workers)


class _Processes(Workers):
    def __init__(self, count: int) -> None:
        self._count = count

    def map(self, function: Callable[[C, B], R], context: C, blocks: Iterable[B]) -> Iterator[R]:
        """See `Workers.map`."""
        left, deaths = iter(blocks), 0
        waiting = deque[B]()  # taken and not yielded
        while True:
            pool, running = self._pool(function, context), deque[Future[R]]()
            try:
                while True:
                    while len(running) < len(waiting):  # of a pool whose worker has died
                        running.append(pool.submit(_computed, waiting[len(running)]))
                    for block in left:
                        waiting.append(block)
                        running.append(pool.submit(_computed, block))
                        if len(running) >= 2 * self._count:
                            break
                    if not running:
                        pool.shutdown()
                        return
                    found = running[0].result()
                    running.popleft(), waiting.popleft()
                    deaths = 0
                    yield found
            except BrokenProcessPool as error:
                deaths += 1
                if deaths >= TRIES:
                    hint = "memory that runs out ends processes: try fewer of them"
                    raise DragomanError(f"workers have died {deaths} times at the same work", hint=hint) from error
            finally:
                leave(pool)

    def _pool(self, function: Any, context: Any) -> ProcessPoolExecutor:
        # Not forked: what this process has opened, threads and all, is no business of theirs.
        return ProcessPoolExecutor(self._count, get_context("spawn"), _open, (function, context))


_WORKER: dict[str, Any] = {}


def _open(function: Any, context: Any) -> None:
    begin(1)
    _WORKER.update(function=function, context=context)


def _computed(block: Any) -> Any:
    return _WORKER["function"](_WORKER["context"], block)


class _OnRay(Workers):
    """Tasks, not actors: Ray runs as many as there is room for, no more than was said; one that dies is done again."""

    def __init__(self, ray: Any, cluster: Cluster) -> None:
        self._ray, self._threads = ray, cluster.threads
        _, self._most = cluster.bounds(int(ray.cluster_resources().get("CPU", 1)))

    def map(self, function: Callable[[C, B], R], context: C, blocks: Iterable[B]) -> Iterator[R]:
        """See `Workers.map`."""
        task = self._ray.remote(num_cpus=self._threads, max_retries=TRIES - 1)(_task)
        given, taken = self._ray.put((function, context)), deque[Any]()
        running = list[Any]()
        for block in blocks:
            while len(running) >= self._most:
                _, running = self._ray.wait(running)
            taken.append(task.remote(given, block))
            running.append(taken[-1])
            while taken and (taken[0] not in running or len(taken) >= 2 * self._most):
                yield self._ray.get(taken.popleft())
        while taken:
            yield self._ray.get(taken.popleft())


def _task(given: tuple[Any, Any], block: Any) -> Any:
    function, context = given
    return function(context, block)
