"""The table of what each means gives: every kind of row, on a toy corpus."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import effects
import effects_picture
import pytest

from dragoman.config import make_config, merge, parse_assignments, read_toml
from dragoman.errors import ConfigError, DragomanError
from end_to_end import small

PLAN = """
pairs = 60
more = 20
[base.tokenizer]
kind = "word"
[base.model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[base.training]
batch_tokens = 200
max_steps = 40
warmup_steps = 5
learning_rate = 1e-2
[base.validation]
every = 40
[means.another-seed]
what = "another seed"
set = ["training.seed=2"]
[means.two-models]
what = "two models"
with = ["another-seed"]
[means.long]
what = "long"
search = { min_length = 9 }
[means.back-translation]
what = "back translation"
made = "back-translation"
[means.self-training]
what = "self training"
made = "self-training"
[means.distillation]
what = "distillation"
made = "distillation"
set = ["validation.metric=bleu"]
[means.diversification]
what = "diversification"
made = "diversification"
[means.twice]
what = "twice"
after = "base"
[means.both-directions]
what = "both directions"
files = { source = ["train.en", "train.de"], target = ["train.de", "train.en"] }
"""


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "multi30k").mkdir()
    for number, (part, count) in enumerate((("train", 100), ("val", 12))):
        lines = small.sentences(count, number, 4)
        for language in effects.LANGUAGES:
            file = tmp_path / f"multi30k/{part}.{language}"
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "effects.toml").write_text(PLAN, encoding="utf-8")
    monkeypatch.setattr(effects, "PLAN", tmp_path / "effects.toml")

    def call(*options: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
        arguments = ["effects.py", "--data", str(tmp_path), "--out", str(tmp_path / "out"), "--threads", "1"]
        monkeypatch.setattr(sys, "argv", [*arguments, *options])
        capsys.readouterr()
        effects.main()
        rows = json.loads((tmp_path / "out/rows.json").read_text(encoding="utf-8"))["rows"]
        return {row["name"]: row for row in rows}, capsys.readouterr().out.splitlines()

    return call


def test_every_kind_of_means_gets_its_row_beside_the_base(measure, tmp_path: Path):
    rows, lines = measure()
    assert list(rows) == ["base", *tomllib.loads(PLAN)["means"]]
    assert [line.split("`")[1] for line in lines if line.startswith("| `")] == list(rows)
    assert rows["base"]["bleu"]["difference"] == 0
    for row in rows.values():
        low, high = row["bleu"]["interval"]
        assert low <= row["bleu"]["difference"] <= high
    assert rows["long"]["chrf"]["value"] != rows["base"]["chrf"]["value"], "the search alone changes the outputs"
    assert (tmp_path / "out/another-seed/model.safetensors").exists()
    assert not (tmp_path / "out/two-models/model.safetensors").exists(), "these search with what was trained"
    assert rows["twice"]["minutes"] >= rows["base"]["minutes"], "the time of both"
    log = (tmp_path / "out/twice/train.log").read_text(encoding="utf-8")
    assert str(tmp_path / "out/base") in log, "it begins from the base's weights"

    files = tmp_path / "out/corpus"
    made = [line.split("\t") for line in (files / "back-translation.tsv").read_text(encoding="utf-8").splitlines()]
    assert {source.split()[0] for source, _ in made} == {"<bt>"}
    assert {target for _, target in made} <= set((files / "more.de").read_text(encoding="utf-8").splitlines())
    more = [line.split("\t") for line in (files / "diversification.tsv").read_text(encoding="utf-8").splitlines()]
    train = [set((files / f"train.{side}").read_text(encoding="utf-8").splitlines()) for side in effects.LANGUAGES]
    assert not any(source.startswith("<") for source, _ in more), "these have no tag"
    told = [line.removeprefix("diversification: ").split() for line in lines if line.startswith("diversification: ")]
    assert [words[-2] for words in told] == ["train.en", "train.de"], "one model of each direction has made pairs"
    kept = [int(words[0]) for words in told]
    assert min(kept) > 0
    assert sum(kept) == len(more)
    assert all(source in train[0] for source, _ in more[: kept[0]]), "targets are made up"
    assert all(target in train[1] for _, target in more[kept[0] :]), "then sources"
    taught = (files / "distillation.en").read_text(encoding="utf-8").splitlines()
    assert set(taught) <= set((files / "train.en").read_text(encoding="utf-8").splitlines())
    metrics = {name: read_toml(tmp_path / f"out/{name}/config.toml")["validation"]["metric"] for name in effects.MADE}
    assert metrics["distillation"] == "bleu", "what is set beside holds"
    assert metrics["self-training"] != "bleu"


def test_what_is_measured_is_not_measured_again(measure, monkeypatch: pytest.MonkeyPatch):
    first, _ = measure("--only", "two-models")
    assert list(first) == ["base", "another-seed", "two-models"], "what a row needs is measured first"
    with pytest.raises(ConfigError, match="warmup_steps"):
        measure("--only", "two-models", "--set", "warmup_steps=4", "--set", "max_steps=30")
    monkeypatch.setattr(effects.dragoman, "train", lambda *_, **__: pytest.fail("trained again"))
    assert measure("--only", "two-models")[0] == first


def test_what_the_plan_changes_are_settings():
    plan = tomllib.loads(effects.PLAN.read_text(encoding="utf-8"))
    files = {"source": ["a"], "target": ["b"]}
    for name, means in plan["means"].items():
        ways = means.keys() - {"what"} - ({"set"} if "made" in means else set())
        assert len(ways & {"set", "made", "files", "after", "search", "with"}) == len(ways) == 1, name
        assert means.get("made") in (None, *effects.MADE)
        assert means.get("after") in (None, effects.BASE, *plan["means"])
        make_config(merge({"data": files, "out": "run"}, plan["base"], parse_assignments(means.get("set", []))))
        make_config({"decoding": means.get("search", {}), "data": files, "out": "run"})
        assert set(means.get("with", ())) <= plan["means"].keys()
    words = [means["what"] for means in plan["means"].values()]
    assert len(set(words)) == len(words), "a picture names them by these"


def row(what: str | None, difference: float, low: float, high: float) -> dict[str, Any]:
    bleu = {"value": 20 + difference, "difference": difference, "interval": [low, high], "p": 0.01}
    return {"name": what or "base", "what": what, "bleu": bleu, "minutes": 2.0, "cost": 1.0}


def test_the_picture_has_the_greatest_gain_on_top_and_tells_sure_from_unsure(tmp_path: Path):
    pytest.importorskip("matplotlib")
    rows = [row(None, 0, 0, 0), row("worse", -1, -2, -0.5), row("$better", 2, 1, 3), row("unsure", 0.5, -0.1, 1)]
    (axes,) = effects_picture.figure_of(rows[1:]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["worse", "unsure", "$better"]
    dots = [line.get_color() for line in axes.lines if line.get_marker() == "o"]
    assert dots == [effects_picture.WORSE, effects_picture.UNSURE, effects_picture.BETTER]
    assert axes.get_xlim()[1] > 3, "no interval is cut at the right"

    picture = effects_picture.draw_effects([*rows, row("hopeless", -18, -20, -17)], tmp_path / "effects.png")
    assert picture.path.stat().st_size > 1000
    assert picture.note is None
    with pytest.raises(DragomanError, match="no such picture format"):
        effects_picture.draw_effects(rows, tmp_path / "effects.gif")


def test_a_row_holds_when_only_its_words_change(measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, _ = measure("--only", "long")
    plan = tmp_path / "effects.toml"
    plan.write_text(plan.read_text(encoding="utf-8").replace('what = "long"', 'what = "longer"'), encoding="utf-8")
    monkeypatch.setattr(effects.dragoman, "train", lambda *_, **__: pytest.fail("trained again"))
    again, _ = measure("--only", "long")
    assert again["long"] == {**first["long"], "what": "longer"}


def test_a_picture_that_cannot_be_is_refused_before_anything_is_trained(measure, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(effects.dragoman, "train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(DragomanError, match="no such picture format"):
        measure("--picture", "effects.gif")


def test_an_unknown_means_is_refused(measure, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        measure("--only", "magic")
    assert "there is no magic" in capsys.readouterr().err
