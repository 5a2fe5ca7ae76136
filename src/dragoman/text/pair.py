"""A pair of texts, as every reader gives it."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source text and its target text; `file` and `line` (from 1) say where the source stands."""

    source: str
    target: str
    file: str
    line: int

    @property
    def sides(self) -> tuple[str, ...]:
        """Its texts; by the first of them it is known."""
        return self.source, self.target

    @property
    def is_complete(self) -> bool:
        """Whether no side is empty."""
        return all(side.strip() for side in self.sides)
