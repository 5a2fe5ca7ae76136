"""A search that goes on while requests join and leave: every row has a step, options and a limit of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.constraints import banned, constrain, differs
from dragoman.search.protocol import NextTokenModel, likeliest
from dragoman.search.sentence import Sentence
from dragoman.sequences import SourceBatch

# Advances some sentences of one group by the values and tokens that they look at, `[rows, count]`; where they look at
# all, the values are log-probabilities by token and there are no tokens.
Advance = Callable[[Sequence[Any], Float[Tensor, "rows count"], Int[Tensor, "rows count"] | None], None]


@dataclass
class RunningSearch:
    """Sentences of a batch that is searched step by step.

    Attributes:
        model: the next-token model.
        kinds: what advances the sentences of each kind of search, by the first entry of their group.
        sentences: in the order of their rows.
    """

    model: NextTokenModel
    kinds: Mapping[str, Advance]
    sentences: list[Sentence] = field(default_factory=list)
    _state: Any = None
    _tokens: Tensor | None = None

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Let sentences join, each at its own first step."""
        if not sentences:
            return
        device = self.model.device
        state = self.model.start(SourceBatch.of([sentence.request.source for sentence in sentences], device))
        begin = [sentence.request.frame.begin for sentence in sentences]
        tokens = torch.tensor(begin, dtype=torch.long, device=device)
        if self._tokens is not None and self.sentences:
            state, tokens = self._state.join(state), torch.cat([self._tokens, tokens])
        self.sentences = [*self.sentences, *sentences]
        self._state, self._tokens = state, tokens

    def cancel(self, gone: Sequence[Sentence]) -> None:
        """Let sentences leave before they are finished."""
        ids = set(map(id, gone))
        kept = [row for sentence, rows in self._placed() if id(sentence) not in ids for row in rows]
        self.sentences = [sentence for sentence in self.sentences if id(sentence) not in ids]
        if self.sentences and self._tokens is not None:
            index = torch.tensor(kept, dtype=torch.long, device=self._tokens.device)
            self._state, self._tokens = self._state.reorder(index), self._tokens[index]

    def step(self) -> list[Sentence]:
        """Advance every sentence by one token; those that are finished then leave, and are returned.

        Raises:
            ModelError: the model gives NaN.
        """
        values, tokens = self._look()
        placed = list(self._placed())
        groups: dict[tuple[object, ...], list[tuple[Sentence, range]]] = {}
        for sentence, rows in placed:
            groups.setdefault(sentence.group, []).append((sentence, rows))
        for (kind, *_), members in groups.items():
            rows = [row for _, its in members for row in its]
            some = [sentence for sentence, _ in members]
            seen = _seen(values, tokens, None if len(rows) == len(values) else rows, some[0].count)
            self.kinds[str(kind)](some, *seen)
        self.sentences = [sentence for sentence in self.sentences if sentence.found is None]
        if self.sentences:
            self._descend(
                [its.start + row for sentence, its in placed if sentence.found is None for row in sentence.parents]
            )
        return [sentence for sentence, _ in placed if sentence.found is not None]

    def run(self) -> None:
        """Go on until every sentence is finished.

        Raises:
            ModelError: the model gives NaN.
        """
        while self.sentences:
            self.step()

    def _placed(self) -> Iterator[tuple[Sentence, range]]:
        """Each sentence with its rows."""
        first = 0
        for sentence in self.sentences:
            yield sentence, range(first, first + sentence.width)
            first += sentence.width

    def _look(self) -> tuple[Tensor, Tensor | None]:
        """One step of the model: the likeliest tokens of each row, or all log-probabilities if somebody wants them."""
        assert self._tokens is not None
        counts = [sentence.count for sentence in self.sentences]
        most = None if None in counts else max(count for count in counts if count is not None)
        step_top = getattr(self.model, "step_top", None)
        if step_top is not None and most is not None and not any(map(differs, self.sentences)):
            forbidden = {banned(sentence) for sentence in self.sentences}
            if len(forbidden) == 1:
                ids = torch.tensor(forbidden.pop(), dtype=torch.long, device=self._tokens.device)
                values, tokens, self._state = step_top(self._state, self._tokens, most, ids)
                return values, tokens
        log_probs, self._state = self.model.step(self._state, self._tokens)
        log_probs = constrain(log_probs, self.sentences)
        return (log_probs, None) if most is None else likeliest(log_probs, most)

    def _descend(self, parents: list[int]) -> None:
        """Let the rows that were chosen become the live ones; rows of finished sentences leave the batch."""
        assert self._tokens is not None
        device, before = self._tokens.device, len(self._tokens)
        newest = [token for sentence in self.sentences for token in sentence.tokens]
        self._tokens = torch.tensor(newest, dtype=torch.long, device=device)
        if parents != list(range(before)):
            self._state = self._state.reorder(torch.tensor(parents, dtype=torch.long, device=device))


def _seen(
    values: Tensor, tokens: Tensor | None, rows: list[int] | None, count: int | None
) -> tuple[Tensor, Tensor | None]:
    """What some rows look at."""
    if rows is not None:
        index = torch.tensor(rows, device=values.device)
        values, tokens = values[index], None if tokens is None else tokens[index]
    if tokens is None:
        return (values, None) if count is None else likeliest(values, count)
    return values[:, :count], tokens[:, :count]
