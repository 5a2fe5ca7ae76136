"""Scores of pairs by two models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dragoman.cleaning.scoring import PairScorer, worst
from dragoman.text import Pair
from dragoman.training import train
from dragoman.translation import Translator
from small_runs import small_config


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models that have hardly learned, there and back."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("there", 1), ("back", 2)):
        train(small_config(folder, name, "training.max_steps=3", f"training.seed={seed}"), quiet=True)
    return folder / "there", folder / "back"


def test_a_score_is_the_mean_of_both_entropies_and_their_difference(runs: tuple[Path, Path]) -> None:
    pairs = [Pair("ba ce", "ce ba", "f", 1), Pair("di fo gu", "ha", "f", 2), Pair("ki", "ki lo mu ne ba", "f", 3)]
    found = PairScorer.open(runs).scores(pairs)
    there, back = (Translator.from_pretrained(run, engine="module") for run in runs)
    for pair, score in zip(pairs, found, strict=True):
        [one] = there.score([pair.source], [pair.target])
        [other] = back.score([pair.target], [pair.source])
        entropies = [-found.log_probability / len(found.token_scores) for found in (one, other)]
        assert score == pytest.approx(abs(entropies[0] - entropies[1]) + sum(entropies) / 2, rel=1e-4)
    assert PairScorer.open(runs).scores([]).tolist() == []


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, []), (0.25, [1]), (0.5, [1, 3]), (0.99, [1, 2, 3]), (1.0, [0, 1, 2, 3])]
)
def test_the_worst_are_so_many_and_of_equal_ones_the_later(share: float, expected: list[int]) -> None:
    marked = np.unpackbits(worst(np.array([1.0, np.inf, 2.0, 2.0]), share))
    assert np.flatnonzero(marked).tolist() == expected
