"""Explaining a masked model: what it sees around a gap, and what it puts there."""

from __future__ import annotations

from torch import Tensor

from dragoman.inspection.facts import Step
from dragoman.inspection.subject import Subject, candidate_of, check_length, encode, framed, top_candidates
from dragoman.inspection.trace import Trace
from dragoman.language import Filler
from dragoman.language.filling import split_at_gaps, with_gaps
from dragoman.sequences import pad_rows
from dragoman.stages.capture import captured
from dragoman.stages.stage import Sides
from dragoman.stages.words import say
from dragoman.text.tokenizer import SPECIALS


def explain_filling(filler: Filler, text: str) -> Trace:
    """Return the stages of the first pass over a text, and one step for each gap; without a gap, the stages alone.

    Raises:
        DataError: the text is empty or longer than 256 pieces.
    """
    tokenizer, notes = filler.tokenizer, ()
    parts = split_at_gaps(text)
    if len(parts) > 1:
        check_length([*with_gaps(tokenizer, parts), tokenizer.eos])  # each gap takes a pass: before the filling
        steps, first, last, written = _fill(filler, text)
    else:
        ids = [*encode(tokenizer, parts[0]), tokenizer.eos]
        steps, first, last, written = [], ids, ids, parts[0]
        notes = (say("the text has no <mask>, so there is nothing to fill; every position is predicted all the same"),)
    read, output = framed(tokenizer, text, first), framed(tokenizer, written, last)
    device = next(filler.model.parameters()).device
    source = pad_rows([first], device)
    subject = Subject(filler.model, source, source[:, :0], Sides("masked", read.pieces, entries=tokenizer.pieces), text)
    return subject.trace(read, None, output, search=say("the surest gap first"), steps=steps, notes=notes)


def _fill(filler: Filler, text: str) -> tuple[list[Step], list[int], list[int], str]:
    """Steps, ids before and after, and the text that came out."""
    tokenizer = filler.tokenizer
    with captured(filler.model) as calls:
        [[filling]] = filler.fill([text])
    given = [call.given[0].tolist() for call in calls if call.path == "embedding.tokens" and call.given is not None]
    logits = [call.gave.cpu() for call in calls if call.path == "generator"]
    steps, last = [], given[-1]
    for number, (ids, rows) in enumerate(zip(given, logits, strict=True), 1):
        gaps = [place for place, token in enumerate(ids) if token == tokenizer.mask]
        gap, token = _surest(rows)
        chosen = candidate_of(tokenizer, rows[gap], token)
        steps.append(
            Step(number, tuple(tokenizer.pieces(ids)), top_candidates(tokenizer, rows[gap]), chosen, gaps[gap])
        )
        last = [*ids[: gaps[gap]], token, *ids[gaps[gap] + 1 :]]
    return steps, given[0], last, filling.text


def _surest(logits: Tensor) -> tuple[int, int]:
    """The gap with the likeliest piece, and that piece; special tokens are none."""
    log_probs = logits.log_softmax(-1)
    log_probs[:, : len(SPECIALS) + 1] = float("-inf")
    gap = int(log_probs.amax(-1).argmax())
    return gap, int(log_probs[gap].argmax())
