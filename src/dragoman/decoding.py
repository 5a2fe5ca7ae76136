"""The former home of searches and translators: names are found where they live now, with a warning, until 0.3."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from dragoman.config import DecodingConfig
    from dragoman.search.request import SearchRequest as Request

_HOMES = {
    "language": (
        "Completer", "Filler", "Filling", "LanguageModel", "TextScore", "TextScorer", "TextSummary", "escape_gaps",
        "format_outputs", "format_score", "load_completer", "load_language_model", "summarize",
    ),
    "memory": ("Datastore", "KnnModel", "make_datastore"),
    "search": (
        "Alternative", "Ensemble", "Hypothesis", "NextTokenModel", "PairScore", "State", "beam_search", "draw_tokens",
        "greedy_search", "hypothesis_score", "length_penalty", "sample", "score_parallel", "score_serial", "search",
    ),
    "sequences": ("pad_rows",),
    "studies": (
        "Evaluation", "Trial", "Tuning", "evaluate", "evaluate_outputs", "save_decoding", "training_words", "tune",
    ),
    "translation": ("Translation", "Translator", "align", "cross_attention", "format_translation"),
}  # fmt: skip
# Names that changed with their home.
_RENAMED = {"Remembering": "KnnModel"}


def SearchRequest(
    source: Int[Tensor, "batch src"],
    source_lengths: Sequence[int],
    options: DecodingConfig,
    prefixes: Sequence[Sequence[int]] = (),
    seeds: Sequence[int] = (),
    bos: int = 2,
    eos: int = 3,
    never: tuple[int, ...] = (0, 2),
    pad: int | None = None,
) -> list[Request]:
    """Return a batch as requests: what this name was the type of is a list of `dragoman.search.SearchRequest` now.

    Args:
        source: ids, framed and padded.
        source_lengths: tokens of each row, without its `</s>`.
        options: of all rows.
        prefixes: ids that each output must begin with.
        seeds: for sampling, one per row.
        bos: the token before the first one.
        eos: the token after the last one.
        never: tokens that are never emitted.
        pad: what fills rows up; the first of `never` if None.
    """
    from dragoman.search.request import SearchRequest as Request
    from dragoman.search.request import output_limit
    from dragoman.sequences.source import Source, Specials
    from dragoman.sequences.target import Frame

    _warn("SearchRequest", "search", "SearchRequest")
    filler = never[0] if pad is None else pad
    specials = Specials(pad=filler, unk=1, bos=bos, eos=eos)
    rows = [_unpadded(row, filler) for row in source.tolist()]
    return [
        Request(
            Source(tuple(ids), specials=specials, end=()), options,
            tuple(prefixes[row]) if prefixes else (), seeds[row] if seeds else 0,
            frame=Frame(bos, eos), never=never, limit=output_limit(options, length),
        )
        for row, (ids, length) in enumerate(zip(rows, source_lengths, strict=True))
    ]  # fmt: skip


def _unpadded(row: list[int], pad: int) -> list[int]:
    while row and row[-1] == pad:
        row = row[:-1]
    return row


def _warn(name: str, room: str, new: str) -> None:
    message = f"dragoman.decoding.{name} is now dragoman.{room}.{new}; this name will be removed in version 0.3"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def __getattr__(name: str) -> object:
    """Return a name from its home of today, with a warning."""
    new = _RENAMED.get(name, name)
    for room, names in _HOMES.items():
        if new in names:
            _warn(name, room, new)
            return getattr(import_module(f"dragoman.{room}"), new)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
