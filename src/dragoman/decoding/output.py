"""Translations as lines of text: one line in, one line out."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.decoding.translation import Translation
from dragoman.files import json_text

_BREAKS = str.maketrans({"\n": " ", "\r": " ", "\x00": " "})


def one_line(text: str) -> str:
    """A text that cannot end its line early: line breaks become blanks."""
    return text.translate(_BREAKS)


def format_translation(
    result: Translation,
    number: int,
    *,
    n_best: bool = False,
    scores: bool = False,
    words: bool = False,
    as_json: bool = False,
) -> Iterator[str]:
    """The lines to print for one translation, without their ends.

    Plain: the text; with `scores`, the score and a TAB before it; with an alignment, a TAB and `i-j` pairs after it.
    With `n_best`, a line `number TAB score TAB text` for each output. As JSON, one object with everything.

    Args:
        result: a translation.
        number: of its source line, from 1.
        n_best: print all alternatives.
        scores: print scores.
        words: let the alignment be one of blank-separated words instead of pieces.
        as_json: print an object.
    """
    if as_json:
        yield json_text({"line": number, **result.to_dict()})
        return
    if n_best:
        for one in result.alternatives:
            yield f"{number}\t{one.score:.4f}\t{one_line(one.text)}"
        return
    text = one_line(result.text)
    if scores:
        text = f"{result.score:.4f}\t{text}"
    if result.alignment is not None:
        pairs = result.alignment
        if words:
            from dragoman.decoding.alignment import word_alignment  # not above: it needs PyTorch

            pairs = word_alignment(result.source_tokens, result.tokens, pairs)
        text += "\t" + " ".join(f"{i}-{j}" for i, j in pairs)
    yield text
