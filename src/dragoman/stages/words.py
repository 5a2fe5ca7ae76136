"""What is told, in the language it is told in: English sentences are the keys, as with gettext."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources

from dragoman.errors import ConfigError

_LONGEST = 16
LANGUAGES = ("en", "zh")
_SPOKEN: ContextVar[str] = ContextVar("spoken", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Let everything inside the `with` block be told in a language: "en" or "zh".

    Raises:
        ConfigError: there is no such language.
    """
    if language not in LANGUAGES:
        raise ConfigError("there is no such language", expected=" or ".join(LANGUAGES), found=language)
    token = _SPOKEN.set(language)
    try:
        yield
    finally:
        _SPOKEN.reset(token)


def spoken() -> str:
    """Return the language in which things are told here."""
    return _SPOKEN.get()


def say(sentence: str) -> str:
    """Return a sentence in the language that is spoken, with `{name}` where a value belongs, as it is in English."""
    return chinese()[sentence] if _SPOKEN.get() == "zh" else sentence


@cache
def chinese() -> dict[str, str]:
    """Return all sentences in Chinese, by what they are in English."""
    text = resources.files("dragoman.stages").joinpath("chinese.toml").read_text(encoding="utf-8")
    return {english: told for part in tomllib.loads(text).values() for english, told in part.items()}


def shown(piece: str) -> str:
    """Return a piece as it can be printed: control characters visible, long ones cut."""
    text = printable(piece)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def printable(text: str) -> str:
    """Return a text on one line, its control characters visible."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reads_writes(read: str, written: str) -> str:
    """Return what a position of the decoder is called everywhere: by the piece it reads, and by the one it writes."""
    return say("reads {read} → writes {written}").format(read=bare(read), written=bare(written))


def bare(piece: str) -> str:
    """Return a piece as one reads it: the mark of a word's beginning is no letter of it."""
    return shown(piece.removeprefix("▁") or piece)
