"""Outputs and scored pairs as strings: what is made of hypotheses for people."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from dragoman.errors import escaped
from dragoman.shown import short

_BREAKS = str.maketrans({"\n": " ", "\r": " ", "\x00": " "})
_STEERING = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # of a terminal; a TAB is text


def one_line(text: str) -> str:
    r"""Return a text that cannot end its line early: line breaks become blanks, control characters read as `\x1b`."""
    return _STEERING.sub(lambda found: escaped(found[0]), text.translate(_BREAKS))


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
        right_to_left: as `log_probability`, right to left; None where outputs are ranked by one direction.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finished: bool = field(default=True, kw_only=True)
    alignment: tuple[tuple[int, int], ...] | None = field(default=None, kw_only=True)
    right_to_left: float | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({short(self.text)}, score {self.score:.3f})"


@dataclass(frozen=True)
class PairScore:
    """How likely a model finds a given pair.

    Attributes:
        source: the source text.
        target: the target text.
        log_probability: natural logarithm of the probability of the target's tokens and its `</s>`; NaN where it could
            not be scored.
        tokens: the target's pieces.
        token_scores: natural log-probability of each piece, then that of `</s>`.
        right_to_left: as `log_probability`, right to left; None where the model did not learn that.
    """

    source: str
    target: str
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    right_to_left: float | None = None

    @classmethod
    def unscored(cls, source: str, target: str) -> PairScore:
        """Return what stands for the score of a pair that cannot have one."""
        return cls(source, target, math.nan, (), ())

    def __repr__(self) -> str:
        pair = f"{short(self.source)} -> {short(self.target)}"
        return f"{type(self).__name__}({pair}, log-probability {self.log_probability:.3f})"
