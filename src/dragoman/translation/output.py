"""Translations as lines of text: one line in, one line out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.files import json_text
from dragoman.search.outputs import one_line
from dragoman.translation.results import Translation


def format_translation(
    result: Translation,
    number: int,
    *,
    n_best: bool = False,
    scores: bool = False,
    words: bool = False,
    as_json: bool = False,
) -> Iterator[str]:
    """Yield the lines to print for one translation, without their ends.

    Plain: the text; with `scores`, the score and a TAB before it; with an alignment, a TAB and `i-j` pairs after it.
    With `n_best`, a line for each output: number, score, text and alignment likewise. In columns a TAB of the text is a
    blank. As JSON, one object with everything.

    Args:
        result: a translation.
        number: of its source line, from 1.
        n_best: print all alternatives, each with its number and score.
        scores: print scores.
        words: let the alignment be one of blank-separated words instead of pieces.
        as_json: print an object.
    """
    if as_json:
        tree: dict[str, Any] = {"line": number, **result.to_dict()}
        if words and result.alignment is not None:
            trees = (tree, *tree["alternatives"])
            for output, its in zip((result, *result.alternatives), trees, strict=True):
                its["word_alignment"] = _of_words(result.source_tokens, output.tokens, output.alignment or ())
        yield json_text(tree)
        return
    for output in result.alternatives if n_best else (result,):
        columns = [str(number)] if n_best else []
        if n_best or scores:
            columns.append(f"{output.score:.4f}")
        text = one_line(output.text)
        columns.append(text.replace("\t", " ") if columns or output.alignment is not None else text)
        if output.alignment is not None:
            columns.append(_pairs(result.source_tokens, output.tokens, output.alignment, words))
        yield "\t".join(columns)


def _pairs(source: Sequence[str], target: Sequence[str], pairs: Sequence[tuple[int, int]], words: bool) -> str:
    if words:
        pairs = _of_words(source, target, pairs)
    return " ".join(f"{i}-{j}" for i, j in pairs)


def _of_words(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    from dragoman.translation.alignment import word_alignment  # not above: it needs PyTorch

    return word_alignment(source, target, pairs)
