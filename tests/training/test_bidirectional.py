"""Epochs that learn pairs in both directions: what they see, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from runs import small_config, text_config

from dragoman.config import TrainConfig
from dragoman.data import EpochStores, Prepared, collate, prepare
from dragoman.errors import ConfigError
from dragoman.models import load_pretrained
from dragoman.text.tokenizer import PAD
from dragoman.training import train

JOINT = ("tokenizer.joint=true",)


@pytest.fixture
def data(tmp_path: Path) -> Prepared:
    return prepare(small_config(tmp_path, "run", *JOINT), tmp_path / "prepared")


def settings(folder: Path, *changes: str) -> TrainConfig:
    return small_config(folder, "run", *JOINT, *changes)


def pairs(store) -> list[tuple[list[int], list[int]]]:
    return [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))]


def test_each_pair_is_seen_once_in_one_of_its_directions(data: Prepared, tmp_path: Path):
    stores = EpochStores(data, settings(tmp_path, "bidirectional_epochs=2").training)
    plain = pairs(data.train)
    for epoch in (0, 1):
        seen = pairs(stores.of(epoch))
        ways = [one == pair for one, pair in zip(seen, plain, strict=True) if pair[0] != pair[1]]
        assert all(one in (pair, pair[::-1]) for one, pair in zip(seen, plain, strict=True))
        assert 0.4 < np.mean(ways) < 0.6
    assert pairs(stores.of(0)) != pairs(stores.of(1)), "drawn anew"
    assert stores.of(2) is data.train
    again = EpochStores(data, settings(tmp_path, "bidirectional_epochs=2").training)
    assert pairs(again.of(1)) == pairs(stores.of(1)), "whatever came before"


def test_other_pieces_and_other_directions_go_together(tmp_path: Path):
    changes = ("tokenizer.kind=bpe", "vocab_size=300", "bpe_dropout=0.5", "bidirectional_epochs=1")
    config = settings(tmp_path, *changes)
    data = prepare(config, tmp_path / "prepared")
    decode, drawn = data.tokenizers.target.decode, pairs(EpochStores(data, config.training).of(0))
    plain = pairs(data.train)
    texts = [{decode(source), decode(target)} for source, target in drawn]
    assert texts == [{decode(source), decode(target)} for source, target in plain]
    assert any(one not in (pair, pair[::-1]) for one, pair in zip(drawn, plain, strict=True))
    directions = [decode(one[0]) == decode(pair[0]) for one, pair in zip(drawn, plain, strict=True)]
    assert 0 < sum(directions) < len(directions)


def test_the_model_learns_the_way_back_too(tmp_path: Path):
    settings(tmp_path)
    for name in ("target", "dev_target"):
        file = tmp_path / f"{name}.txt"
        file.write_text(file.read_text(encoding="utf-8").upper(), encoding="utf-8")
    found = {}
    for epochs in (0, 1000):
        config = small_config(tmp_path, f"run-{epochs}", *JOINT, f"bidirectional_epochs={epochs}")
        train(config, quiet=True)
        model = load_pretrained(tmp_path / f"run-{epochs}").model
        dev = Prepared.open(tmp_path / f"run-{epochs}/data").dev
        batch = collate(dev.turned(np.ones(len(dev), dtype=bool)), range(len(dev)))
        with torch.no_grad():
            logits = model(*batch.inputs)
        found[epochs] = float(torch.nn.functional.cross_entropy(logits.mT, batch.labels, ignore_index=PAD))
    assert found[1000] < 0.8 * found[0]


def test_it_needs_pairs_with_one_vocabulary(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"tokenizer\.joint = true"):
        train(small_config(tmp_path, "two", "bidirectional_epochs=1"), quiet=True)
    assert not (tmp_path / "two/config.toml").exists()
    with pytest.raises(ConfigError, match="one text"):
        train(text_config(tmp_path, "causal", "text", "bidirectional_epochs=1"), quiet=True)
