"""What every search keeps of one request while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest


class Sentence(ABC):
    """One request that is being searched, by one kind of search, in some rows of a batch.

    Attributes:
        request: what was asked.
        found: what was finished, best first, once the search is over.
    """

    def __init__(self, request: SearchRequest) -> None:
        self.request = request
        self.found: list[Hypothesis] | None = None

    @property
    @abstractmethod
    def group(self) -> tuple[object, ...]:
        """What sentences that are advanced together have in common; the kind of search comes first."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many of the likeliest tokens of each row the search looks at; None is all."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many rows it has."""

    @property
    @abstractmethod
    def step(self) -> int:
        """How many tokens each row has, the one that begins outputs not counted."""

    @property
    @abstractmethod
    def parents(self) -> list[int]:
        """Which of its rows before the last step each of its rows continues."""

    @property
    @abstractmethod
    def tokens(self) -> list[int]:
        """The newest token of each row."""

    @abstractmethod
    def histories(self) -> list[list[int]]:
        """Return the tokens of each row."""

    @property
    def finished(self) -> Sequence[Hypothesis]:
        """What is finished so far, in no order."""
        return self.found or ()
