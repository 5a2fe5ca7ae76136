"""Training on from a model: it is judged first, kept if nothing is better, and not asked for what it has not."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import make_config, read_toml
from dragoman.errors import ConfigError, DataError
from dragoman.models import load_pretrained
from dragoman.training import train
from small_runs import WORDS, events, small_config, write_corpus

pytestmark = pytest.mark.arithmetic


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    write_corpus(folder)
    return train(small_config(folder, "base", "max_steps=40"), quiet=True)


def adapted(folder, base, *settings: str, **sections):
    """A run from the base by its defaults."""
    files = write_corpus(folder, 60, seed=1)
    tree = {"out": str(folder / "run"), "data": files, "training": {"init_from": str(base.directory), "threads": 1}}
    tree["training"] |= sections.pop("training", {})
    return train(make_config({**tree, **sections}), quiet=True)


def log_of(run) -> str:
    return (run.directory / "train.log").read_text(encoding="utf-8")


def test_what_is_chosen_is_gentle_and_said_with_its_reason(tmp_path, base):
    run = adapted(tmp_path, base)
    training = run.config.training
    assert (training.optimizer, training.weight_decay, training.schedule) == ("adam", 0.0, "cosine")
    assert training.learning_rate < 1e-3
    assert training.warmup_steps <= training.max_steps // 10
    assert "gently" in log_of(run)
    assert "held-out" in log_of(run), "twenty lines are few"
    assert events(run.directory, "validation")[0]["step"] == 0


def test_a_run_that_only_spoils_the_model_keeps_it(tmp_path, base):
    run = adapted(tmp_path, base, training={"learning_rate": 30.0, "max_steps": 40, "patience": 3, "warmup_steps": 0},
                  validation={"every": 2, "metric": "loss"})  # fmt: skip
    assert run.progress.best_step == 0
    assert run.progress.step == 3 * 2, "patience counts from the base"
    kept, before = (load_pretrained(one.directory).model.state_dict() for one in (run, base))
    assert all(torch.equal(kept[name], before[name]) for name in before)
    assert "nothing learned here was better than the base" in log_of(run)


@pytest.mark.parametrize("key", ["d_model", "num_encoder_layers", "d_ff"])
def test_another_size_is_refused_before_anything_is_read(tmp_path, base, key):
    tree = {"out": str(tmp_path / "run"), "data": {"source": ["none.a"], "target": ["none.b"]},
            "model": {key: 48 if key != "num_encoder_layers" else 1},
            "training": {"init_from": str(base.directory)}}  # fmt: skip
    with pytest.raises(ConfigError, match="the size is that of the base"):
        train(make_config(tree), quiet=True)


def test_the_same_size_and_other_dropout_are_accepted(tmp_path, base):
    run = adapted(tmp_path, base, model={"d_model": 32, "dropout": 0.3}, training={"max_steps": 2})
    assert run.config.model.dropout == 0.3


def test_the_settings_tell_the_tokenizers_that_are_used(tmp_path, base):
    run = adapted(tmp_path, base, tokenizer={"kind": "bpe"}, training={"max_steps": 2})
    assert read_toml(run.directory / "config.toml")["tokenizer"]["kind"] == "word"
    again = adapted_again(run, tokenizer={"kind": "bpe"})
    assert again.progress.step == 2, "the same command goes on"


def adapted_again(run, **sections):
    return train(make_config({"out": str(run.directory), **sections}), resume=True, quiet=True)


def test_unknown_words_are_counted_and_a_side_of_nothing_else_is_refused(tmp_path, base):
    lines = [f"{WORDS[i % 10]} zork {WORDS[(i + 3) % 10]} {WORDS[i % 7]}" for i in range(40)]
    files = {}
    for name, text in (("source", lines), ("target", lines), ("dev_source", lines[:9]), ("dev_target", lines[:9])):
        path = tmp_path / f"some.{name}"
        path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        files[name] = [str(path)]
    training = {"init_from": str(base.directory), "max_steps": 1, "threads": 1}
    run = train(make_config({"out": str(tmp_path / "some"), "data": files, "training": training}), quiet=True)
    for part in ("train", "dev"):
        for side in ("source", "target"):
            told = f"warning: {part}: 25.0 % of the {side} tokens are unknown to the vocabulary of {base.directory}"
            assert told in log_of(run)
    (tmp_path / "some.source").write_text("zork\n" * 40, encoding="utf-8")
    with pytest.raises(DataError, match="every source token of train is unknown"):
        train(make_config({"out": str(tmp_path / "none"), "data": files, "training": training}), quiet=True)


def test_an_extended_vocabulary_leaves_what_the_model_knew_as_it_was(tmp_path, base):
    lines = [f"{WORDS[i % 10]} zork{i % 3} {WORDS[(i + 3) % 10]}" for i in range(40)]
    files = {}
    for name in ("source", "target"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files[name] = files[f"dev_{name}"] = [str(path)]
    training = {"init_from": str(base.directory), "max_steps": 1, "threads": 1, "learning_rate": 1e-30}
    training["extend_vocabulary"] = True
    run = train(make_config({"out": str(tmp_path / "run"), "data": files, "training": training}), quiet=True)
    assert "are unknown to" not in log_of(run)
    old, new = (one.translator() for one in (base, run))
    texts = [" ".join(WORDS[i:]) for i in range(9)]
    assert [old.tokenizers.source.encode(text) for text in texts] == [
        new.tokenizers.source.encode(text) for text in texts
    ]
    before, after = (load_pretrained(one.directory).model.state_dict() for one in (base, run))
    for name, tensor in before.items():
        assert torch.equal(after[name][: len(tensor)], tensor), name
    assert len(new.tokenizers.target) == len(old.tokenizers.target) + 3
    assert [one.text for one in old.translate(texts)] == [one.text for one in new.translate(texts)]


def test_a_vocabulary_of_pieces_is_not_extended(tmp_path):
    write_corpus(tmp_path)
    pieces = ("tokenizer.kind=bpe", "tokenizer.vocab_size=290", "max_steps=1")
    base = train(small_config(tmp_path, "pieces", *pieces), quiet=True)
    with pytest.raises(ConfigError, match="a subword vocabulary needs no new entries"):
        adapted(tmp_path, base, training={"extend_vocabulary": True})
