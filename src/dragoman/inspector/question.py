"""What is asked of a model, and of the one beside which it is set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.audio.listing import Given
from dragoman.inspector.conventions import CONVENTIONS
from dragoman.inspector.what_if import Changes
from dragoman.translation import Translator


@dataclass(frozen=True)
class Question:
    """What is asked of a model.

    Attributes:
        text: what it reads; or a sound, for a model that listens.
        target: a text, or its ids, whose stages are to be seen, and that is compared with what is written.
        prefix: what the output must begin with: a text, or ids.
        beside: a longer one in the same batch, so that there is padding.
        changes: about the model.
        options: of the search, where they differ from the model's own.
        views: whether each step is computed in all three ways.
    """

    text: Given
    target: str | tuple[int, ...] | None = None
    prefix: str | tuple[int, ...] = ""
    beside: Given | None = None
    changes: Changes = field(default_factory=Changes)
    options: tuple[tuple[str, Any], ...] = ()
    views: bool = True


def other_of(
    model: Translator | str | Path, question: Question, against: Translator | str | Path
) -> tuple[Translator | str | Path, Question]:
    """Return what a model is to be set beside, and what is asked of that.

    Args:
        model: the one.
        question: what is asked of it.
        against: another model; or a name of `SYSTEMS`, which is the same model otherwise.
    """
    options = tuple(one for one in question.options if one[0] != "beam_size")
    if against == "greedy":
        plain = tuple(one for one in options if not one[0].startswith("length_penalty"))
        return model, replace(question, options=(*plain, ("beam_size", 1)))
    if against == "int8":
        return model, replace(question, changes=replace(question.changes, precision="int8"))
    if against in CONVENTIONS:
        return model, replace(question, changes=replace(question.changes, convention=str(against)))
    # Heads have places in one model only, ids a meaning in one vocabulary.
    changes = replace(question.changes, heads=())
    return against, replace(
        question, changes=changes, prefix=question.prefix if isinstance(question.prefix, str) else ""
    )


# What the same weights can be set beside.
SYSTEMS = ("greedy", "int8", *CONVENTIONS)
