"""The rungs of the ladder, lowest first, and how one is found again."""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import ModelError
from dragoman.markov.files import SETTINGS, read_model
from dragoman.markov.matrices import MatrixSkips
from dragoman.markov.model import MarkovModel
from dragoman.markov.orders import FirstOrder, SecondOrder, ZerothOrder
from dragoman.markov.skips import MaskedSkips, Skips

RUNGS: tuple[type[MarkovModel], ...] = (ZerothOrder, FirstOrder, SecondOrder, Skips, MaskedSkips, MatrixSkips)


def is_markov(directory: str | Path) -> bool:
    """Return whether a directory says that it holds a Markov model."""
    return (Path(directory) / SETTINGS).exists()


def load(directory: str | Path) -> MarkovModel:
    """Return the model that a directory holds, of whichever kind.

    Raises:
        ModelError: a file is missing or damaged, or of an unknown kind.
    """
    settings, parts = read_model(Path(directory))
    for rung in RUNGS:
        if rung.kind == settings.get("kind"):
            return rung.from_files(Path(directory), settings, parts)
    expected = ", ".join(rung.kind for rung in RUNGS)
    file = Path(directory) / SETTINGS
    raise ModelError("unknown kind of Markov model", file=file, expected=expected, found=settings.get("kind"))
