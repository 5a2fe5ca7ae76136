from __future__ import annotations

import pytest
import torch

from dragoman.config import TrainConfig, make_config
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError
from dragoman.text import choices
from dragoman.training import defaults
from dragoman.training.defaults import complete, describe, estimate_seconds
from small_runs import small_config, write_corpus


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Prepared:
    folder = tmp_path_factory.mktemp("data")
    return prepare(small_config(folder), folder / "prepared")


@pytest.fixture
def chosen(data, monkeypatch):
    """Completes a configuration for a corpus of so many target tokens."""

    def run(tokens: int, device: str = "cpu", **sections) -> TrainConfig:
        monkeypatch.setattr(defaults, "target_tokens", lambda _: tokens)
        return complete(make_config({"out": "run", **sections}), data, torch.device(device))[0]

    return run


@pytest.mark.parametrize(
    ("tokens", "device", "d_model", "layers"),
    [
        (50_000, "cpu", 128, 2),
        (450_000, "cpu", 256, 3),
        (1_500_000, "cpu", 256, 3),
        (9_000_000, "cpu", 256, 3),
        (9_000_000, "cuda", 512, 5),
        (90_000_000, "cuda", 512, 6),
    ],
)
def test_the_model_grows_with_the_corpus_as_far_as_the_device_carries(chosen, tokens, device, d_model, layers):
    model = chosen(tokens, device).model
    assert (model.d_model, model.num_encoder_layers, model.num_decoder_layers) == (d_model, layers, layers)


def test_nothing_is_left_open_and_every_choice_has_a_reason(data):
    config, choices = complete(make_config({"out": "run"}), data, torch.device("cpu"))
    optional = {
        "d_k",
        "d_v",
        "max_minutes",
        "max_epochs",
        "init_from",
        "threads",
        "save_every",
        "unigram_alpha",
        "license",
    }
    optional |= {"add_tokens", "conv_channels", "length_penalties", "license", "lora_alpha", "mels", "tokenize"}
    for section in ("model", "training", "validation"):
        for key, value in getattr(config, section).to_dict().items():
            assert value is not None or key in optional, f"{section}.{key}"
    assert {choice.key for choice in choices} >= {"model.d_model", "training.max_steps", "validation.metric"}
    assert all(choice.reason in line for choice, line in zip(choices, describe(choices), strict=True))


def test_what_is_given_is_kept_and_the_rest_fits_it(chosen):
    config = chosen(450_000, model={"d_model": 90}, training={"max_steps": 500, "schedule": "paper"})
    assert config.model.d_model == 90
    assert config.model.num_heads == 3, "four heads do not divide 90"
    assert config.training.max_steps == 500
    assert config.training.warmup_steps == 125
    assert config.training.learning_rate == 2.0, "for the paper's formula this is a factor"


def test_the_rate_falls_to_the_end_where_that_is_known(chosen):
    plain = chosen(450_000).training
    assert (plain.schedule, plain.learning_rate) == ("cosine", 1.5e-3)
    assert chosen(450_000, training={"max_steps": 100}).training.schedule == "cosine"
    timed = chosen(450_000, training={"max_minutes": 5}).training
    assert (timed.schedule, timed.learning_rate) == ("cosine", 1.5e-3), "minutes become updates"
    post = chosen(450_000, model={"norm": "post"}).training
    assert (post.schedule, post.learning_rate) == ("cosine", 1e-3)


def test_muon_trains_where_it_was_tried(chosen):
    assert chosen(450_000).training.optimizer == "muon"
    assert chosen(450_000, training={"max_steps": 999}).training.optimizer == "adam", "it is slow to begin with"
    assert chosen(450_000, training={"max_steps": 1000}).training.optimizer == "muon"
    assert chosen(450_000, training={"optimizer": "adam"}).training.optimizer == "adam"
    assert chosen(450_000, training={"schedule": "paper"}).training.optimizer == "adam"
    assert chosen(450_000, model={"norm": "post"}).training.optimizer == "adam"


@pytest.fixture
def muons(text, monkeypatch):
    """What is chosen for pairs of text: weight decay and the factor of the matrices' rate."""

    def choices(tokens: int = 450_000, **training: object) -> tuple[float | None, float | None]:
        monkeypatch.setattr(defaults, "target_tokens", lambda _: tokens)
        tree = {"out": "run", "training": {"max_steps": 1000, **training}}
        found = complete(make_config(tree), text, torch.device("cpu"))[0].training
        return found.weight_decay, found.muon_rate_factor

    return choices


def test_weights_decay_and_matrices_go_further_where_muon_trains_on_few_pairs(chosen, muons):
    assert muons() == (0.5, 2.0)
    assert muons(weight_decay=0.0) == (0.0, 1.0)
    assert muons(weight_decay=0.1, muon_rate_factor=1.5) == (0.1, 1.5)
    assert muons(optimizer="adam") == muons(max_steps=500) == (0.0, None), "Adam"
    assert muons(optimizer="muon", max_steps=500) == (0.5, 2.0)
    assert muons(1_500_000) == (0.0, 1.0), "not tried"
    assert muons(1_500_000, weight_decay=0.1) == (0.1, 1.0)
    symbols = chosen(450_000).training
    assert (symbols.weight_decay, symbols.muon_rate_factor) == (0.5, 1.0)


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (80, 20), (1000, 250), (2000, 300), (5000, 500), (90_000, 4000)])
def test_the_rate_never_rises_for_more_than_a_quarter_of_the_run(chosen, steps, warmup):
    assert chosen(450_000, training={"max_steps": steps}).training.warmup_steps == warmup


def test_narrow_models_take_larger_steps_up_to_a_bound(chosen):
    rates = [chosen(450_000, model={"d_model": width}).training.learning_rate for width in (32, 64, 128, 256, 512)]
    assert rates == [6e-3, 6e-3, 3e-3, 1.5e-3, 7.5e-4]


def test_pairs_are_turned_by_their_positions_where_heads_can_be(chosen):
    assert chosen(450_000).model.positions == "rotary"
    assert chosen(450_000, model={"d_model": 90, "num_heads": 2}).model.positions == "interleaved", "45 columns a head"
    assert chosen(450_000, model={"d_model": 90, "num_heads": 2, "d_k": 8, "d_v": 8}).model.positions == "rotary"
    assert chosen(450_000, model={"positions": "concatenated"}).model.positions == "concatenated"


@pytest.mark.parametrize(("steps", "span"), [(1, 1), (80, 10), (4000, 500), (8000, 1000), (500_000, 1000)])
def test_the_average_reaches_back_an_eighth_of_the_run(chosen, steps, span):
    decay = chosen(450_000, training={"max_steps": steps}).training.ema_decay
    assert 1 / (1 - decay) == pytest.approx(span, rel=0.03)
    assert chosen(450_000, training={"max_steps": steps, "ema_decay": 0.0}).training.ema_decay == 0.0


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Prepared:
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder)
    return prepare(small_config(folder).replace({"tokenizer": {"kind": "character"}}), folder / "prepared")


def test_text_is_judged_by_bleu_and_learned_in_larger_steps_than_symbols(chosen, text):
    symbols = chosen(1000)
    assert (symbols.validation.metric, symbols.training.learning_rate) == ("exact", 3e-3)
    config, _ = complete(make_config({"out": "run"}), text, torch.device("cpu"))
    assert (config.validation.metric, config.training.learning_rate) == ("bleu", 6e-3)


def test_beams_of_text_are_held_to_the_end_a_little_more_than_in_the_paper(chosen, text):
    def penalty(**decoding: object) -> float:
        config, choices = complete(make_config({"out": "run", "decoding": decoding}), text, torch.device("cpu"))
        told = {choice.key: choice.value for choice in choices}
        assert told.get("decoding.length_penalty") == (None if decoding else config.decoding.length_penalty)
        return config.decoding.length_penalty

    assert penalty() == 1.0
    assert penalty(length_penalty=0.6) == 0.6, "also what is as good as left open"
    assert penalty(length_penalty_formula="power") == 0.6, "another formula has another scale"
    assert chosen(1000).decoding.length_penalty == 0.6, "symbols"


def test_penalties_are_tried_where_one_was_left_open_and_the_dev_set_says_enough(chosen, text, monkeypatch):
    def tried(most: int = 1000, **decoding: object) -> object:
        tree = {"out": "run", "decoding": decoding, "validation": {"max_sentences": most}}
        return complete(make_config(tree), text, torch.device("cpu"))[0].validation.length_penalties

    assert len(text.dev) == 20
    assert tried() is None, "too few lines"
    monkeypatch.setattr(defaults, "FEWEST_LINES", 20)
    assert tried() == defaults.LENGTH_PENALTIES
    assert tried(most=19) is None
    for decoding in (
        {"length_penalty": 1.0},
        {"length_penalty_formula": "power"},
        {"beam_size": 1},
        {"sampling": True},
    ):
        assert tried(**decoding) is None, decoding
    assert chosen(1000).validation.length_penalties is None, "symbols"


def test_symbols_get_deeper_decoders_and_more_epochs_and_pairs_of_text_deeper_encoders(chosen, text):
    symbols = chosen(450_000)
    config, made = complete(make_config({"out": "run"}), text, torch.device("cpu"))
    layers = [(one.model.num_encoder_layers, one.model.num_decoder_layers) for one in (symbols, config)]
    assert layers == [(3, 3), (4, 2)]
    masked = {"out": "run", "model": {"family": "masked"}}
    assert complete(make_config(masked), text, torch.device("cpu"))[0].model.num_encoder_layers == 2, "no pairs"
    reasons = {choice.key: choice.reason for choice in made}
    assert reasons["training.max_steps"].startswith("15 epochs")
    epochs = symbols.training.max_steps / round(450_000 / symbols.training.batch_tokens)
    assert epochs == pytest.approx(20, rel=0.01)


def test_words_of_a_text_are_no_symbols(chosen, data, monkeypatch):
    entries = len(data.tokenizers.target)
    monkeypatch.setattr(choices, "MOST_SYMBOLS", entries)
    assert chosen(1000).validation.metric == "exact"
    monkeypatch.setattr(choices, "MOST_SYMBOLS", entries - 1)
    config = chosen(450_000)
    assert (config.validation.metric, config.decoding.length_penalty, config.model.dropout) == ("bleu", 1.0, 0.2)
    assert (config.training.learning_rate, config.training.muon_rate_factor) == (3e-3, 2.0)


def test_symbols_get_less_dropout_than_text_unless_it_is_given(chosen):
    text = next(size.model["dropout"] for size in defaults.SIZES if size.below > 450_000)
    assert chosen(450_000).model.dropout == 0.1 < text
    assert chosen(450_000, model={"dropout": 0.4}).model.dropout == 0.4


def test_the_estimate_follows_the_work(data, monkeypatch):
    monkeypatch.setattr(defaults, "operations_per_second", lambda *_: 1e9)
    config = complete(make_config({"out": "run"}), data, torch.device("cpu"))[0]
    double = config.replace({"training": {**config.training.to_dict(), "max_steps": 2 * config.training.max_steps}})
    capped = config.replace({"training": {**config.training.to_dict(), "max_minutes": 0.01}})
    once, twice, short = (estimate_seconds(one, data, torch.device("cpu")) for one in (config, double, capped))
    assert twice == pytest.approx(2 * once)
    assert short == pytest.approx(0.6)


def test_the_estimate_counts_both_passes_of_the_updates_that_have_them(data, monkeypatch):
    monkeypatch.setattr(defaults, "operations_per_second", lambda *_: 1e9)

    def estimate(**training: object) -> float:
        config = make_config({"out": "run", "training": {"max_steps": 100, **training}})
        return estimate_seconds(complete(config, data, torch.device("cpu"))[0], data, torch.device("cpu"))

    one, late, both = estimate(), estimate(r_drop=5, r_drop_after=75), estimate(r_drop=5)
    assert late - one == pytest.approx((both - one) / 4)
    assert both > one == estimate(r_drop=5, r_drop_after=200)


def test_the_estimate_counts_both_readings_of_the_decoder(data, monkeypatch):
    monkeypatch.setattr(defaults, "operations_per_second", lambda *_: 1e9)

    def estimate(**model: object) -> float:
        config = make_config({"out": "run", "model": model, "training": {"max_steps": 100}})
        return estimate_seconds(complete(config, data, torch.device("cpu"))[0], data, torch.device("cpu"))

    one, both, none = estimate(), estimate(right_to_left=True), estimate(num_encoder_layers=0)
    fixed = defaults.CALLS_PER_UPDATE * 100
    assert both - one == pytest.approx(none - fixed, rel=1e-3)  # but for the norm at the encoder's end


def test_the_estimate_counts_muons_own_products_once_an_update(data, monkeypatch):
    monkeypatch.setattr(defaults, "operations_per_second", lambda *_: 1e9)
    changes = {"optimizer": "muon", "max_steps": 100, "batch_tokens": 1}
    config = complete(make_config({"out": "run", "training": changes}), data, torch.device("cpu"))[0]
    adam = config.replace({"training": {**config.training.to_dict(), "optimizer": "adam"}})
    more = estimate_seconds(config, data, torch.device("cpu")) - estimate_seconds(adam, data, torch.device("cpu"))
    d, ff = config.model.d_model or 0, config.model.d_ff or 0
    squares = 4 * config.model.num_encoder_layers + 8 * config.model.num_decoder_layers
    wide = 2 * (config.model.num_encoder_layers + config.model.num_decoder_layers)
    products = 5 * (squares * 6 * d**3 + wide * (4 * d * d * ff + 2 * d**3))
    assert more == pytest.approx(100 * products / (defaults.SHARE_OF_PEAK * 1e9))


def test_many_pairs_of_two_sorts_of_symbols_are_learned_in_both_directions(data, chosen, monkeypatch):
    assert chosen(450_000).model.right_to_left is False
    monkeypatch.setattr(choices, "FEWEST_TO_MATCH", len(data.train))
    assert chosen(450_000).model.right_to_left is True
    assert chosen(450_000, model={"right_to_left": False}).model.right_to_left is False
    monkeypatch.setattr(choices, "MOST_TO_MATCH", len(data.train) - 1)
    assert chosen(450_000).model.right_to_left is False
    assert chosen(450_000, model={"right_to_left": True}).model.right_to_left is True


def test_few_pairs_of_text_are_learned_in_both_directions_by_a_decoder_each(chosen, text, monkeypatch):
    def ends(tokens: int = 450_000, **sections) -> tuple[bool | None, str | None]:
        monkeypatch.setattr(defaults, "target_tokens", lambda _: tokens)
        model = complete(make_config({"out": "run", **sections}), text, torch.device("cpu"))[0].model
        return model.right_to_left, model.right_to_left_decoder

    assert ends() == ends(100_000) == (True, "own")
    assert ends(1_500_000) == (False, "shared"), "not tried"
    assert ends(training={"max_minutes": 5}) == (True, "own")
    assert ends(decoding={"beam_size": 1}) == (False, "shared"), "nothing to rank"
    assert ends(model={"right_to_left": False}) == (False, "shared")
    assert ends(model={"right_to_left_decoder": "shared"}) == (True, "shared")
    assert ends(1_500_000, model={"right_to_left": True}) == (True, "own")
    symbols = chosen(450_000, model={"right_to_left": True}).model
    assert symbols.right_to_left_decoder == "shared"


def test_sources_with_matches_get_larger_batches_and_as_many_updates(data, tmp_path):
    matched = prepare(small_config(tmp_path, "run", "data.fuzzy_matches=2"), tmp_path / "prepared")
    plain, longer = (complete(make_config({"out": "run"}), one, torch.device("cpu"))[0] for one in (data, matched))
    times = longer.training.batch_tokens / plain.training.batch_tokens
    assert times == pytest.approx((matched.train.source_lengths.sum() + 200) / defaults.target_tokens(data), rel=0.01)
    assert times > 2
    assert longer.training.max_steps == plain.training.max_steps


def test_a_reading_that_is_not_learned_is_not_to_be_searched_with(chosen):
    with pytest.raises(ConfigError, match="did not learn to read from right to left"):
        chosen(450_000, decoding={"right_to_left_weight": 0.3})
    given = chosen(450_000, model={"right_to_left": True}, decoding={"right_to_left_weight": 0.3})
    assert given.decoding.right_to_left_weight == 0.3
