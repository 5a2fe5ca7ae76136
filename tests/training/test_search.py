"""The length penalty that is chosen when training ends."""

from __future__ import annotations

import pytest

from dragoman.config import TrainConfig, read_toml
from dragoman.errors import ConfigError
from dragoman.evaluation import score
from dragoman.studies import save_decoding
from dragoman.text import read_lines
from dragoman.training import run as run_module
from dragoman.training import search, train
from dragoman.translation import Translator
from small_runs import events, small_config

pytestmark = pytest.mark.arithmetic

BEAM, MOST, WORST = 3, 15, 9.0
ALPHAS = (0.0, 0.6, 1.0)


def config(folder, *settings: str) -> TrainConfig:
    tried = f"validation.length_penalties={list(ALPHAS)}"
    search = (f"beam_size={BEAM}", f"length_penalty={WORST}", f"max_sentences={MOST}", "n_best=2")
    return small_config(folder, "run", tried, *search, *settings)


@pytest.fixture
def unsure(monkeypatch) -> None:
    """Fifteen lines prove nothing: take what is better by chance."""
    monkeypatch.setattr(search, "SURE", 1.0)


def stored_penalty(directory) -> float:
    """The one of the settings, which must be the one of the model."""
    penalty = Translator.from_pretrained(directory).decoding.length_penalty
    assert read_toml(directory / "config.toml")["decoding"]["length_penalty"] == penalty
    return penalty


def test_the_best_penalty_on_the_dev_set_becomes_the_models_own(tmp_path, unsure):
    run = train(config(tmp_path), quiet=True)
    sources, references = ([line.text for line in read_lines(tmp_path / f"dev_{side}.txt")][:MOST]
                           for side in ("source", "target"))  # fmt: skip
    translator, expected = run.translator(), {}
    for alpha in (*ALPHAS, WORST):
        outputs = [one.text for one in translator.translate(sources, length_penalty=alpha, beam_size=BEAM, n_best=1)]
        expected[f"{alpha:g}"] = score(outputs, references, metrics=["bleu"], bootstrap=0)[0].value
    (told,) = events(run.directory, "search")
    assert told["length_penalties"] == pytest.approx(expected)
    assert expected[f"{told['chosen']:g}"] == max(expected.values()) > expected["9"], "the penalty matters here"
    assert stored_penalty(run.directory) == run.config.decoding.length_penalty == told["chosen"]
    assert translator.decoding.n_best == 2, "all else stays"
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    assert f"a beam of 3 and a length penalty of {told['chosen']:g} (tried: 0, 0.6, 1, 9):" in card
    assert f"{max(expected.values()):.2f}" in card
    assert "trying 4 length penalties on 15 dev lines" in (run.directory / "train.log").read_text(encoding="utf-8")


def test_what_is_better_by_chance_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "SURE", 0.0)
    run = train(config(tmp_path), quiet=True)
    (told,) = events(run.directory, "search")
    assert max(told["length_penalties"].values()) > told["length_penalties"]["9"]
    assert stored_penalty(run.directory) == told["chosen"] == WORST
    assert "a length penalty of 9 (tried" in (run.directory / "README.md").read_text(encoding="utf-8")


def test_whoever_dies_while_searching_searches_again(tmp_path, monkeypatch, unsure):
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "tune_search", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(config(tmp_path), quiet=True)
    assert stored_penalty(tmp_path / "run") == WORST
    run = train(config(tmp_path), resume=True, quiet=True)
    (told,) = events(run.directory, "search")
    assert stored_penalty(run.directory) == told["chosen"] != WORST


def test_a_penalty_given_later_is_not_tried_against_others(tmp_path):
    train(config(tmp_path, "max_steps=20"), quiet=True)
    later = small_config(tmp_path, "run", "length_penalty=2.5", f"beam_size={BEAM}", f"max_sentences={MOST}")
    run = train(later.replace({"training": {**later.training.to_dict(unset=False), "max_steps": 40}}), resume=True)
    assert run.progress.step == 40
    assert stored_penalty(run.directory) == 2.5
    assert len(events(run.directory, "search")) == 1


@pytest.mark.parametrize("settings", [["beam_size=1"], ["sampling=true"], ["model.family=causal"]])
def test_where_no_beam_is_searched_there_is_nothing_to_try(tmp_path, settings):
    with pytest.raises(ConfigError, match="length_penalties"):
        train(small_config(tmp_path, "run", "validation.length_penalties=[1.0]", *settings), quiet=True)


def test_a_run_may_turn_to_greedy_search_later(tmp_path):
    run = train(config(tmp_path, "max_steps=20"), quiet=True)
    save_decoding(run.directory, run.config.decoding.replace({"beam_size": 1, "n_best": 1}))
    later = small_config(tmp_path).replace({"decoding": {}})
    again = train(later.replace({"training": {**later.training.to_dict(unset=False), "max_steps": 40}}), resume=True)
    assert (again.progress.step, again.config.decoding.beam_size) == (40, 1)
    assert len(events(run.directory, "search")) == 1


def test_weight_for_a_datastore_that_comes_later_does_not_stop_the_training(tmp_path):
    beams = ("validation.search=beam", "decoding.knn_weight=0.3")
    run = train(config(tmp_path, "max_steps=2", *beams), quiet=True)
    told = (run.directory / "train.log").read_text(encoding="utf-8")
    assert "decoding.knn_weight waits for a datastore" in told
    assert "done: 2 updates" in told
    assert Translator.from_pretrained(run.directory).decoding.knn_weight == 0.3, "it is there for the datastore to come"
