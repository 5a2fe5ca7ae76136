"""Every candidate that a search looks at, step by step, and what becomes of it: told by the searches themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.search.beam import Beam
from dragoman.search.dispatch import open_search
from dragoman.search.greedy import Line
from dragoman.search.hypothesis import Hypothesis, hypothesis_score
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.sentence import Sentence
from dragoman.sequences import Direction
from dragoman.stages.words import say
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.plan import SearchPlan

_ENDS = "`</s>` finishes a hypothesis only from among the first {size} of all candidates; this is number {rank}"
_FULL = "{size} candidates with a higher sum of log-probabilities live on"
_LEFT = "it was alive when the search ended: {stop}"
_BETTER = "{size} hypotheses are finished, and all score higher than the best live one as it stands"
_BEST = "it is the likeliest, and greedy search takes no other"
_KEPT = "it is among the {size} likeliest that go on"
_DONE = "`</s>` is among the first {size} of all candidates: finished"


@dataclass(frozen=True)
class Event:
    """One candidate of one step of a search.

    Attributes:
        step: from 1.
        rank: among the candidates of the step, from 1; by the sum of log-probabilities.
        parent: the `id` of the candidate that it continues; None for the beginning.
        token: the id of its newest piece.
        log_probability: of this piece.
        sum: of the log-probabilities of all its pieces.
        score: the sum with the length penalty or reward, as if it ended here.
        fate: `kept` (it lives on), `pruned`, `finished`, or `left` (alive when the search ended).
        why: the reason, in words.
        piece: of the token, where a tokenizer was at hand.
    """

    step: int
    rank: int
    parent: str | None
    token: int
    log_probability: float
    sum: float
    score: float
    fate: str
    why: str
    piece: str = ""

    @property
    def id(self) -> str:
        """What the candidate is called by: its step and its rank."""
        return f"{self.step}.{self.rank}"


@dataclass
class Watch:
    """What was seen of one search of one request.

    Attributes:
        request: what was searched for.
        events: all candidates, step by step.
        stop: why the search ended, in words.
        found: what it found, best first.
    """

    request: SearchRequest
    events: list[Event] = field(default_factory=list)
    stop: str = ""
    found: list[Hypothesis] = field(default_factory=list)

    def end(self, stop: str, step: int) -> None:
        """Let the search end, at this step."""
        self.stop = stop
        self.events = [
            replace(event, fate="left", why=say(_LEFT).format(stop=stop))
            if event.step == step and event.fate == "kept"
            else event
            for event in self.events
        ]

    def score(self, total: float, length: int) -> float:
        """Return what a sum of log-probabilities of so many tokens is ranked by."""
        options = self.request.options
        return hypothesis_score(total, length, options.length_penalty, options.length_penalty_formula)


class WatchedBeam(Beam):
    """A beam that is searched as any other, and seen."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self.watch = Watch(request)
        self._names: list[str | None] = [None]

    def descend(self, ranked: Sequence[tuple[float, int, int, float]]) -> None:
        """Tell what becomes of each candidate, as `Beam.descend` decides it."""
        names, step, watch = self._names, self.step + 1, self.watch
        live: list[str | None] = []
        before = len(watch.events)
        for rank, (total, parent, token, value) in enumerate(ranked, 1):
            if total == float("-inf"):
                continue
            fate, why = self._fate(rank, token, len(live))
            score = watch.score(total, step)
            event = Event(step, rank, names[parent], token, value, total, score, fate, why)
            watch.events.append(event)
            if fate == "kept":
                live.append(event.id)
        first = watch.events[before].id if len(watch.events) > before else None
        self._names = live + [first] * (self.size - len(live))
        super().descend(ranked)
        if self.found is not None:
            watch.end(self._stop(), step)

    def _fate(self, rank: int, token: int, live: int) -> tuple[str, str]:
        if token == self.request.frame.end:
            if rank <= self.size:
                return "finished", say(_DONE).format(size=self.size)
            return "pruned", say(_ENDS).format(size=self.size, rank=rank)
        if live < self.size:
            return "kept", say(_KEPT).format(size=self.size)
        return "pruned", say(_FULL).format(size=self.size)

    def _stop(self) -> str:
        best, wanted = self.totals[0], self.request.options.n_best
        if best == float("-inf"):
            return say("no candidate is left that could go on")
        if len(self.finished) >= self.size and self.watch.score(best, self.step) <= self._best(self.size)[-1].score:
            return say(_BETTER).format(size=self.size)
        return say("no live hypothesis can still enter the {wanted} best, however long it grows").format(wanted=wanted)


class WatchedLine(Line):
    """An output of greedy search that is searched as any other, and seen."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self.watch = Watch(request)

    def append(self, token: int, value: float) -> None:
        """Tell what was taken."""
        watch, step = self.watch, self.step + 1
        before = watch.events[-1] if watch.events else None
        total = value if before is None else before.sum + value
        ends = token == self.request.frame.end
        parent = None if before is None else before.id
        fate = "finished" if ends else "kept"
        watch.events.append(Event(step, 1, parent, token, value, total, watch.score(total, step), fate, say(_BEST)))
        super().append(token, value)
        if ends:
            watch.stop = say("`</s>` was the likeliest")


def shown_watch(found: Sequence[Hypothesis], watches: Sequence[Watch]) -> Watch:
    """Return the search that found what is written: not the first one, if that went in circles."""
    best = found[0].tokens
    return next((one for one in watches if best in [other.tokens for other in one.found]), watches[0])


def told_events(events: Iterable[Event]) -> list[Event]:
    """Return the candidates that are worth a line: of those that a step prunes the best alone."""
    told: list[Event] = []
    pruned: set[int] = set()
    for event in events:
        if event.fate != "pruned" or event.step not in pruned:
            told.append(event)
        if event.fate == "pruned":
            pruned.add(event.step)
    return told


def with_pieces(events: Sequence[Event], tokenizer: Tokenizer) -> tuple[Event, ...]:
    """Return candidates with the pieces of their tokens."""
    pieces = tokenizer.pieces([event.token for event in events])
    return tuple(replace(event, piece=piece) for event, piece in zip(events, pieces, strict=True))


def watched_search(
    model: NextTokenModel, request: SearchRequest, mates: Sequence[SearchRequest] = ()
) -> tuple[list[Hypothesis], Watch]:
    """Return what greedy or beam search finds for a request, and all that it looked at.

    Args:
        model: any next-token model; it is stepped through even if it can answer requests as a whole.
        request: without sampling.
        mates: other requests, in the same batch.

    Raises:
        ModelError: the model gives NaN, or zero probability to every output.
    """
    watched = (WatchedLine if request.options.beam_size == 1 else WatchedBeam)(request)
    others: list[Sentence] = [(Line if one.options.beam_size == 1 else Beam)(one) for one in mates]
    running = open_search(model)
    running.admit([watched, *others])
    while watched.found is None:
        running.step()
    watched.watch.found = watched.found
    return watched.found, watched.watch


def watched_plan(
    plan: SearchPlan, request: SearchRequest, mates: Sequence[SearchRequest] = ()
) -> tuple[list[Hypothesis], list[Watch]]:
    """Return what a plan finds for a request, as translating would, with each search that it took.

    There is a second search where the first went in circles, and more where outputs have the same text.

    Args:
        plan: made of the options.
        request: without sampling.
        mates: other requests, in the same batch.
    """
    model = plan.engine.torch.next_token_model(request.options)
    steps, watches = plan.steps(request), []
    need = next(steps)
    while True:
        answer: Any
        if need.outputs is None:
            answer, watch = watched_search(model, need.request, mates)
            watches.append(watch)
        else:
            forced = [need.request.source], [need.outputs], plan.options, Direction.RIGHT_TO_LEFT
            [answer] = plan.engine.force(*forced)
        try:
            need = steps.send(answer)
        except StopIteration as end:
            return end.value.hypotheses, watches
