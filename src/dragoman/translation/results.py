"""What a translation consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dragoman.search.outputs import Alternative


@dataclass(frozen=True)
class Translation(Alternative):
    """The best output for a source, and the rest.

    Attributes:
        source: the text that was given.
        source_tokens: its pieces, as the model read them.
        alternatives: all `n_best` outputs, best first; the first repeats the best.
        truncated: the source was longer than the limit and was cut there.
    """

    source: str
    source_tokens: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def no_translation(text: str, *, alignments: bool) -> Translation:
    """Return the translation of an empty or blank text."""
    alignment = () if alignments else None
    empty = Alternative("", 0.0, 0.0, (), (), alignment=alignment)
    return Translation("", 0.0, 0.0, (), (), source=text, source_tokens=(), alternatives=(empty,), alignment=alignment)
