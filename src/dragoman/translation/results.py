"""What a translation consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from dragoman.search.outputs import Alternative
from dragoman.shown import html_table, short


@dataclass(frozen=True)
class Translation(Alternative):
    """The best output for a source, and the rest.

    Attributes:
        source: the text that was given.
        source_tokens: its pieces, as the model read them.
        alternatives: all `n_best` outputs, best first; the first repeats the best.
        truncated: the source was longer than the limit and was cut there.
        unknown: how many of the source's pieces the vocabulary lacks: `<unk>`, and bytes that stand for characters.
    """

    source: str
    source_tokens: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    truncated: bool = False
    unknown: int = 0

    def without_alignment(self) -> Translation:
        """Return the same without alignments, which nobody asked for."""
        if self.alignment is None:
            return self
        others = tuple(replace(one, alignment=None) for one in self.alternatives)
        return replace(self, alignment=None, alternatives=others)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({short(self.source)} -> {short(self.text)}, score {self.score:.3f})"

    def _repr_html_(self) -> str:
        """For notebooks: the outputs with their scores, under the source."""
        rows = [(one.text, f"{one.score:.3f}") for one in self.alternatives or (self,)]
        return html_table(rows, ("output", "score"), caption=self.source)


def no_translation(text: str, *, alignments: bool) -> Translation:
    """Return the translation of an empty or blank text."""
    alignment = () if alignments else None
    empty = Alternative("", 0.0, 0.0, (), (), alignment=alignment)
    return Translation("", 0.0, 0.0, (), (), source=text, source_tokens=(), alternatives=(empty,), alignment=alignment)
