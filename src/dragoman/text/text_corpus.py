"""A text as a corpus: files of lines, each line a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dragoman.config import DataConfig
from dragoman.text.corpus import Corpus
from dragoman.text.lines import BadText, ReadCounts, scan_lines
from dragoman.text.pair import Pair


class TextLine(Pair):
    """A line of a text: a pair without a source, known by its target."""

    __slots__ = ()

    @property
    def sides(self) -> tuple[str, ...]:
        """The line alone."""
        return (self.target,)


@dataclass(frozen=True)
class TextCorpus(Corpus):
    """The lines of files, in their order; may be iterated again and again, and is never held in memory.

    Args:
        files: UTF-8 text, perhaps gzipped (`.gz`); empty lines are kept.
        on_bad_text: what a line that is not UTF-8 does: stop, replace or skip.

    Raises:
        DataError: while iterating, with file, line, and what was expected and found.
    """

    files: tuple[str, ...] = ()
    on_bad_text: BadText = "stop"

    @classmethod
    def from_config(cls, data: DataConfig, part: Literal["train", "dev", "test"] = "train") -> TextCorpus:
        """Return the training, held-out or test text of a config; without any, `corpus.files` is empty."""
        return cls(data.text if part == "train" else getattr(data, f"{part}_text"), data.on_bad_text)

    def read(self, counts: ReadCounts | None = None) -> Iterator[Pair]:
        """Yield the lines; `counts` is filled in with those read, replaced and skipped."""
        counts = ReadCounts() if counts is None else counts
        for path in self.files:
            for line in scan_lines(path, on_bad_text=self.on_bad_text, counts=counts):
                if line.problem is None:
                    yield TextLine("", line.text, path, line.number)
