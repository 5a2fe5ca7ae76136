"""Requests that come and go: each joins a running search between steps, and gets what `Translator.translate` gives.

One thread runs all searches. Small calls and large ones are searched apart and share the time, so that a sentence does
not wait for a document. Needs PyTorch only where translating does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from dragoman.audio.listing import Given
from dragoman.config import DecodingConfig
from dragoman.errors import DragomanError
from dragoman.search.continuous import ContinuousSearch, common_prefix
from dragoman.sequences.target import Direction
from dragoman.translation.call import Call, Progress, cost_of
from dragoman.translation.plan import FoundOnce, Need, SearchPlan
from dragoman.translation.results import Translation
from dragoman.translation.running_batch import RunningBatch, Task
from dragoman.translation.translator import Translator


class OverloadError(DragomanError):
    """There is more to do than can be done soon; `wait` says in how many seconds it is worth another try."""

    def __init__(self, problem: str, wait: float, *, expected: object = None, found: object = None) -> None:
        super().__init__(problem, expected=expected, found=found, hint=f"try again in {wait:.0f} seconds")
        self.wait = wait


@dataclass(frozen=True)
class Limits:
    """What a scheduler takes on.

    Attributes:
        calls: that wait or are searched.
        tokens: of the sources of all of them, times their beams.
        wait: seconds that a call may have to wait, by what was done per second so far.
        searched: tokens, times beams, that are searched at once.
        small: a call of at most so many tokens, times beams, does not wait for larger ones.
        slice: seconds of work after which others may have their turn; a step is always made whole.
    """

    calls: int = 256
    tokens: int = 1 << 18
    wait: float = 8.0
    searched: int = 2_048
    small: int = 1_536
    slice: float = 0.004


@dataclass
class Counts:
    """What a scheduler did so far."""

    calls: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    cancelled: int = 0
    failed: int = 0
    slices: int = 0
    seconds: float = 0.0
    healed: int = 0


# The share of the time that small calls have of both, where large ones are searched too.
SMALL_SHARE = 0.75
# Seconds of work by which small calls go first when they come after a pause; a steady stream of them has the share.
HEAD_START = 0.2
LONG_TEXT = 2_000  # characters


class Scheduler:
    """Translates for many callers at once with one translator. Its thread holds the models until it is closed.

    Args:
        translator: whose models and tokenizers are used.
        limits: what is taken on.
        threads: at most so many work on a step; all there are if None.

    Attributes:
        counts: what was done so far.
    """

    def __init__(self, translator: Translator, limits: Limits | None = None, threads: int | None = None) -> None:
        self.translator, self.limits, self.threads = translator, limits or Limits(), threads
        self.counts = Counts()
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._batches = [RunningBatch(self._open, self.limits.searched, self.limits.slice) for _ in range(2)]
        self._calls: dict[int, Call] = {}
        self._tokens = self._done = 0
        self._clock = 0.0  # how far those have come that are searched: seconds of work, by their shares
        self._closing = False
        self._pid = os.getpid()
        self._finisher = ThreadPoolExecutor(1, thread_name_prefix="dragoman-finish")
        self._thread = self._start()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Leave it behind where its translator is pickled or copied: another one is made there."""
        return type(None), ()

    @property
    def is_open(self) -> bool:
        """Whether it takes calls: it was not closed, and this is the process that it was made in."""
        return not self._closing and self._pid == os.getpid()

    @property
    def waiting(self) -> tuple[int, int]:
        """How many calls are not over, and the tokens of their sources, times their beams."""
        return len(self._calls), self._tokens

    @property
    def searched(self) -> int:
        """How many sentences are searched now."""
        return sum(len(batch.tasks) for batch in self._batches)

    def submit(
        self,
        texts: Sequence[Given],
        options: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        alignments: bool = False,
        seconds: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        translator: Translator | None = None,
    ) -> Call:
        """Let texts be translated; return a call whose `future` gives their translations, in the order of the texts.

        Args:
            texts: any number of strings; of a model that listens sounds, as for `Translator.translate`.
            options: the model's own if None.
            prefixes: one string per text that its output must begin with; "" for none.
            alignments: also tell which source piece each output piece looked at most.
            seconds: after so many seconds the call ends with `TimeoutError`.
            on_progress: is told of each text what is sure and what is likely so far, after steps that changed it; from
                another thread, and must return soon.
            translator: one that the scheduler's own shares its weights with (`Translator.with_languages`), to translate
                in its place, in the same batches.

        Raises:
            OverloadError: there is more to do than `limits` say.
            ConfigError: as `Translator.translate_with`.
            DataError: likewise.
            RuntimeError: the scheduler is closed.
        """
        if self._pid != os.getpid():
            raise RuntimeError("a scheduler does not outlive a fork; make one in each process")
        translator = translator or self.translator
        assert translator.backend is self.translator.backend, "the models of another translator"
        call = Call(translator, texts, options or translator.decoding, prefixes, alignments, on_progress)
        call.deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            if self._closing:
                raise RuntimeError("the scheduler is closed")
            self._check_load(call)
            self._calls[id(call)] = call
            self._tokens += call.cost
        call.future.add_done_callback(lambda _: self._settled(call))
        self.counts.calls += 1
        self._inbox.put(partial(self._take, call))
        return call

    async def translate(
        self,
        texts: Sequence[str],
        options: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        alignments: bool = False,
        seconds: float | None = None,
    ) -> list[Translation]:
        """Translate without blocking the event loop; cancelling the task frees what it takes at the next step.

        Arguments and errors as for `submit`, and `TimeoutError`.
        """
        submit = partial(self.submit, texts, options, prefixes=prefixes, alignments=alignments, seconds=seconds)
        long = sum(map(len, texts)) > LONG_TEXT  # cutting it into tokens takes a while
        call = await asyncio.to_thread(submit) if long else submit()
        return await asyncio.wrap_future(call.future)

    def close(self, wait: bool = True) -> None:
        """Take nothing on any more; what was taken on is translated, unless `wait` is False, and the thread ends."""
        with self._lock:
            self._closing = True
            calls = list(self._calls.values())
        for call in calls:
            if not wait:
                call.cancel()
            with contextlib.suppress(CancelledError):
                call.future.exception()
        self._inbox.put(None)
        self._thread.join()
        self._finisher.shutdown()

    def _check_load(self, call: Call) -> None:
        limits = self.limits
        wait = self._tokens / self.speed if self._tokens else 0.0
        if len(self._calls) >= limits.calls:
            raise OverloadError("too many calls wait already", max(1.0, wait), expected=limits.calls)
        if self._tokens and self._tokens + call.cost > limits.tokens:
            raise OverloadError("too much text waits already", max(1.0, wait), expected=f"{limits.tokens} tokens")
        if call.cost <= limits.small and self._small_wait() > limits.wait:
            raise OverloadError("the wait would be too long", max(1.0, wait), expected=f"{limits.wait:g} s")

    def _small_wait(self) -> float:
        """Seconds that a small call would wait for those that are there already."""
        return sum(call.cost for call in list(self._calls.values()) if call.cost <= self.limits.small) / self.speed

    @property
    def speed(self) -> float:
        """Tokens of sources, times beams, that are done in a second of work; a careful guess at first."""
        done, seconds = self._done, self.counts.seconds
        return done / seconds if seconds > 0.5 and done else 20_000.0

    def _settled(self, call: Call) -> None:
        """A call is over: done, failed, or nobody waits for it any more."""
        with self._lock:
            if self._calls.pop(id(call), None) is not None:
                self._tokens -= call.cost
        if call.future.cancelled():
            self.counts.cancelled += 1
            self._inbox.put(partial(self._drop, call))

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name="dragoman-search", daemon=True)
        thread.start()
        return thread

    def _work(self) -> None:
        """The thread: as long as there is something to do it never waits. What breaks it ends what it was doing."""
        while True:
            try:
                if self._turn():
                    return
            except BaseException as error:
                self.counts.healed += 1
                for batch in self._batches:
                    batch.reset()
                for call in list(self._calls.values()):
                    if any(task.has_begun for task in call.tasks):
                        self._drop(call, _as_exception(error))

    def _turn(self) -> bool:
        """Take what came, then let one batch go on; return whether that was the end."""
        busy = [batch for batch in self._batches if batch.is_busy]
        while True:
            try:
                message = self._inbox.get(block=not busy)
            except Empty:
                break
            if message is None:
                return True
            message()
            busy = [batch for batch in self._batches if batch.is_busy]
        self._end_late()
        if busy := [batch for batch in self._batches if batch.is_busy]:
            batch = min(busy, key=self._virtual)
            self._clock = max(self._clock, self._virtual(batch))
            before = batch.spent
            batch.advance()
            self.counts.slices += 1
            self.counts.seconds += batch.spent - before
            self._tell(batch)
        return False

    def _virtual(self, batch: RunningBatch) -> float:
        return batch.spent / (SMALL_SHARE if batch is self._batches[0] else 1 - SMALL_SHARE)

    def _take(self, call: Call) -> None:
        if call.future.done():
            return
        batch = self._batches[0 if call.cost <= self.limits.small else 1]
        if not batch.is_busy:  # time that it did not use is not saved up
            small = batch is self._batches[0]
            share, ahead = (SMALL_SHARE, HEAD_START) if small else (1 - SMALL_SHARE, 0.0)
            batch.spent = max(batch.spent, (self._clock - ahead) * share)
        try:
            call.tasks = [
                Task(call.plan, request, partial(self._over, call, place), cost_of(request))
                for place, request in enumerate(call.requests)
                if request is not None
            ]
        except BaseException as error:
            self._drop(call, _as_exception(error))
            return
        if call.tasks:
            batch.add(deque(call.tasks))
        else:
            self._finish(call)

    def _over(self, call: Call, place: int, found: FoundOnce | Exception) -> None:
        """One sentence of a call is done."""
        if call.future.done():
            return
        if isinstance(found, Exception):
            self._drop(call, found)
            return
        request = call.requests[place]
        assert request is not None
        self._done += cost_of(request)
        self.counts.sentences += 1
        self.counts.source_tokens += len(request.source)
        self.counts.target_tokens += len(found.hypotheses[0].tokens) + 1
        call.found[place] = found.hypotheses
        call.left -= 1
        try:
            call.report_over(place)
        except Exception as error:  # of whoever is told: no other call is to suffer from it
            self._drop(call, error)
        else:
            if not call.left:
                self._finish(call)

    def _finish(self, call: Call) -> None:
        """Give the translations; on another thread where they are aligned, which takes long and needs PyTorch."""
        if call.alignments or call.copies:
            self._finisher.submit(_settle, call)
        else:
            _settle(call)

    def _drop(self, call: Call, error: Exception | None = None) -> None:
        mine = set(map(id, call.tasks))
        for batch in self._batches:
            batch.drop(lambda task: id(task) in mine)
        if error is not None:
            self.counts.failed += 1
            _set(call.future, error=error)

    def _end_late(self) -> None:
        now = time.monotonic()
        for call in list(self._calls.values()):
            if call.deadline is not None and now > call.deadline and not call.future.done():
                self._drop(call, TimeoutError("translating took too long"))

    def _tell(self, batch: RunningBatch) -> None:
        """Tell those who want it how far their texts have come."""
        for call in list(self._calls.values()):
            if call.on_progress is None or call.future.done():
                continue
            for place, task in call.live_tasks():
                if task.place is None or task.place not in batch.tasks:
                    continue
                rows = batch.peek(task)
                try:
                    task.kept = call.report(place, task, rows, common_prefix(rows))
                except Exception as error:
                    self._drop(call, error)
                    break

    def _open(self, plan: SearchPlan, need: Need) -> tuple[Hashable, Callable[[], ContinuousSearch]]:
        direction = Direction.LEFT_TO_RIGHT if need.outputs is None else Direction.RIGHT_TO_LEFT
        return plan.engine.continuous(need.request.options, direction, self.threads)


def _settle(call: Call) -> None:
    try:
        _set(call.future, result=call.translations())
    except BaseException as error:
        _set(call.future, error=_as_exception(error))


def _as_exception(error: BaseException) -> Exception:
    """An error that ends a call, and not the thread of whoever waits for it."""
    return error if isinstance(error, Exception) else RuntimeError(f"the search was stopped: {error!r}")


def _set(
    future: Future[list[Translation]], *, result: list[Translation] | None = None, error: Exception | None = None
) -> None:
    """Settle a future, unless that is done, or whoever waited for it has gone."""
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result or [])
