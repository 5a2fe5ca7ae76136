"""What validations measure with, and what they refuse to."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from dragoman.config import make_config
from dragoman.data import Prepared
from dragoman.errors import ConfigError
from dragoman.evaluation import Metric, score
from dragoman.models import load_pretrained
from dragoman.text import read_lines
from dragoman.text.tokenizer import PAD
from dragoman.training import train
from dragoman.training.tasks import Translating
from small_runs import events, small_config, text_config

pytestmark = pytest.mark.arithmetic

TRIED = ("max_steps=40", "beam_size=3", "length_penalty=2.0", "validation.length_penalties=[0.0]")


def test_bleu_cuts_words_as_the_settings_say_in_validations_and_where_penalties_are_tried(tmp_path):
    run = train(small_config(tmp_path, "run", "validation.tokenize=char", *TRIED), quiet=True)
    references = [line.text for line in read_lines(tmp_path / "dev_target.txt")]
    (_, told), (searched,) = events(run.directory, "validation"), events(run.directory, "search")
    outputs = [line.text for line in read_lines(run.directory / "hypotheses" / "step-00000040.txt")]
    by_character, by_word = (
        score(outputs, references, metrics=[Metric("bleu", tokenize=how)], bootstrap=0)[0] for how in ("char", None)
    )
    assert told["bleu"] == by_character.value != by_word.value
    assert told["signatures"]["bleu"] == by_character.signature
    assert "tok:char" in searched["signature"]
    sources = [line.text for line in read_lines(tmp_path / "dev_source.txt")]
    outputs = [one.text for one in run.translator().translate(sources, length_penalty=0.0)]
    expected = score(outputs, references, metrics=[Metric("bleu", tokenize="char")], bootstrap=0)[0].value
    assert searched["length_penalties"]["0"] == pytest.approx(expected)
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    assert "tok:char" in card
    assert "tok:13a" not in card


@pytest.mark.parametrize(
    ("family", "setting", "told"),
    [
        ("transformer", "validation.tokenize=nil", "there is no tokenizer 'nil'"),
        ("transformer", "data.target_language=cn", "cn is a country; its language is zh"),
        ("causal", "validation.tokenize=char", "is for translations, which a causal model does not make"),
        ("first-order", "validation.tokenize=char", "have no effect on a first-order model"),
    ],
)
def test_what_cannot_be_heeded_is_refused_and_leaves_nothing_behind(tmp_path, family, setting, told):
    with pytest.raises(ConfigError, match=told):
        train(small_config(tmp_path, "run", setting, f"model.family={family}"), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["validation.tokenize=char", "validation.length_penalties=[1.0]"])
def test_they_are_refused_too_where_the_model_to_begin_from_is_of_one_text(tmp_path, setting):
    first = train(text_config(tmp_path, "causal", "first", "max_steps=2"), quiet=True)
    tree = text_config(tmp_path, "causal", "second", f"init_from={first.directory}", setting).to_dict(unset=False)
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        train(make_config({**tree, "model": {}}), quiet=True)


@pytest.mark.parametrize(
    ("line", "settings", "told"),
    [
        ("ba ce .", [], "look tokenised"),
        ("ba ce .", ["validation.tokenize=none"], None),
        ("你好。", [], "look Chinese"),
        ("你好。", ["data.target_language=zh"], None),
        ("ba ce.", [], None),
    ],
)
def test_a_bleu_that_means_little_is_told_before_training(tmp_path, line, settings, told):
    config = small_config(tmp_path, "run", "max_steps=1", *settings)
    for name in ("target.txt", "dev_target.txt"):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        (tmp_path / name).write_text(f"{line}\n" * len(lines), encoding="utf-8")
    run = train(config, quiet=True)
    log = (run.directory / "train.log").read_text(encoding="utf-8")
    warnings = [row for row in log.partition("step 1/1")[0].splitlines() if "warning: BLEU" in row]
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
    train(config, resume=True, quiet=True)
    assert (run.directory / "train.log").read_text(encoding="utf-8").count("warning: BLEU") == len(warnings)


def test_the_loss_of_training_pairs_is_that_of_pairs_from_all_over_the_corpus(tmp_path):
    run = train(small_config(tmp_path, "run", "max_steps=40"), quiet=True)
    last = events(run.directory, "validation")[-1]
    assert last["step"] == run.progress.best_step
    data, model = Prepared.open(run.directory / "data"), load_pretrained(run.directory).model
    with torch.no_grad():
        for store, loss, accuracy in (
            (data.dev, last["loss"], last["accuracy"]),
            (data.train, last["training_loss"], last["training_accuracy"]),
        ):
            rows = np.linspace(0, len(store) - 1, len(data.dev)).astype(int)
            batch = Translating().batch(store, rows, None)
            log_probs = model(batch.source.ids, batch.target.inputs).log_softmax(-1)
            real = batch.labels != PAD
            by_hand = -log_probs[real].gather(1, batch.labels[real][:, None]).mean()
            assert loss == pytest.approx(float(by_hand), rel=1e-4)
            assert accuracy == pytest.approx(float((log_probs.argmax(-1) == batch.labels)[real].float().mean()))
    told = f"loss {last['loss']:.3f} (training pairs {last['training_loss']:.3f})"
    assert told in (run.directory / "train.log").read_text(encoding="utf-8")
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    assert f"| loss on training pairs | {last['training_loss']:.4f} |" in card


def test_what_is_learned_by_heart_shows_in_the_loss_of_training_pairs(tmp_path):
    config = small_config(tmp_path, "run", "max_steps=150", "dropout=0", "label_smoothing=0", "validation.every=150")
    for name in ("target.txt", "dev_target.txt"):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        random.Random(name).shuffle(lines)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in ("source.txt", "target.txt"):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:30]), encoding="utf-8")
    (told,) = events(train(config, quiet=True).directory, "validation")
    assert told["training_loss"] < told["loss"] / 2
