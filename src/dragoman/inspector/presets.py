"""What a page without a server offers to change: the same text, traced again with one thing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dragoman.audio.listing import Given
from dragoman.inspector.question import Question
from dragoman.inspector.record import Inspection

WIDE = 4  # hypotheses, where the search was greedy


def preset_questions(question: Question, found: Inspection, twice: Given | None) -> Iterator[tuple[str, Question]]:
    """Yield what is worth a try, by name.

    Args:
        question: what was asked.
        found: what came of it, by an encoder-decoder.
        twice: what may stand in one batch with it.
    """
    plain = replace(question, views=False)
    changes = plain.changes
    beam = found.record["beam"]["size"]
    options = tuple(one for one in plain.options if one[0] != "beam_size" and not one[0].startswith("length_penalty"))
    yield ("beam", replace(plain, options=(*options, ("beam_size", WIDE)))) if beam == 1 else (
        "greedy", replace(plain, options=(*options, ("beam_size", 1)))
    )  # fmt: skip
    if changes.causal:
        yield "causal", replace(plain, changes=replace(changes, causal=False))
    heads = [one for one in found.record["summaries"]["heads"] if one["attention"].endswith("cross_attention")]
    if heads:
        sharp = min(heads, key=lambda one: one["entropy"])
        off = (*changes.heads, (sharp["attention"], sharp["head"]))
        yield "head", replace(plain, changes=replace(changes, heads=off))
    if question.beside is None and changes.padding and twice is not None:
        longer = replace(plain, beside=twice)
        yield "beside", longer
        yield "padding", replace(longer, changes=replace(changes, padding=False))
