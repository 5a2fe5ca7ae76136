"""The steps of a beam as a table: parents, sums, scores as arithmetic, and what became of each candidate and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.inspection.beam_events import Event, told_events
from dragoman.inspection.tables import folded_chinese, number, table
from dragoman.inspection.trace import Trace
from dragoman.stages.words import say, shown

WIDTH = 100
# Pieces of a candidate that are shown: all, or the first and the last ones.
_PATH, _LAST = 5, 3
_FATES = {"kept": "▸", "left": "▸", "finished": "■", "pruned": "·"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TOLD = (
    "The beam: the candidates of each step in the order of their sums of log P, and which one each goes on from; "
    "▸ lives on, ■ is finished, · is pruned (the best of these alone). The score is what each would be ranked by "
    "if it ended there."
)


def beam_lines(trace: Trace) -> Iterator[str]:
    """Yield the candidates of each step that live on or are finished, and the best of those that are not."""
    if not trace.beam:
        return
    yield ""
    yield from (f"   {line}" for line in folded_chinese(say(_TOLD), WIDTH - 3))
    both = trace.ranking and trace.ranking[0].right_to_left is not None
    if trace.ranked_by and not both:
        formula = say("score = {formula}, the length with </s>.").format(
            formula=trace.ranked_by.replace("log P", say("sum"))
        )
        yield f"   {formula}"
    yield ""
    pieces: dict[str | None, list[str]] = {None: []}
    rows = [["", "", say("after"), "", "log P", say("sum"), say("score"), "", say("why")]]
    reasons: dict[str, str] = {}
    for event in told_events(trace.beam):
        path = pieces[event.id] = [*pieces[event.parent], shown(event.piece)]
        told = " ".join(path if len(path) <= _PATH else [path[0], "…", *path[-_LAST:]])
        letter = reasons.setdefault(event.why, _LETTERS[len(reasons) % len(_LETTERS)])
        begin = [event.id, _FATES[event.fate], event.parent or "", told]
        rows.append([*begin, number(event.log_probability), number(event.sum), *_score(event, trace.ranked_by), letter])
    yield from table(rows, 3, left=4)
    yield ""
    for why, letter in reasons.items():
        first, *others = folded_chinese(why, WIDTH - 6)
        yield f"   {letter}  {first}"
        yield from (f"      {line}" for line in others)
    yield from _parents(trace.beam)
    yield from (f"   {line}" for line in folded_chinese(_greedy(trace.beam), WIDTH - 3))


def _score(event: Event, formula: str) -> tuple[str, str]:
    """The score, and the arithmetic that leads to it from the sum."""
    if event.score == event.sum or not event.score:
        return number(event.score), ""
    if "/" in formula:
        return number(event.score), f"= {number(event.sum)} / {number(event.sum / event.score)}"
    return number(event.score), f"= {number(event.sum)} + {number(event.score - event.sum)}"


def _greedy(events: Sequence[Event]) -> str:
    """What greedy search takes among the candidates, and whether the beam found a better one."""
    path: list[Event] = []
    while follows := [one for one in events if one.parent == (path[-1].id if path else None)]:
        path.append(max(follows, key=lambda event: event.log_probability))
    taken = ", ".join(event.id for event in path)
    finished = [event for event in events if event.fate == "finished"]
    if path[-1] not in finished:
        told = "Greedy search takes {taken} and leaves the beam there; --beam-size 1 shows what it writes."
        return say(told).format(taken=taken)
    best = max(finished, key=lambda event: event.score)
    if best == path[-1]:
        return say("Greedy search takes {taken}: it writes what scores best here, too.").format(taken=taken)
    told = (
        "Greedy search takes {taken}, with the score {score}; {best} has {more}. Higher is likelier, not always better."
    )
    return say(told).format(taken=taken, score=number(path[-1].score), best=best.id, more=number(best.score))


def _parents(events: Sequence[Event]) -> Iterator[str]:
    """The sum of one candidate as arithmetic: that of its parent, and its own log P."""
    known = {event.id: event for event in events}
    last = next((one for one in events if one.fate == "finished" and one.parent), None)
    if last is not None and last.parent is not None:
        parent = known[last.parent]
        sums = f"{number(parent.sum)} + ({number(last.log_probability)}) = {number(last.sum)}"
        yield "   " + say("A sum is the parent's sum and the candidate's own log P; of {id}: {sums}").format(
            id=last.id, sums=sums
        )
