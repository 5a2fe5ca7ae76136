"""Lists of recordings: a line of a TSV file for each, `path [TAB start TAB end]`, seconds from the beginning."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from dragoman.audio.waveform import Waveform
from dragoman.errors import DataError
from dragoman.given import check_series

FORM = "path, or path TAB start TAB end in seconds"


@dataclass(frozen=True)
class Recording:
    """A file of sound, or a part of one.

    Attributes:
        path: of the file.
        start: where the part begins, in seconds.
        end: where it ends; None: with the file.
    """

    path: str
    start: float = 0.0
    end: float | None = None

    @classmethod
    def of_line(cls, text: str, *, folder: str = "", file: str | None = None, line: int | None = None) -> Recording:
        """Return what a line of a list names.

        Args:
            text: the line.
            folder: what its path is relative to.
            file: the list, for errors.
            line: its number there.

        Raises:
            DataError: it is not of the form.
        """
        parts = text.split("\t")
        while len(parts) > 1 and not parts[-1].strip():
            parts.pop()
        wrong = DataError("this names no recording", file=file, line=line, expected=FORM, found=text,
                          hint="times are numbers, the end after the start")  # fmt: skip
        if not parts[0].strip() or len(parts) not in (1, 3) or "\0" in parts[0]:
            raise wrong
        try:
            start, end = (float(one) for one in parts[1:]) if parts[1:] else (0.0, None)
        except ValueError:
            raise wrong from None
        if not (math.isfinite(start) and start >= 0) or (end is not None and not (start < end < math.inf)):
            raise wrong
        return cls(os.path.abspath(os.path.join(folder, parts[0])), start, end)

    def __str__(self) -> str:
        """Return the line that names it."""
        return self.path if self.end is None else f"{self.path}\t{self.start:g}\t{self.end:g}"

    @property
    def seconds(self) -> float:
        """How long it takes to hear, by the header of its file.

        Raises:
            DataError: there is no such file, or it is no sound.
        """
        if self.end is not None:
            return self.end - self.start
        from dragoman.audio.reading import length_of

        return max(0.0, length_of(Path(self.path)) - self.start)

    def read(self, sample_rate: int | None = None, *, limit_seconds: float = 3600.0) -> Waveform:
        """Return the sound, resampled to a rate if one is given.

        Raises:
            DataError: there is no such file, it is no sound, or the part lies outside it.
        """
        from dragoman.audio.reading import read_audio

        return read_audio(
            Path(self.path), sample_rate=sample_rate, start=self.start, end=self.end, limit_seconds=limit_seconds
        )


# What sources are given as: a text; or to a model that listens a path, the line of a list, a recording or a waveform.
Given = str | PathLike[str] | Recording | Waveform


def as_sounds(given: object, name: str = "sounds", first: int = 0) -> Iterator[Recording | Waveform]:
    """Yield what was given as sounds, one at a time: paths, lines of a list, recordings and waveforms.

    Args:
        given: gives them one after the other.
        name: what they are called in messages.
        first: number of the first one in a longer series, for messages.

    Raises:
        DataError: they are no series, or one of them is no sound; says which.
    """
    return _checked(check_series(given, name), name, first)


def _checked(given: Iterable[object], name: str, first: int) -> Iterator[Recording | Waveform]:
    for number, one in enumerate(given, first):
        if isinstance(one, str):
            yield Recording.of_line(one)
        elif isinstance(one, PathLike):
            yield Recording(os.path.abspath(str(fspath(one))))
        elif isinstance(one, (Recording, Waveform)):
            yield one
        else:
            expected = "a path, a Recording or a Waveform, for the model listens"
            raise DataError(f"{name}[{number}] is no sound", expected=expected, found=repr(one)[:60])


def read_list(path: Path, lines: Iterable[str]) -> Iterator[Recording]:
    """Yield what the lines of a list name, their paths made whole.

    Args:
        path: of the list.
        lines: what stands in it.

    Raises:
        DataError: a line names no recording, or one that is not there; says which.
    """
    folder = os.path.dirname(os.path.abspath(path))
    for number, line in enumerate(lines, 1):
        one = Recording.of_line(line, folder=folder, file=str(path), line=number)
        if not os.path.exists(one.path):
            raise DataError("there is no such recording", file=str(path), line=number, found=one.path)
        yield one
