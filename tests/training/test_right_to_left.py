"""Training that reads targets in both directions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from dragoman import Translator
from dragoman.config import ModelConfig, make_config
from dragoman.data import TokenStore, collate
from dragoman.errors import ConfigError
from dragoman.models import build_model, for_direction
from dragoman.models.description import read_config
from dragoman.nn import Dropout, Transformer
from dragoman.sequences import Direction
from dragoman.training import train
from dragoman.training.resuming import config_hash
from dragoman.training.step import batch_loss
from dragoman.training.tasks import Translating
from small_runs import assert_goes_on_bit_for_bit, small_config, write_corpus

pytestmark = pytest.mark.arithmetic

BOTH, OWN = "model.right_to_left=true", "right_to_left_decoder=own"
SIDES = ("source", "target")


@pytest.fixture(params=["shared", "own"])
def model(request) -> Transformer:
    sizes = {"d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    directions = {"right_to_left": True, "right_to_left_decoder": request.param}
    built = build_model(ModelConfig(source_vocab=20, target_vocab=20, dropout=0.0, **sizes, **directions)).double()
    assert isinstance(built, Transformer)
    return built


@pytest.fixture
def store(tmp_path) -> TokenStore:
    pairs = [([4, 5, 6], [7, 8]), ([9], [10, 11, 12, 13]), ([14, 15], [])]
    return TokenStore.write(tmp_path / "store", pairs, vocabulary_size=20)


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_the_loss_is_that_of_both_directions(model, store, weight):
    both = Translating(tuple(Direction)).batch(store, [0, 1, 2], 5)
    found, parts = batch_loss(model, both, 0.1, r_drop=weight), []
    for block in both.target.blocks():
        # To what reads a direction, it is the one from left to right.
        alone = replace(both, target=replace(block, directions=(Direction.LEFT_TO_RIGHT,)))
        parts.append(batch_loss(for_direction(model, block.directions[0]), alone, 0.1, r_drop=weight))
    assert float(found.loss.detach()) == pytest.approx(float(sum(one.loss for one in parts).detach()), abs=1e-9)
    assert (float(found.nll), found.count) == (pytest.approx(sum(float(one.nll) for one in parts)), both.target_tokens)


@pytest.mark.parametrize("task", [Translating(tuple(Direction)), Translating()])
def test_two_passes_over_a_target_meet_two_encodings(model, store, task):
    for name, part in model.named_modules():
        if isinstance(part, Dropout) and name.startswith("encoder"):
            part.p = 0.5  # and none elsewhere
    batch, losses = task.batch(store, [0, 1], 5), []
    for weight in (1e-9, 1e3):
        torch.manual_seed(1)
        losses.append(batch_loss(model.train(), batch, 0.0, r_drop=weight).loss.item())
    assert losses[1] > 2 * losses[0], "they differ by what the encoder dropped"


def test_validation_reads_from_left_to_right_alone(store):
    batch, plain = Translating(tuple(Direction)).batch(store, [0, 1], None), collate(store, [0, 1])
    assert batch.target.directions == (Direction.LEFT_TO_RIGHT,)
    assert torch.equal(batch.target.ids, plain.target.ids)


def test_only_pairs_have_two_directions():
    with pytest.raises(ConfigError, match="right_to_left is for pairs"):
        ModelConfig.from_dict({"family": "causal", "right_to_left": True})
    with pytest.raises(ConfigError, match="is for models with right_to_left = true"):
        ModelConfig.from_dict({"right_to_left": False, "right_to_left_decoder": "own"})


@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_a_run_learns_both_and_its_outputs_are_ranked_by_both(tmp_path, decoder):
    write_corpus(tmp_path, pairs=20)  # few enough to be known by heart
    settings = ("max_steps=100", "validation.every=100", "dropout=0.0", "learning_rate=1e-2", "label_smoothing=0.0")
    more = ("num_encoder_layers=1", "num_decoder_layers=1", "batch_tokens=512", BOTH)
    directions = f"right_to_left_decoder={decoder}"
    run = train(small_config(tmp_path, "run", *settings, *more, directions), quiet=True)
    assert read_config(run.directory)[0].right_to_left
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    assert "ranked by both directions" in card
    assert ("by a decoder of its own" in card) == (decoder == "own")
    translator = Translator.from_pretrained(run.directory)
    texts, answers = ((tmp_path / f"{side}.txt").read_text(encoding="utf-8").split("\n")[:-1] for side in SIDES)
    target = translator.tokenizers.target
    sources = [translator.tokenizers.encode_source(text) for text in texts]
    right = [tuple(target.encode(text)) for text in answers]
    wrong = [*right[1:], right[0]]

    def from_its_end(outputs: list[tuple[tuple[int, ...], ...]]) -> list[list[float]]:
        forced = translator.backend.torch.force(sources, outputs, translator.decoding, Direction.RIGHT_TO_LEFT)
        return [[sum(values) for values in some] for some in forced]

    read = from_its_end(list(zip(right, wrong, strict=True)))
    # From its end too an answer is far likelier than another's: by 4 at least, 20 in the mean, with six seeds.
    assert all(likely > unlikely + 2 for likely, unlikely in read)
    assert sum(likely - unlikely for likely, unlikely in read) > 10 * len(read)
    options = translator.options({"length_penalty": 0.0})
    ranked = translator.translate_with(texts, options)
    assert [one.text for one in ranked] == answers
    [other] = zip(*from_its_end([(one,) for one in right]), strict=True)
    assert [one.right_to_left for one in ranked] == pytest.approx(other, abs=1e-4)
    assert [one.score for one in ranked] == pytest.approx(
        [(one.log_probability + value) / 2 for one, value in zip(ranked, other, strict=True)], abs=1e-4
    )


@pytest.mark.parametrize("more", [(), (OWN, "r_drop=1.0")])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, more):
    assert_goes_on_bit_for_bit(tmp_path, 18, BOTH, "max_steps=30", "save_every=9", "validation.every=15", *more)


def test_a_run_goes_on_with_the_decoders_it_has(tmp_path):
    shared = train(small_config(tmp_path, "shared", "max_steps=1", BOTH), quiet=True).directory
    with pytest.raises(ConfigError, match="right_to_left_decoder: 'shared' in the run, 'own' now"):
        train(small_config(tmp_path, "shared", "max_steps=2", OWN), resume=True, quiet=True)
    with pytest.raises(ConfigError, match="the size is that of the base"):
        train(small_config(tmp_path, "own", "max_steps=1", OWN, f"init_from={shared}"), quiet=True)


def test_a_checkpoint_from_before_the_settings_fits_a_run_that_does_without():
    def hashed(**model: object) -> str:
        return config_hash(make_config({"out": "run", "model": model}), "data")

    both, own = {"right_to_left": True}, {"right_to_left_decoder": "own"}
    assert hashed() == hashed(right_to_left=False) == hashed(right_to_left_decoder="shared")
    assert hashed(**both) == hashed(**both, right_to_left_decoder="shared")
    assert len({hashed(), hashed(**both), hashed(**both, **own)}) == 3


def test_a_run_without_it_does_not_go_on_with_it(tmp_path):
    train(small_config(tmp_path, "run", "max_steps=20"), quiet=True)
    with pytest.raises(ConfigError, match="right_to_left: False in the run, True now"):
        train(small_config(tmp_path, "run", "max_steps=40", BOTH), resume=True, quiet=True)


def test_a_model_from_before_the_setting_is_begun_from_as_it_is(tmp_path, monkeypatch):
    older = train(small_config(tmp_path, "older", "max_steps=1"), quiet=True).directory
    settings = json.loads((older / "config.json").read_text(encoding="utf-8"))
    del settings["sha256"]
    known = [key for key in settings["model"] if key.startswith("right_to_left")]
    assert known
    for key in known:
        del settings["model"][key]
    (older / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.setattr("dragoman.text.choices.FEWEST_TO_MATCH", 1)  # what is chosen today for such pairs
    run = train(small_config(tmp_path, "run", "max_steps=2", f"init_from={older}"), quiet=True)
    assert run.config.model.right_to_left is False


def test_a_run_from_before_the_setting_goes_on_as_it_was(tmp_path, monkeypatch):
    directory = train(small_config(tmp_path, "run", "max_steps=20"), quiet=True).directory
    settings = directory / "config.toml"
    text = settings.read_text(encoding="utf-8")
    text_before = text.replace("right_to_left = false\n", "").replace('right_to_left_decoder = "shared"\n', "")
    settings.write_text(text_before, encoding="utf-8")
    assert "right_to_left" in text
    assert "right_to_left" not in text_before.replace("right_to_left_weight", "")
    monkeypatch.setattr("dragoman.text.choices.FEWEST_TO_MATCH", 1)  # what is chosen today for such pairs
    train(small_config(tmp_path, "run", "max_steps=40"), resume=True, quiet=True)
    assert not read_config(directory)[0].right_to_left
