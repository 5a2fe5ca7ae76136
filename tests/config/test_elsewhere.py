"""Names of other toolkits lead to settings of ours or to a sentence, and what is unsure gets no hint."""

from __future__ import annotations

import re

import pytest
import typer

from dragoman.cli import make_app
from dragoman.config import SECTIONS, TrainConfig, all_settings, find_setting, foreign_names
from dragoman.config.elsewhere import ANSWERS, answer_for, answers, simplified
from dragoman.config.near import near_names
from dragoman.config.values import convert
from dragoman.errors import ConfigError

OURS = {one.dotted: one for one in all_settings()}
SETTING = re.compile(rf"\b(?:{'|'.join(SECTIONS)})\.\w+")
VALUE = re.compile(r"(\w+\.\w+) = ([\w-]+)")


def hint(name: str) -> str | None:
    with pytest.raises(ConfigError) as caught:
        find_setting(name)
    return caught.value.hint


# What people of other toolkits type first, and what the answer must lead to.
MEANT = {
    "save_steps": "training.save_every",
    "save_freq": "training.save_every",
    "eval_steps": "validation.every",
    "valid_steps": "validation.every",
    "valid_freq": "validation.every",
    "validate_interval_updates": "validation.every",
    "log_steps": "training.log_every",
    "logging_steps": "training.log_every",
    "disp_freq": "training.log_every",
    "epochs": "training.max_",
    "num_train_epochs": "training.max_",
    "after_epochs": "training.max_",
    "max_hours": "training.max_minutes",
    "time_limit": "training.max_minutes",
    "early_stopping": "training.patience",
    "fp16": "training.precision = bfloat16",
    "bf16": "training.precision = bfloat16",
    "gpu": "training.device = cuda",
    "world_size": "torchrun",
    "gradient_accumulation_steps": "training.accumulate",
    "optimizer_delay": "training.accumulate",
    "grad_clip": "training.clip_norm",
    "max_grad_norm": "training.clip_norm",
    "layers": "model.num_encoder_layers and model.num_decoder_layers",
    "tied": "model.tie_embeddings = all",
    "weight_tying": "model.tie_embeddings",
    "share_all_embeddings": "model.tie_embeddings = all",
    "ema": "training.ema_decay",
    "exponential_smoothing": "training.ema_decay",
    "truecase": "change its case in the files",
    "cased": "change its case in the files",
    "encoder_normalize_before": "model.norm = pre",
    "batch_size": "training.batch_tokens",
    "max_tokens": "training.batch_tokens",
    "lenpen": "decoding.length_penalty",
    "max_len_b": "decoding.max_length_offset",
    "num_beams": "decoding.beam_size",
    "joined_dictionary": "tokenizer.joint",
    "dim_vocabs": "tokenizer.vocab_size",
    "transformer_dim_ffn": "model.d_ff",
    "resume_from_checkpoint": "`train --resume`",
    "load_model": "training.init_from",
    "report_to": "training.tensorboard = true",
    "output_dir": "--out",
}


@pytest.mark.parametrize("name", MEANT)
def test_a_name_of_another_toolkit_leads_to_what_is_meant(name: str) -> None:
    for spelled in (name, name.upper(), name.replace("_", "-"), f"training.{name}"):
        assert MEANT[name] in (hint(spelled) or ""), spelled


def test_there_are_many_and_each_is_said_once() -> None:
    sentences = [name for names, _ in ANSWERS for name in names.split()]
    renamed = [name for one in all_settings() for name in one.elsewhere]
    both = [*sentences, *renamed]
    assert len(both) == len(set(both)) > 400
    assert [name for name in both if name != simplified(name)] == []
    assert not set(answers()) & {one.name for one in all_settings()}, "ours is not foreign"


def test_no_foreign_name_is_taken_for_a_slip() -> None:
    for name, ours in foreign_names().items():
        assert hint(name) == f"{name!r} is called {ours!r} here"


@pytest.mark.parametrize("sentence", sorted(set(answers().values())))
def test_what_a_sentence_names_is_there_and_its_values_are_taken(sentence: str) -> None:
    assert set(SETTING.findall(sentence)) <= set(OURS)
    for dotted, value in VALUE.findall(sentence):
        mistakes: list[object] = []
        convert(value, OURS[dotted].kind, dotted, mistakes)  # type: ignore[arg-type]
        assert mistakes == []
    verbs = typer.main.get_command(make_app()).commands
    options = {flag for verb in verbs.values() for one in verb.params for flag in one.opts}
    assert set(re.findall(r"--[\w-]+", sentence)) <= options
    assert set(re.findall(r"`(?:dragoman )?(\w+)", sentence)) <= set(verbs)


# Names that look like one of ours and mean something else, or nothing that could be known.
UNSURE = (
    "steps", "size", "length", "mode", "rate", "max", "min", "every", "top_n", "test_seed", "min_step", "max_sizes",
    "test", "need", "kinds_of", "save_interval_steps", "beam_seed", "target_tokens", "decoder", "rope_theta", "num_k",
    "drop_everything", "validation_seed", "score", "debug", "port", "host", "name", "learning", "source_tokens",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({*UNSURE, *MEANT} - {"every"}))
def test_what_only_looks_alike_is_no_slip(name: str) -> None:
    assert near_names(name, [one.name for one in all_settings()]) == []


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("d_modle", "d_model"), ("dmodel", "d_model"), ("D_Model", "d_model"), ("warmup_step", "warmup_steps"),
        ("learning_rat", "learning_rate"), ("lerning_rate", "learning_rate"), ("learningrate", "learning_rate"),
        ("beam_szie", "beam_size"), ("beamsize", "beam_size"), ("label_smoothng", "label_smoothing"), ("sede", "seed"),
        ("seeds", "seed"), ("pateince", "patience"), ("drop_out", "dropout"), ("vocab_sizes", "vocab_size"),
        ("tokenzier", "tokenize"), ("max_length_ofset", "max_length_offset"), ("num_encoder_layer",
        "num_encoder_layers"),
    ],
)  # fmt: skip
def test_a_slip_of_the_keyboard_is_recognised(slip: str, meant: str) -> None:
    assert near_names(slip, [one.name for one in all_settings()])[0] == meant


@pytest.mark.parametrize("one", tuple(all_settings()), ids=lambda one: one.name)
def test_every_letter_left_out_of_a_long_name_leads_back_to_it(one: object) -> None:
    name: str = one.name  # type: ignore[attr-defined]
    names = [other.name for other in all_settings()]
    for place in range(1, len(name) if len(name) >= 8 else 0):
        slip = name[:place] + name[place + 1 :]
        if slip not in names and name[place - 1] != "_" and len(name.split("_")[-1]) > 3:
            found = near_names(slip, names)
            assert not found or name in found, slip


def test_settings_given_in_python_are_answered_too() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(out="x", training={"fp16": True, "lr": 1, "sede": 3})
    assert "there is no half precision" in str(caught.value)
    assert "'lr' is called 'training.learning_rate' here" in str(caught.value)
    assert "did you mean 'seed'?" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("trainig.foo", "did you mean 'training'?"),
        ("optimizer.beam_size", "beam_size is in [decoding]: decoding.beam_size"),
        ("trainer.fp16", "training.precision = bfloat16"),
        ("nothing.xyzzy", None),
    ],
)
def test_an_unknown_section_is_answered(name: str, told: str | None) -> None:
    found = hint(name)
    assert found is None if told is None else told in (found or "")


def test_what_is_unknown_altogether_is_sent_to_the_list() -> None:
    assert hint("xyzzy") == "`dragoman settings` lists all settings"
    assert hint("momentum") == "`dragoman settings momentum` lists what has to do with it"
    assert answer_for("xyzzy", OURS) is None
