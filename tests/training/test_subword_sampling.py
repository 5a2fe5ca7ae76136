"""Training on pieces drawn anew in each epoch: resumable bit for bit, batches planned from the epoch's own lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.config import all_settings, make_config
from dragoman.errors import ConfigError
from dragoman.files import make_directory
from dragoman.training import train
from dragoman.training.resuming import config_hash
from dragoman.training.trainer import Trainer
from small_runs import digests, losses, small_config, text_config, train_until_killed

BPE = ("tokenizer.kind=bpe", "vocab_size=300", "batch_tokens=512", "max_steps=24", "save_every=3")


def test_a_run_killed_in_a_later_epoch_goes_on_bit_for_bit(tmp_path):
    settings = (*BPE, "bpe_dropout=0.2", "accumulate=2")
    train(small_config(tmp_path, "whole", *settings), quiet=True)
    broken = small_config(tmp_path, "broken", *settings)
    for step in (5, 17):
        train_until_killed(broken, step)
    train(broken, resume=True, quiet=True)
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert digests(tmp_path / "broken") == digests(tmp_path / "whole")


def test_batches_keep_the_budget_with_the_lengths_of_their_epoch(tmp_path, monkeypatch):
    seen = []
    update = Trainer.learn

    def look(self, micro_batches):
        store = self.stores.of(self.progress.epoch)
        assert store is not self.data.train
        for rows in micro_batches:
            longest = max(1 + int(store.source_lengths[rows].max()), 2 + int(store.target_lengths[rows].max()))
            seen.append(len(rows) * longest)
        return update(self, micro_batches)

    monkeypatch.setattr(Trainer, "learn", look)
    train(small_config(tmp_path, "run", *BPE, "bpe_dropout=0.5"), quiet=True)
    assert max(seen) <= 512


def test_prepared_data_will_do(tmp_path):
    from dragoman.data import prepare

    config = small_config(tmp_path, "whole", *BPE, "bpe_dropout=0.2")
    prepare(config, tmp_path / "prepared")
    train(config, quiet=True)
    sections = config.to_dict(unset=False)
    other = make_config({**sections, "out": str(tmp_path / "other"), "data": {"prepared": str(tmp_path / "prepared")}})
    train(other, quiet=True)
    assert losses(tmp_path / "other") == losses(tmp_path / "whole")


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_models_of_one_text_train_with_it(family, tmp_path):
    settings = ("tokenizer.kind=unigram", "vocab_size=290", "unigram_alpha=0.2", "max_steps=4", "batch_tokens=512")
    assert train(text_config(tmp_path, family, "run", *settings), quiet=True).progress.step == 4


def test_words_cannot_be_cut_into_other_pieces(tmp_path):
    with pytest.raises(ConfigError, match="bpe_dropout is for bpe tokenizers"):
        train(small_config(tmp_path, "run", "bpe_dropout=0.1"), quiet=True)
    assert not (tmp_path / "run/config.toml").exists()


def test_checkpoints_from_before_a_setting_was_there_are_still_their_runs(tmp_path):
    make_directory(tmp_path / "run")
    config = small_config(tmp_path)
    assert config_hash(config, "k") != config_hash(small_config(tmp_path, "run", "bpe_dropout=0.1"), "k")
    with pytest.MonkeyPatch.context() as patch:
        always = [replace(one, before=...) for one in all_settings()]
        patch.setattr("dragoman.training.resuming.all_settings", lambda: always)
        whole = config_hash(config, "k")
    assert config_hash(config, "k") != whole
    assert config_hash(
        small_config(tmp_path, "run", "r_drop=0.0", "model.init=xavier", "right_to_left=false"), "k"
    ) == config_hash(config, "k")
