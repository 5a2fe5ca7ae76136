"""What a scheduler searches together: the sentences that were admitted, in running searches, and those that wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from dragoman.search.continuous import ContinuousSearch
from dragoman.search.request import SearchRequest, forced_request
from dragoman.sequences.target import Direction
from dragoman.translation.plan import FoundOnce, Need, SearchPlan

# So many searches are kept for later though nothing is in them.
MOST_IDLE = 8
# Opens the running search that a need is answered by; needs with the same key share one.
Open = Callable[[SearchPlan, Need], tuple[Hashable, Callable[[], ContinuousSearch]]]


@dataclass(eq=False)
class Task:
    """One sentence on its way through a plan.

    Attributes:
        plan: what is done.
        request: what was asked.
        on_over: is told what was found, or why nothing was.
        cost: tokens that it takes of a budget while it is searched.
        kept: tokens that were promised and cannot be taken back.
        is_again: whether it is searched once more, which may turn out to be for nothing: nothing more is promised.
        has_begun: whether it was admitted, and waits no longer.
    """

    plan: SearchPlan
    request: SearchRequest
    on_over: Callable[[FoundOnce | Exception], None]
    cost: int
    kept: tuple[int, ...] = ()
    is_again: bool = False
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.steps = self.plan.steps(self.request, self._promised)
        self.place: tuple[Hashable, int] | None = None  # of its search, while that is not its right-to-left scores
        self.parts: list[tuple[Hashable, int]] = []
        self.answers: dict[tuple[Hashable, int], Any] = {}
        self.forced = False

    def _promised(self) -> tuple[int, ...]:
        self.is_again = True
        return self.kept


@dataclass(eq=False)
class RunningBatch:
    """Sentences that are stepped together, within a budget of tokens.

    Attributes:
        open: opens the running search of a need.
        budget: tokens of all sentences that are searched at once; one sentence is always admitted.
        slice: about so many seconds a call of `advance` takes at most, and never more than two steps.
        spent: seconds of work so far, as the one who shares time out counts them.
    """

    open: Open
    budget: int
    slice: float
    spent: float = 0.0
    waiting: deque[deque[Task]] = field(default_factory=deque)  # of each call; calls take turns
    tasks: dict[tuple[Hashable, int], Task] = field(default_factory=dict)
    searches: dict[Hashable, ContinuousSearch] = field(default_factory=dict)
    held: int = 0
    pace: float = 0.0  # seconds of a step, averaged

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.tasks or self.waiting)

    def add(self, tasks: deque[Task]) -> None:
        """Let the sentences of one call wait for their turn."""
        self.waiting.append(tasks)

    def advance(self) -> None:
        """Let what fits come in, and let every running search make one or two steps."""
        began = time.perf_counter()
        self._admit()
        steps = 1 if self.pace * 2 > self.slice else 2
        for key, search in list(self.searches.items()):
            if not search.live:
                if len(self.searches) > MOST_IDLE:
                    del self.searches[key]
                continue
            for answer in search.step(steps):
                task = self.tasks.pop((key, answer.number), None)
                if task is not None:
                    self._answered(task, (key, answer.number), answer.found, answer.error)
        took = time.perf_counter() - began
        self.spent += took
        self.pace = took / steps if not self.pace else 0.9 * self.pace + 0.1 * took / steps

    def drop(self, gone: Callable[[Task], bool]) -> None:
        """Let sentences leave, whether they wait or are searched."""
        self.waiting = deque(
            kept for tasks in self.waiting if (kept := deque(task for task in tasks if not gone(task)))
        )
        for task in {id(task): task for task in self.tasks.values() if gone(task)}.values():
            self._leave(task)

    def reset(self) -> None:
        """Leave everything that is being searched, and its searches, for new ones; what waits goes on waiting."""
        self.tasks, self.searches, self.held = {}, {}, 0

    def peek(self, task: Task) -> list[tuple[int, ...]]:
        """Return the tokens of what a sentence's output can still come from; nothing while it is not searched."""
        if task.place is None:
            return []
        key, number = task.place
        return self.searches[key].peek(number)

    def _admit(self) -> None:
        fresh = 0  # what comes is encoded in one go, so it comes by and by
        while self.waiting and (not self.held or self.held + self.waiting[0][0].cost <= self.budget):
            fresh += self.waiting[0][0].cost
            if fresh > self.budget // 8 and fresh > self.waiting[0][0].cost:
                return
            tasks = self.waiting.popleft()
            task = tasks.popleft()
            if tasks:
                self.waiting.append(tasks)
            self.held += task.cost
            task.has_begun = True
            self._go_on(task, None)

    def _go_on(self, task: Task, answer: Any) -> None:
        """Give a plan what it needed; find out what it needs next, or that it is over. An error is the task's alone."""
        try:
            self._search(task, task.steps.send(answer))
        except StopIteration as end:
            self.held -= task.cost
            task.on_over(end.value)
        except Exception as error:
            self.held -= task.cost
            task.on_over(error)

    def _search(self, task: Task, need: Need) -> None:
        """Let what a plan needs join a search."""
        task.forced = need.outputs is not None
        source, outputs = need.request.source, need.outputs
        forced = [forced_request(source, output, Direction.RIGHT_TO_LEFT) for output in outputs or ()]
        requests = [need.request] if outputs is None else forced
        key, make = self.open(task.plan, need)
        if key not in self.searches:
            self.searches[key] = make()
        task.parts = [(key, number) for number in self.searches[key].admit(requests)]
        task.place = None if task.forced else task.parts[0]
        self.tasks.update(dict.fromkeys(task.parts, task))

    def _answered(self, task: Task, part: tuple[Hashable, int], found: Any, error: Exception | None) -> None:
        if error is not None:
            self._leave(task)
            task.on_over(error)
            return
        task.answers[part] = found
        if len(task.answers) < len(task.parts):
            return
        answers = [task.answers[part] for part in task.parts]
        task.answers, task.parts, task.place = {}, [], None
        self._go_on(task, [list(one[0].token_log_probabilities) for one in answers] if task.forced else answers[0])

    def _leave(self, task: Task) -> None:
        self.held -= task.cost
        for part in task.parts:
            if self.tasks.pop(part, None) is not None:
                self.searches[part[0]].cancel(part[1])
