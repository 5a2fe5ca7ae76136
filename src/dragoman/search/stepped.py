"""`ContinuousSearch` over any next-token model, by the searches of this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.search.continuous import Answer
from dragoman.search.dispatch import open_search, sentences_of
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.sentence import Sentence


@dataclass
class _Member:
    """A request with the sentences that it is searched as."""

    number: int
    sentences: list[Sentence]

    @property
    def is_over(self) -> bool:
        return all(sentence.found is not None for sentence in self.sentences)

    @property
    def found(self) -> list[Hypothesis]:
        """Best first; a search gives them in that order, several draws do not."""
        found = [one for sentence in self.sentences for one in sentence.found or ()]
        return found if len(self.sentences) == 1 else sorted(found, key=lambda one: -one.score)


@dataclass
class SteppedSearch:
    """Requests of every kind of search, stepped together.

    Attributes:
        model: the next-token model.
    """

    model: NextTokenModel
    _members: dict[int, _Member] = field(default_factory=dict)
    _next: int = 0

    def __post_init__(self) -> None:
        self._running = open_search(self.model)

    @property
    def live(self) -> int:
        """How many requests are being searched."""
        return len(self._members)

    def admit(self, requests: Sequence[SearchRequest]) -> list[int]:
        """Let requests take part from the next step on; return their numbers."""
        some = [_Member(self._next + place, sentences_of(request)) for place, request in enumerate(requests)]
        self._running.admit([sentence for member in some for sentence in member.sentences])
        self._next += len(some)
        self._members.update((member.number, member) for member in some)
        return [member.number for member in some]

    def step(self, steps: int = 1) -> list[Answer]:
        """Make up to so many steps, and none after one that finishes a request; an error ends all requests alike."""
        for _ in range(steps):
            if not self._members:
                break
            try:
                self._running.step()
            except Exception as error:
                over = [Answer(number, [], error) for number in self._members]
                self._members, self._running = {}, open_search(self.model)
                return over
            over = [Answer(member.number, member.found) for member in self._members.values() if member.is_over]
            if over:
                for answer in over:
                    del self._members[answer.number]
                return over
        return []

    def peek(self, number: int) -> list[tuple[int, ...]]:
        """Return the tokens of all hypotheses that the output can still come from, the likeliest first."""
        return [row for sentence in self._members[number].sentences for row in _rows(sentence)]

    def cancel(self, number: int) -> None:
        """Drop a request; nothing happens if it is over."""
        if (member := self._members.pop(number, None)) is not None:
            self._running.cancel([sentence for sentence in member.sentences if sentence.found is None])


def _rows(sentence: Sentence) -> list[tuple[int, ...]]:
    """The tokens of the hypotheses of a sentence, live and finished; the end stands after those of the latter."""
    live = [] if sentence.found is not None or not sentence.step else sentence.histories()
    return [tuple(row) for row in live] + [(*one.tokens, sentence.request.frame.end) for one in sentence.finished]
