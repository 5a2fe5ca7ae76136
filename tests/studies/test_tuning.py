"""Tuning: each search is the one that `translate` would run, and the best of them is found and kept."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from dragoman.config import DecodingConfig, make_config, read_toml, write_toml
from dragoman.errors import ConfigError, ModelError
from dragoman.evaluation import Metric, compare
from dragoman.studies import save_decoding, tune, tuning
from dragoman.translation import Translator
from end_to_end import small


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small.translator(small.word_pair())


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("dev") / "source", small.sentences(20))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def outputs(translator: Translator, path: Path, **options: object) -> list[str]:
    return [one.text for one in translator.translate_with(lines(path), translator.options(options))]


def test_the_search_that_made_the_references_is_found(translator, sources, tmp_path):
    references = write(tmp_path / "r", outputs(translator, sources, beam_size=3, length_penalty=1.5))
    found = tune(
        translator, sources, references, metric="exact", beam_sizes=(1, 3), length_penalties=(0.0, 1.5), samples=50
    )
    assert (found.best.decoding.beam_size, found.best.decoding.length_penalty) == (3, 1.5)
    assert found.best.score.value == 100.0
    assert [(one.decoding.beam_size, one.decoding.length_penalty) for one in found.trials] == [
        (4, 0.6), (1, 0.6), (3, 0.0), (3, 1.5),
    ]  # fmt: skip
    assert found.trials[0].against is None


def test_each_search_is_what_translate_does_and_is_compared_with_the_models_own(translator, sources, tmp_path):
    references = write(tmp_path / "r", small.sentences(20, seed=3))
    found = tune(translator, sources, references, metric="chrf", beam_sizes=(2,), length_penalties=(0.0,), samples=50)
    one = outputs(translator, sources)
    other = outputs(translator, sources, beam_size=2, length_penalty=0.0)
    pairs = [(line,) for line in lines(references)]
    expected = compare(one, other, pairs, Metric("chrf", translator.languages.target), samples=50)
    assert found.trials[1].against == expected
    assert (found.trials[0].score, found.trials[1].score) == (expected.a, expected.b)


def test_a_metric_of_mistakes_is_made_small(translator, sources, tmp_path):
    references = write(tmp_path / "r", outputs(translator, sources, beam_size=1))
    found = tune(translator, sources, references, metric="wer", beam_sizes=(1, 2), length_penalties=(0.6,), samples=20)
    assert (found.best.decoding.beam_size, found.best.score.value) == (1, 0.0)


@pytest.mark.parametrize("metric", ["exact", "bleu", "auto", "wer"])
def test_where_all_are_equal_the_models_own_search_stays(translator, sources, tmp_path, metric):
    references = write(tmp_path / "r", ["unsaid"] * 20)
    found = tune(
        translator, sources, references, metric=metric, beam_sizes=(8, 2, 3), length_penalties=(0.0,), samples=9
    )
    told = list(found.lines())
    assert found.all_equal == any("score the same" in line for line in told) == found.to_dict()["all_equal"]
    if metric != "wer":
        assert found.all_equal
        assert found.best is found.trials[0]
        assert not any(line.endswith("best") for line in told)
    assert found.best.score.name == {"auto": "exact"}.get(metric, metric)


def test_an_unequal_search_leaves_the_smaller_beam_of_the_best(translator, sources, monkeypatch):
    values = iter([10.0, 30.0, 30.0, 20.0])
    made = tuning.score

    def scored(*arguments, **options):
        return [dataclasses.replace(made(*arguments, **options)[0], value=next(values), smoothed=False)]

    def compared(*arguments, **options):
        found = compare(*arguments, **options)
        return dataclasses.replace(found, b=dataclasses.replace(found.b, value=next(values), smoothed=False))

    monkeypatch.setattr(tuning, "score", scored)
    monkeypatch.setattr(tuning, "compare", compared)
    found = tune(translator, sources, sources, beam_sizes=(8, 3, 2), length_penalties=(0.0,), samples=9)
    assert not found.all_equal
    assert (found.best.decoding.beam_size, found.best.score.value) == (3, 30.0)


def test_no_search_is_run_twice(translator, sources):
    found = tune(
        translator, sources, sources, beam_sizes=(1, 1, 4), length_penalties=(0.0, 0.6, 0.6),
        formulas=("gnmt", "power"), metric="exact", samples=9,
    )  # fmt: skip
    keys = [(one.decoding.beam_size, one.decoding.length_penalty, one.decoding.length_penalty_formula)
            for one in found.trials]  # fmt: skip
    assert keys == [(4, 0.6, "gnmt"), (1, 0.6, "gnmt"), (4, 0.0, "gnmt"), (4, 0.6, "power")]


def test_mistakes_are_told_before_anything_is_translated(sources, monkeypatch, translator):
    monkeypatch.setattr(Translator, "translate_with", lambda *_: pytest.fail("translated"))
    for options in (
        {"metric": "blue"},
        {"beam_sizes": (0,)},
        {"beam_sizes": (1025,)},
        {"length_penalties": (-1.0,)},
        {"formulas": ("x",)},
        {"formulas": ("x",), "beam_sizes": (1,)},
        {"length_penalties": (float("nan"),), "beam_sizes": (1,)},
        {"right_to_left_weights": (2.0,), "beam_sizes": (1,)},
    ):
        with pytest.raises(ConfigError):
            tune(translator, sources, sources, **options)
    with pytest.raises(ConfigError, match="sampling"):
        tune(translator, sources, sources, decoding=DecodingConfig(sampling=True))


def test_what_is_saved_is_what_translate_then_uses(tmp_path):
    folder = small.saved(tmp_path / "m", small.word_pair())
    before = (folder / "model.safetensors").read_bytes()
    save_decoding(folder, DecodingConfig(beam_size=7, length_penalty=1.25))
    loaded = Translator.from_pretrained(folder)
    assert (loaded.decoding.beam_size, loaded.decoding.length_penalty) == (7, 1.25)
    assert (loaded.languages.source, loaded.languages.target) == ("xx", "yy")
    assert (folder / "model.safetensors").read_bytes() == before
    with pytest.raises(ModelError):
        save_decoding(tmp_path / "none", DecodingConfig())


def test_a_run_that_goes_on_keeps_the_search_that_was_saved(tmp_path):
    folder = small.saved(tmp_path / "m", small.word_pair())
    settings = folder / "config.toml"
    write_toml(make_config({"out": "runs/x", "training": {"seed": 9}, "decoding": {"no_repeat_ngram": 2}}), settings)
    save_decoding(folder, DecodingConfig(beam_size=7))
    tree = read_toml(settings)
    assert (tree["decoding"]["beam_size"], tree["decoding"]["no_repeat_ngram"]) == (7, 0)
    assert (tree["out"], tree["training"]["seed"]) == ("runs/x", 9)
    before = (folder / "config.json").read_bytes()
    settings.write_text("[decoding]\nbeam_sizes = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        save_decoding(folder, DecodingConfig(beam_size=2))
    assert (folder / "config.json").read_bytes() == before


def test_the_table_fits_a_terminal_and_json_holds_it_all(translator, sources):
    found = tune(translator, sources, sources, metric="chrf", beam_sizes=(1,), samples=50)
    table = list(found.lines())
    assert len(table) == 3
    assert max(map(len, table)) <= 80
    assert "the model's own" in table[1]
    tree = json.loads(json.dumps(found.to_dict()))
    assert len(tree["trials"]) == 2
    assert tree["trials"][1]["against"]["p_randomisation"] <= 1
