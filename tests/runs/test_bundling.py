"""A bundle has what running a model needs and nothing else, and does what the model does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dragoman
from dragoman.errors import ConfigError, DragomanError
from dragoman.runs import bundle, curves
from dragoman.runs.bundling import needed_files
from dragoman.runs.lock import RunLock, is_locked
from dragoman.training import info, train
from small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundled")
    return train(small_config(folder, "run", "max_steps=4", "training.license=cc-by-4.0"), quiet=True).directory


def test_a_bundle_translates_as_the_run_does(run: Path, tmp_path: Path) -> None:
    made = bundle(run, tmp_path / "new" / "made")
    there = {path.name: path.stat().st_size for path in made.directory.iterdir()}
    assert there == made.files
    assert {*needed_files(run), "README.md"} == set(made.files)
    assert sum(there.values()) == made.bytes == made.to_dict()["bytes"]
    lines = ["a b c", "b", ""]
    here, other = (dragoman.Translator.from_pretrained(one).translate(lines) for one in (run, made.directory))
    assert [(one.text, one.score) for one in here] == [(one.text, one.score) for one in other]
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["made"]


def test_every_needed_file_is_needed(run: Path, tmp_path: Path) -> None:
    for name in needed_files(run):
        copy = bundle(run, tmp_path / name).directory
        (copy / name).unlink()
        with pytest.raises(DragomanError):
            dragoman.Translator.from_pretrained(copy)


def test_a_damaged_model_makes_no_bundle(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-9] ^= 4
    (copy / "model.safetensors").write_bytes(weights)
    with pytest.raises(DragomanError):
        bundle(copy, tmp_path / "made")
    assert [one.name for one in tmp_path.iterdir()] == ["copy"]


def test_what_is_there_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    with pytest.raises(ConfigError, match="there already"):
        bundle(run, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_info_tells_how_far_a_run_is_and_what_it_takes(run: Path, tmp_path: Path) -> None:
    found = info(run)
    assert found["state"] == "finished"
    assert found["training"]["updates"] == 4
    assert found["needed"] == needed_files(run)
    assert 0 < found["needed_bytes"] < found["bytes"]
    copy = Path(shutil.copytree(run, tmp_path / "it's"))
    (copy / "README.md").unlink()
    assert "train --resume --out" in info(copy)["state"]
    with RunLock(copy):
        assert is_locked(copy)
        assert info(copy)["state"] == "training, step 4 saved"
    assert not is_locked(copy)
    alone = info(bundle(run, tmp_path / "alone").directory)
    assert alone["state"] == "a model without its training"


def test_info_tells_of_a_run_that_has_no_model_yet(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "early"))
    for name in ("README.md", "model.safetensors"):
        (copy / name).unlink()
    assert info(copy)["state"].startswith("interrupted")
    shutil.rmtree(copy / "checkpoints")
    found = info(copy)
    assert (found["state"], found["needed"]) == ("no checkpoint tells how far training came", [])
    with RunLock(copy):
        assert info(copy)["state"] == "training, nothing saved yet"


def test_a_run_shows_its_curves_in_its_card_and_takes_them_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(curves, "_LEAST_UPDATES", 4)
    run = train(small_config(tmp_path, "drawn", "max_steps=4", "log_every=1"), quiet=True).directory
    assert "(curves.png)" in (run / "README.md").read_text(encoding="utf-8")
    made = bundle(run, tmp_path / "made")
    assert (made.directory / "curves.png").read_bytes() == (run / "curves.png").read_bytes()


def test_the_head_of_a_card_is_yaml_that_a_hub_reads(run: Path) -> None:
    yaml = pytest.importorskip("yaml")
    card = (run / "README.md").read_text(encoding="utf-8")
    _, head, body = card.split("---\n", 2)
    found = yaml.safe_load(head)
    assert found["library_name"] == "dragoman"
    assert found["pipeline_tag"] == "translation"
    assert found["license"] == "cc-by-4.0"
    (result,) = found["model-index"][0]["results"]
    assert {one["type"] for one in result["metrics"]} == set(found["metrics"])
    for one in result["metrics"]:
        assert f"| {one['value']:.2f} |" in body
    assert body.startswith("\n# run")
