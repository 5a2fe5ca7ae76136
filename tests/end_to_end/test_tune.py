"""`dragoman tune` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from end_to_end import small


def test_the_best_search_is_told_and_kept_on_request(dragoman, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    source, reference = tmp_path / "s", tmp_path / "r"
    source.write_text("".join(f"{line}\n" for line in small.sentences(15)), encoding="utf-8")
    made = dragoman("translate", folder, "--input", source, "--beam-size", 2, "--length-penalty", 0)
    reference.write_text(made.out, encoding="utf-8")
    options = ("--source", source, "--reference", reference, "--metric", "exact", "--beam-sizes", "1,2")
    shown = dragoman("tune", folder, *options, "--length-penalties", "0,1")
    assert shown.status == 0
    assert shown.lines[-1] == "best: beam_size = 2, length_penalty = 0.0, length_penalty_formula = gnmt"
    assert "4 of 4" in shown.err
    assert json.loads((folder / "config.json").read_text())["decoding"]["beam_size"] == 4
    told = dragoman("tune", folder, *options, "--length-penalties", "0,1", "--save", "--json")
    assert json.loads(told.out)["saved"] is True
    assert json.loads((folder / "config.json").read_text())["decoding"]["beam_size"] == 2
    assert dragoman("translate", folder, "--input", source).out == made.out


def test_lists_that_are_none_are_refused(dragoman, model: Path) -> None:
    options = ("--source", "s", "--reference", "r")
    wrong = dragoman("tune", model, *options, "--beam-sizes", "2,x")
    assert (wrong.status, wrong.out) == (2, "")
    assert "--beam-sizes is a list of numbers" in wrong.err
    assert "is empty" in dragoman("tune", model, *options, "--formulas", ",").err
    assert "--knn-weights is a list of numbers" in dragoman("tune", model, *options, "--knn-weights", "0.2;0.3").err


def test_shares_of_what_a_model_does_not_have_are_refused(dragoman, model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("ba ce\n", encoding="utf-8")
    options = ("--source", lines, "--reference", lines, "--metric", "exact")
    for option, said in (("--knn-weights", "no datastore"), ("--right-to-left-weights", "did not learn to read")):
        found = dragoman("tune", model, *options, option, "0,0.2")
        assert (found.status, found.out) == (2, "")
        assert said in found.err
        assert " of " not in found.err, "before any search"
    assert dragoman("tune", model, *options, "--knn-weights", "0", "--beam-sizes", "1").status == 0


def test_an_ensemble_is_judged_and_tuned_as_one(dragoman, model: Path, tmp_path: Path) -> None:
    other = small.saved(tmp_path / "other", small.word_pair(), seed=7)
    source, reference = tmp_path / "s", tmp_path / "r"
    source.write_text("".join(f"{line}\n" for line in small.sentences(12)), encoding="utf-8")
    together = dragoman("translate", model, "--ensemble", other, "--input", source)
    alone = dragoman("translate", model, "--input", source)
    assert together.out != alone.out
    reference.write_text(together.out, encoding="utf-8")
    options = ("--source", source, "--reference", reference, "--metric", "exact", "--json")
    found = dragoman("evaluate", model, *options, "--ensemble", other)
    assert json.loads(found.out)["scores"][0]["value"] == 100.0
    tuned = dragoman("tune", model, *options, "--beam-sizes", "1", "--ensemble", other)
    assert json.loads(tuned.out)["best"]["score"]["value"] == 100.0
    assert json.loads(dragoman("evaluate", model, *options).out)["scores"][0]["value"] < 100.0


def test_saving_a_search_keeps_how_many_outputs_are_printed(dragoman, tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "model", small.word_pair())
    config = json.loads((folder / "config.json").read_text())
    config["decoding"]["n_best"] = 3
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    source = tmp_path / "s"
    source.write_text("".join(f"{line}\n" for line in small.sentences(5)), encoding="utf-8")
    options = ("--source", source, "--reference", source, "--metric", "exact", "--save")
    for sizes, kept in (("4", 3), ("2", 2)):
        assert (
            dragoman(
                "tune", folder, *options, "--beam-sizes", sizes, "--set", f"beam_size={sizes}", "--set", "n_best=1"
            ).status
            == 0
        )
        assert json.loads((folder / "config.json").read_text())["decoding"]["n_best"] == kept
