"""The recipes themselves: each can be read, and is judged on other files than those it is trained on."""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
from pathlib import Path

import beside_marian
import pytest
import run
import sigmorphon2020_inflection as inflection

from dragoman.config import make_config, read_toml
from dragoman.data import Prepared, prepare
from dragoman.text.tokenizer import EOS
from end_to_end import small

RECIPES = Path(run.__file__).parent
TESTS = tomllib.loads((RECIPES / "tests.toml").read_text(encoding="utf-8"))


FILES = sorted(file for file in RECIPES.glob("*.toml") if file.stem not in ("tests", "effects"))


def test_what_is_judged_exists():
    assert all((RECIPES / f"{name}.toml").exists() for name in TESTS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_is_judged_on_other_files_than_it_learns_from(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATA", "DATA")
    monkeypatch.setenv("CORPUS", "CORPUS")
    data = make_config({**read_toml(file), "out": "run"}).data
    learned = {*data.source, *data.target, *data.text}
    held_out = {*data.dev_source, *data.dev_target, *data.dev_text}
    asked = TESTS.get(file.stem, {})
    tests = {f"DATA/{asked[key]}" for key in ("source", "reference", "text") if key in asked}
    assert learned
    assert not learned & held_out
    assert not (learned | held_out) & tests


def test_what_a_recipe_builds_on_belongs_to_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    (tmp_path / "a.toml").write_text("[training]\nseed = 1\n", encoding="utf-8")
    (tmp_path / "b.toml").write_text('base = "a.toml"\n', encoding="utf-8")
    before = run.recipe_text("b")
    (tmp_path / "a.toml").write_text("[training]\nseed = 2\n", encoding="utf-8")
    assert run.recipe_text("b") != before


def test_inflection_learns_tags_and_letters_as_symbols(tmp_path: Path):
    file = tmp_path / "deu.train.tsv.gz"
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.write("V\tV\u00e4ter\tN;DAT;PL\nab geben\tgab ab\tV;3;PST\n")
    assert inflection.read_forms(file) == (
        [";N ;DAT ;PL V", ";V ;3 ;PST a b _ g e b e n"], ["V \u00e4 t e r", "g a b _ a b"],
    )  # fmt: skip


@pytest.fixture
def ours(tmp_path: Path) -> tuple[Path, Prepared]:
    files = {}
    for number, part in enumerate(("", "dev_")):
        for side in ("source", "target"):
            path = tmp_path / f"{part}{side}"
            path.write_text("".join(f"{line}\n" for line in small.sentences(40, number, 4)), encoding="utf-8")
            files[part + side] = [str(path)]
    config = make_config({"out": "ours", "data": files, "tokenizer": {"kind": "word"}})
    data = prepare(config, tmp_path / "ours/data")
    (tmp_path / "ours/config.toml").write_text("out = 'ours'\n[training]\nbatch_tokens = 100\n", encoding="utf-8")
    (tmp_path / "ours/config.json").write_text('{"model": {"d_model": 32}}', encoding="utf-8")
    return tmp_path / "ours", data


def test_a_peer_is_given_the_same_ids_in_the_same_batches(ours: tuple[Path, Prepared]):
    folder, data = ours
    task = beside_marian.make_task(folder, data, 1, 5)
    assert task["train"][1][7] == data.train.target(7).tolist()
    assert (len(task["dev"][0]), task["model"]) == (len(data.dev), {"d_model": 32})
    first = len(data.train)
    seen: list[int] = []
    for rows in task["batches"]:
        assert max(len(task["train"][0][row]) + 1 for row in rows) * len(rows) <= 100
        seen += rows
    assert sorted(seen[:first]) == list(range(first)), "an epoch has each pair once"
    assert len(seen) == beside_marian.EPOCHS * first
    assert EOS not in task["train"][0][0], "the framing is the peer's own business"


def test_both_systems_are_scored_as_the_recipe_is(ours: tuple[Path, Prepared], monkeypatch: pytest.MonkeyPatch):
    folder, data = ours
    translator = small.translator(data.tokenizers)
    monkeypatch.setattr(beside_marian.dragoman.Translator, "from_pretrained", lambda _: translator)
    marian = {"outputs": [data.tokenizers.target.encode(line) for line in data.dev_target]}
    judged = folder, data, marian, data.dev_source, [(line,) for line in data.dev_target]
    found = beside_marian.score_both(*judged, TESTS["multi30k-lc-en-de"])
    assert "tok:none" in found["bleu"]["signature"]
    assert "case:lc" in beside_marian.score_both(*judged, {"lowercase": True})["chrf"]["signature"]
    assert "tok:13a" in beside_marian.score_both(*judged, TESTS["multi30k-en-de"])["bleu"]["signature"]


def test_the_best_of_the_tried_rates_gets_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    peer = (
        "import json, sys, pathlib\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "task = json.loads((folder / 'task.json').read_text())\n"
        "found = {'dev_loss': abs(task['rate'] - 2e-3), 'seconds': task['seconds'], 'outputs': task['sources']}\n"
        "(folder / task['result']).write_text(json.dumps(found))\n"
    )
    (tmp_path / "marian_training.py").write_text(peer, encoding="utf-8")
    monkeypatch.setattr(beside_marian, "HERE", tmp_path)
    task = {"threads": 1, "sources": [[5]], "result": "dev.json"}
    found = beside_marian.train_marian(Path(sys.executable), tmp_path / "m", task, [1e-3, 2e-3, 5e-3], 40.0)
    assert (found["rate"], found["seconds"], found["outputs"]) == (2e-3, 40.0, [[5]])
    trial = json.loads((tmp_path / "m/rate-0.005/task.json").read_text(encoding="utf-8"))
    assert (trial["seconds"], trial["sources"]) == (10.0, [])
    (tmp_path / "marian_training.py").unlink()
    again = beside_marian.train_marian(Path(sys.executable), tmp_path / "m", task, [1e-3, 2e-3, 5e-3], 40.0)
    assert again == found, "what is finished is not trained again"
    (tmp_path / "marian_training.py").write_text(peer, encoding="utf-8")
    alone = beside_marian.train_marian(Path(sys.executable), tmp_path / "one", task, [1e-3], 40.0)
    assert (alone["rate"], alone["trials"]) == (1e-3, {})
    assert not (tmp_path / "one/rate-0.001").exists(), "one rate needs no trial"
