"""Greedy search: the likeliest token at each step."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.hypothesis import Hypothesis, check_numbers, make_hypothesis
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.running import RunningSearch
from dragoman.search.sentence import Sentence


class Line(Sentence):
    """One output that grows by a token at each step: what greedy search and sampling have in common.

    It finishes as one hypothesis.
    """

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self._tokens: list[int] = []
        self._values: list[float] = []

    @property
    def group(self) -> tuple[object, ...]:
        """All outputs of this kind grow together."""
        return ("greedy",)

    @property
    def count(self) -> int | None:
        """The likeliest token is all it looks at."""
        return 1

    @property
    def width(self) -> int:
        """One row."""
        return 1

    @property
    def parents(self) -> list[int]:
        """It continues itself."""
        return [0]

    @property
    def step(self) -> int:
        """How many tokens it has."""
        return len(self._tokens)

    @property
    def tokens(self) -> list[int]:
        """The newest token."""
        return self._tokens[-1:]

    def histories(self) -> list[list[int]]:
        """Return the tokens of the one hypothesis."""
        return [self._tokens]

    def append(self, token: int, value: float) -> None:
        """Go on with a token of some log-probability."""
        self._tokens.append(token)
        self._values.append(value)
        if token == self.request.frame.end:
            request = self.request
            self.found = [make_hypothesis(self._tokens[:-1], self._values, request.options, request.max_length)]


def advance_greedily(
    lines: Sequence[Line], values: Float[Tensor, "rows 1"], tokens: Int[Tensor, "rows 1"] | None
) -> None:
    """Append its likeliest token to each output.

    Raises:
        ModelError: the model gives NaN.
    """
    assert tokens is not None
    chosen = values[:, 0].tolist()
    check_numbers(chosen)
    for line, token, value in zip(lines, tokens[:, 0].tolist(), chosen, strict=True):
        line.append(token, value)


def greedy_search(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return one hypothesis for each request; outputs that are finished leave the batch.

    Raises:
        ModelError: the model gives NaN.
    """
    lines = [Line(request) for request in requests]
    running = RunningSearch(model, {"greedy": advance_greedily})
    running.admit(lines)
    running.run()
    return [line.found or [] for line in lines]
