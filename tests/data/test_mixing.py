"""Corpora with weights: shares that hold, pairs seen alike, and an order that is a function of seed and epoch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dragoman.config import DataConfig
from dragoman.data.mixing import Mixing, drawn_rows, shares_of
from dragoman.errors import ConfigError, DataError
from dragoman.training import train
from small_runs import digests, losses, small_config, train_until_killed, write_corpus


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (0.0, 2.0), (1.0, 0.001)])
def test_shares_hold_and_each_pair_of_a_corpus_is_seen_about_as_often(weights):
    sizes = (40, 400)
    rows = drawn_rows(sizes, shares_of(weights, None, sizes), seed=1, epoch=0)
    assert len(rows) == sum(sizes)
    share = weights[0] / sum(weights)
    assert abs(int((rows < 40).sum()) - share * 440) <= 1
    for first, last in ((0, 40), (40, 440)):
        seen = np.bincount(rows, minlength=440)[first:last]
        assert seen.max() - seen.min() <= 1


def test_each_epoch_draws_others_and_the_same_again():
    mixing = [Mixing(DataConfig(weights=(2, 1)), (10, 300), seed) for seed in (1, 1, 2)]
    assert np.array_equal(mixing[0].rows(3), mixing[1].rows(3))
    assert not np.array_equal(mixing[0].rows(3), mixing[0].rows(4))
    assert not np.array_equal(mixing[0].rows(3), mixing[2].rows(3))
    assert Mixing(DataConfig(), (10, 300), 1).rows(0) is None


def test_temperature_goes_from_sizes_to_equal_shares():
    sizes = (100, 900)
    shares = [shares_of((), t, sizes)[0] for t in (1.0, 2.0, 5.0, 1000.0)]
    assert shares[:2] == pytest.approx([0.1, 0.25])
    assert shares == sorted(shares)
    assert shares[3] == pytest.approx(0.5, abs=0.01)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="give one of them"):
        DataConfig(source=["a", "b"], target=["c", "d"], weights=(1, 2), mixing_temperature=2)
    with pytest.raises(ConfigError, match="2 numbers for 1 training files"):
        DataConfig(source=["a"], target=["c"], weights=(1, 2))
    with pytest.raises(ConfigError, match="has no pairs"):
        shares_of((1.0, 1.0), None, (10, 0))
    with pytest.raises(ConfigError, match="weights are all 0"):
        DataConfig(weights=(0, 0))
    with pytest.raises(DataError, match="prepare them again"):
        shares_of((1.0, 1.0), None, None)


@pytest.mark.arithmetic
def test_a_run_of_two_corpora_is_resumed_bit_for_bit(tmp_path):
    for folder, pairs, seed in (("a", 40, 1), ("b", 120, 2)):
        (tmp_path / folder).mkdir()
        write_corpus(tmp_path / folder, pairs, seed)

    def config(out):
        made = small_config(tmp_path / "a", out, "max_steps=24", "validation.every=12")
        files = {side: [str(tmp_path / one / f"{side}.txt") for one in ("a", "b")] for side in ("source", "target")}
        return made.replace({"data": {**made.data.to_dict(), **files, "weights": [1, 1]}})

    whole, broken = config("whole"), config("broken")
    run = train(whole, quiet=True).directory
    train_until_killed(broken, 12)
    train(broken, resume=True, quiet=True)
    assert losses(tmp_path / "a" / "broken") == losses(run)
    assert digests(tmp_path / "a" / "broken") == digests(run)
    assert json.loads((run / "data" / "prepared.json").read_text(encoding="utf-8"))["sizes"] == [40, 120]
