"""Models of one text through the whole of `train`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.config import make_config, read_toml
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.models import load_pretrained
from dragoman.training import train
from dragoman.training.log import RunLog
from forked import run as in_child
from small_runs import digests, events, losses, text_config, train_until_killed, write_text

pytestmark = pytest.mark.arithmetic

FAMILIES = ["causal", "masked"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_killed_in_its_second_epoch_is_bit_identical(tmp_path, family):
    settings = ("save_every=5", "validation.every=10", "max_steps=20", "ema_decay=0.9", "accumulate=2")
    broken, whole = (text_config(tmp_path, family, name, *settings) for name in ("broken", "whole"))
    train_until_killed(broken, 17)
    assert in_child(lambda: [train(broken, resume=True, quiet=True), train(whole, quiet=True)]) == 0
    epochs = {row["step"]: row["epoch"] for row in events(tmp_path / "whole", "train")}
    assert epochs[15] == epochs[20] == 1, "killed and resumed within an epoch, not the first"
    assert "resumed at step 15" in (tmp_path / "broken/train.log").read_text()
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert len(losses(tmp_path / "whole")) == 20
    assert digests(tmp_path / "broken") == digests(tmp_path / "whole")
    validations = [events(tmp_path / name, "validation") for name in ("whole", "broken")]
    assert validations[0] == validations[1]


@pytest.mark.parametrize(("family", "steps", "accuracy"), [("causal", 100, 0.65), ("masked", 200, 0.75)])
def test_a_model_learns_what_follows_what(tmp_path, family, steps, accuracy):
    settings = (f"max_steps={steps}", f"validation.every={steps}", "dropout=0.0", "batch_tokens=512", "log_every=100")
    run = train(text_config(tmp_path, family, "run", *settings), quiet=True)
    last = events(run.directory, "validation")[-1]
    # A decoder can know neither where a line begins nor where it ends.
    assert last["accuracy"] >= accuracy
    assert run.progress.best == -last["loss"]
    shown = (run.directory / f"hypotheses/step-{steps:08d}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(shown) == 40
    follows = {"ba": "ce", "ce": "di", "di": "fo", "fo": "gu", "gu": "ha", "ha": "ki", "ki": "lo", "lo": "mu",
               "mu": "ne", "ne": "ba"}  # fmt: skip
    words = [line.replace("\t", "").split() if family == "causal" else line.split("\t")[1].split() for line in shown]
    good = [follows[a] == b for line in words for a, b in pairwise(line)]
    assert sum(good) >= 0.9 * len(good)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_run_directory_says_what_it_is(tmp_path, family):
    config = text_config(tmp_path, family, "run", "data.target_language=xx", "average_last=2", "validation.every=10")
    run = train(config, quiet=True)
    names = {path.name for path in run.directory.iterdir() if not path.name.startswith(".")}
    assert names == {
        "config.json", "config.toml", "model.safetensors", "vocabulary.json", "README.md", "metrics.jsonl",
        "train.log", "checkpoints", "hypotheses", "data",
    }  # fmt: skip
    loaded = load_pretrained(run.directory)
    assert (loaded.config.family, loaded.languages.target) == (family, "xx")
    perplexity = {"causal": "perplexity", "masked": "pseudo_perplexity"}[family]
    for name in ("train", "validation"):
        assert {key for row in events(run.directory, name) for key in row if "perplexity" in key} == {perplexity}
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    for part in ("SHA-256", "300 of 300 lines kept", f"a {family} language model of xx", "dragoman complete run"):
        assert part in card
    for foreign in ("None", "source", "translate", "BLEU", "evaluate"):
        assert foreign not in card
    assert events(run.directory, "validation")[-1]["of"] == "average"
    assert make_config(read_toml(run.directory / "config.toml")).model.family == family


def test_files_alone_are_enough(tmp_path):
    sections = write_text(tmp_path, lines=60)
    config = text_config(tmp_path, "causal", "first", "max_steps=2")
    first = train(config, quiet=True)
    assert first.config.data.text == tuple(sections["text"])
    with pytest.raises(ConfigError, match="a config or files") as caught:
        train(config, text=sections["text"][0], family="masked")
    assert caught.value.found == "text, family"
    (tmp_path / "broken.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError):
        dragoman.train(text=tmp_path / "broken.txt", dev_text=sections["dev_text"][0], family="causal",
                       out=tmp_path / "second", quiet=True)  # fmt: skip


def test_fine_tuning_takes_family_weights_and_vocabulary(tmp_path):
    first = train(text_config(tmp_path, "causal", "first"), quiet=True)
    text = {key: [str(tmp_path / f"{key}.txt")] for key in ("text", "dev_text")}
    settings = {"init_from": str(first.directory), "max_steps": 1, "learning_rate": 1e-9, "batch_tokens": 128}
    second = train(make_config({"out": str(tmp_path / "second"), "data": text, "training": settings}), quiet=True)
    assert second.config.model.family == "causal"
    before, after = (load_pretrained(run.directory).model.state_dict() for run in (first, second))
    assert all((before[name] - after[name]).abs().max() <= 1e-6 for name in before)
    files = [(run.directory / "vocabulary.json").read_bytes() for run in (first, second)]
    assert files[0] == files[1]
    with pytest.raises(ConfigError, match="another family") as caught:
        train(text_config(tmp_path, "masked", "third", f"init_from={first.directory}"), quiet=True)
    assert (caught.value.expected, caught.value.found) == ("masked", "causal")


def test_all_that_is_tied_may_be_called_all(tmp_path):
    run = train(text_config(tmp_path, "causal", "run", "tie_embeddings=all", "max_steps=1"), quiet=True)
    model = load_pretrained(run.directory).model
    assert torch.equal(model.embedding.tokens.weight, model.generator.weight)


def test_a_refused_run_leaves_no_log(tmp_path):
    config = text_config(tmp_path, "causal", "run", "validation.metric=bleu", "tensorboard=true")
    with pytest.raises(ConfigError, match="bleu"):
        train(config, quiet=True)
    assert {path.name for path in Path(config.out).iterdir()} <= {".lock", "data"}
    run = train(text_config(tmp_path, "causal", "run", "max_steps=1"), quiet=True)
    log = (run.directory / "train.log").read_bytes()
    with pytest.raises(ConfigError, match="a run here already"):
        train(text_config(tmp_path, "causal", "run"), quiet=True)
    assert (run.directory / "train.log").read_bytes() == log
    with RunLog(tmp_path / "run") as fresh:
        fresh.line("still writable")
    assert (run.directory / "train.log").read_bytes() != log


def test_a_counted_model_is_no_transformer(tmp_path):
    given = text_config(tmp_path, "first-order").to_dict(unset=False)
    given = {name: given[name] for name in ("out", "data", "tokenizer") if name in given}
    run = train(make_config({**given, "model": {"family": "first-order"}}), quiet=True)
    assert run.progress.finished
    with pytest.raises(ModelError, match="a Markov model is no Transformer") as caught:
        load_pretrained(run.directory)
    assert "dragoman complete" in (caught.value.hint or "")
