"""What a translation and a scored pair consist of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Alternative:
    """One output for a source.

    Attributes:
        text: the output.
        score: what outputs are ranked by: log-probability with the length penalty or reward.
        log_probability: natural logarithm of the probability of all tokens and `</s>`.
        tokens: the output's pieces.
        token_scores: natural log-probability of each piece, then that of `</s>`.
        finished: the model ended it; if not, it was cut at `max_length`.
        alignment: (source piece, output piece) positions from cross-attention, if asked for.
        right_to_left: as `log_probability`, read from the end; None where outputs are ranked by one reading.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finished: bool = field(default=True, kw_only=True)
    alignment: tuple[tuple[int, int], ...] | None = field(default=None, kw_only=True)
    right_to_left: float | None = field(default=None, kw_only=True)


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
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class PairScore:
    """How likely a model finds a given pair.

    Attributes:
        source: the source text.
        target: the target text.
        log_probability: natural logarithm of the probability of the target's tokens and its `</s>`.
        tokens: the target's pieces.
        token_scores: natural log-probability of each piece, then that of `</s>`.
        right_to_left: as `log_probability`, read from the end; None where the model did not learn that.
    """

    source: str
    target: str
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    right_to_left: float | None = None


def no_translation(text: str, *, alignments: bool) -> Translation:
    """The translation of an empty or blank text."""
    alignment = () if alignments else None
    empty = Alternative("", 0.0, 0.0, (), (), alignment=alignment)
    return Translation("", 0.0, 0.0, (), (), source=text, source_tokens=(), alternatives=(empty,), alignment=alignment)
