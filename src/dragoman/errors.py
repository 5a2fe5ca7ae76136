"""The one family of errors that a user can meet and mend.

Everything a person did or brought (a file, a setting, a model directory) that cannot be used raises a
`DragomanError`: one plain message that says where, what was expected, what was found and what to do. Programming
mistakes stay ordinary exceptions.
"""

from __future__ import annotations

from os import PathLike

_LONGEST = 200  # characters of what was found


class DragomanError(Exception):
    """A mistake that the user can mend.

    Args:
        message: what is wrong, one sentence without a full stop.
        file: the file it was found in.
        line: its line there, counted from 1.
        byte: its byte offset within that line, counted from 0.
        expected: what was expected there.
        found: what was found instead.
        hint: what to do about it.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        file: str | PathLike[str] | None = None,
        line: int | None = None,
        byte: int | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        self.message = escaped(message, kept="\n")
        self.file = None if file is None else str(file)
        self.line = line
        self.byte = byte
        self.expected = None if expected is None else escaped(str(expected), kept="\n\t")
        self.found = None if found is None else _told(found)
        self.hint = hint
        super().__init__(self._compose())

    def __str__(self) -> str:
        """Return the message in its parts, with what was added to it on its way up."""
        return self._compose()

    def _compose(self) -> str:
        place = escaped(self.file or "")
        if self.line is not None:
            place += f", line {self.line}" if place else f"line {self.line}"
        if self.byte is not None:
            place += f", byte {self.byte}"
        parts = [f"{place}: {self.message}" if place else self.message]
        if self.expected is not None:
            parts.append(f"  expected: {self.expected}")
        if self.found is not None:
            parts.append(f"  found:    {self.found}")
        if self.hint is not None:
            parts.append(f"  to do:    {self.hint}")
        return "\n".join(parts)


def escaped(text: str, kept: str = "") -> str:
    r"""Return a text whose control characters, and what cannot be printed, are spelled as in `\x1b`; `kept` stay.

    What a model or a file says may else colour a terminal, move about in it, or add lines that we never wrote.
    """
    if text.isprintable():
        return text
    spelled = (c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
    return "".join(spelled)


def _told(value: object) -> str:
    """What was found, of bounded length; another error, which has been told like this, keeps its lines."""
    if isinstance(value, BaseException):
        text, longest = escaped(str(value), kept="\n"), 20 * _LONGEST
    else:
        text, longest = escaped(str(value)[: _LONGEST + 1], kept="\t"), _LONGEST
    return text if len(text) <= longest else text[:longest] + "…"


class ConfigError(DragomanError):
    """A setting is unknown, of the wrong type, or contradicts another."""

    exit_code = 2


class DataError(DragomanError):
    """A text file, corpus, vocabulary or prepared data directory cannot be used as it is."""

    exit_code = 2


class ModelError(DragomanError):
    """A model directory or checkpoint is missing, damaged, or does not fit what was asked of it."""

    exit_code = 2


class DivergenceError(DragomanError):
    """Training met too many updates in a row whose loss or gradient was not finite."""

    exit_code = 3


class SaveError(DragomanError):
    """A checkpoint, or the run directory, could not be written; training ends at the third in a row."""

    exit_code = 4


class LockedError(DragomanError):
    """Another process is training into the same run directory."""

    exit_code = 5
