"""How well two models, one for each direction, think that a pair is a translation.

Dual cross-entropy (Junczys-Dowmunt 2018): the mean of what both find unlikely of each token, and how far they disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragoman.errors import ModelError
from dragoman.text import Pair
from dragoman.translation import Translator


class PairScorer:
    """Scores pairs by two translators.

    Args:
        forward: from source to target.
        backward: from target to source.
    """

    def __init__(self, forward: Translator, backward: Translator) -> None:
        self._models = forward, backward

    @classmethod
    def open(cls, runs: tuple[str | Path, str | Path], *, device: str = "auto") -> PairScorer:
        """Open two run or model directories.

        Raises:
            ModelError: one cannot be opened, or listens to sounds.
        """
        forward, backward = (Translator.from_pretrained(run, device=device, engine="module") for run in runs)
        for run, model in zip(runs, (forward, backward), strict=True):
            if model.tokenizers.sound is not None:
                raise ModelError("a speech model cannot score pairs of texts", file=run)
        return cls(forward, backward)

    def scores(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return for each pair |H1 - H2| + (H1 + H2) / 2, in nats a token; less is better, float64 [pairs]."""
        if not pairs:
            return np.zeros(0)
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        one, other = (
            np.array([-score.log_probability / max(1, len(score.token_scores)) for score in model.score(*given)])
            for model, given in zip(self._models, (sides, sides[::-1]), strict=True)
        )
        return np.nan_to_num(np.abs(one - other) + (one + other) / 2, nan=np.inf)


def worst(scores: np.ndarray, share: float) -> np.ndarray:
    """Return which scores are the worst, so many of them by share, packed into bits, uint8; of equal ones the later.

    Args:
        scores: less is better [pairs].
        share: of them that are marked, 0 to 1.
    """
    marked = np.zeros(len(scores), dtype=bool)
    count = int(share * len(scores))
    if count:
        marked[np.argsort(scores, kind="stable")[-count:]] = True
    return np.packbits(marked)
