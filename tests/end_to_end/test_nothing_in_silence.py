"""One bad line ends no long job, nothing that was given does nothing, and what was cut or unknown is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.translation import Translator
from end_to_end.conftest import Command
from end_to_end.test_mistakes import refused

BAD = b"ba ce\nba \xff\n\ndi\n"


@pytest.mark.parametrize("policy", ["replace", "skip"])
@pytest.mark.parametrize("through", ["file", "pipe"])
def test_a_bad_line_ends_no_translation(
    policy: str, through: str, dragoman: Command, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(BAD)
    how = ("--input", tmp_path / "in") if through == "file" else ()
    found = dragoman("translate", model, *how, "--on-bad-text", policy, stdin=BAD)
    line = {"replace": "ba \ufffd", "skip": ""}[policy]
    expected = [one.text for one in Translator.from_pretrained(model).translate(["ba ce", line, "", "di"])]
    assert (found.status, found.lines) == (0, expected)
    assert "1 of 4 lines were not text" in found.err
    assert "line 2" in found.err


def test_a_file_is_checked_before_the_work(dragoman: Command, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"ba\n" * 3000 + b"\xff\n")
    out = tmp_path / "out"
    found = dragoman("translate", model, "--input", tmp_path / "in", "--output", out)
    refused(found, "line 3001", "--on-bad-text replace")
    assert not out.exists()


@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_other_verbs_go_on_too(policy: str, dragoman: Command, model: Path, causal_model: Path, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(BAD)
    good.write_bytes(b"ba ce\nba\n\ndi\n")
    last = ("--on-bad-text", policy)
    found = dragoman("score", model, "--source", bad, "--target", good, *last)
    assert (found.status, len(found.lines)) == (0, 4)
    assert [line == "nan" for line in found.lines] == [False, policy == "skip", False, False]
    for call in (
        ("score", causal_model, "--text", bad),
        ("complete", causal_model, "--input", bad),
    ):
        found = dragoman(*call, *last)
        assert (found.status, len(found.lines)) == (0, 4)
        assert "1 of 4 lines were not text" in found.err
    for call in (
        ("evaluate", model, "--source", bad, "--reference", good, "--metric", "chrf"),
        ("evaluate", "--outputs", bad, "--reference", good, "--metric", "chrf"),
        ("compare", bad, good, "--reference", good, "--metric", "chrf"),
        ("tune", model, "--source", bad, "--reference", good, "--metric", "chrf", "--beam-sizes", "1"),
        ("synthesize", model, "--input", bad, "--output", tmp_path / "made.tsv"),
    ):
        found = dragoman(*call, *last)
        assert found.status == 0, found.err
        assert "1 of 4 lines were not text" in found.err
        refused(dragoman(*call), "the line is not text")


def test_a_pair_too_long_has_no_score_and_the_rest_do(dragoman: Command, model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("ba\n" + "ba " * 5000 + "\nce\n")
    target.write_text("ba\nba\nce\n")
    found = dragoman("score", model, "--source", source, "--target", target)
    assert found.status == 0
    assert [line == "nan" for line in found.lines] == [False, True, False]
    assert "warning: 1 could not be scored" in found.err
    found = dragoman("score", model, "--source", source, "--target", target, "--json", "--summary")
    rows = [json.loads(line) for line in found.lines]
    assert [row["log_probability"] is None for row in rows[:3]] == [False, True, False]
    assert rows[3]["summary"]["unscored"] == 1


def test_what_was_cut_and_unknown_is_told_once_and_in_json(dragoman: Command, model: Path) -> None:
    stdin = b"ba ce\nnew ba\n\n"
    found = dragoman("translate", model, "--set", "max_length=1", stdin=stdin)
    assert "source tokens that the model does not know: 1 of 4, in 1 of 2 (line 2)" in found.err
    rows = [json.loads(line) for line in dragoman("translate", model, "--json", stdin=stdin).lines]
    assert [row["unknown"] for row in rows] == [0, 1, 0]
    assert all({"finished", "truncated"} <= row.keys() for row in rows)
    cut = sum(not json.loads(line)["finished"] for line in
              dragoman("translate", model, "--json", "--set", "max_length=1", stdin=stdin).lines)  # fmt: skip
    assert (f"cut at the limit (1 tokens): {cut} of 2" in found.err) == (cut > 0)


def test_an_evaluation_tells_the_same(dragoman: Command, model: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "s", tmp_path / "t"
    source.write_text("ba ce\nnew ba\n")
    reference.write_text("ce ba\nba new\n")
    found = dragoman("evaluate", model, "--source", source, "--reference", reference, "--set", "max_source_length=1")
    assert found.status == 0
    assert "source tokens that the model does not know: 1 of 2, in 1 of 2 (line 2)" in found.err
    assert "sources longer than 1 tokens, cut there: 2 of 2 (lines 1, 2)" in found.err


def test_a_text_may_stand_among_the_arguments(dragoman: Command, model: Path, tmp_path: Path) -> None:
    expected = dragoman("translate", model, stdin=b"ba ce di\n").lines
    assert dragoman("translate", model, "ba ce di").lines == expected
    assert len(dragoman("translate", model, "ba\nce").lines) == 2
    file = tmp_path / "in"
    file.write_text("ba\n")
    refused(dragoman("translate", model, file), "this is a file", f"--input {file}")
    refused(dragoman("translate", model, "ba", "--input", file), "not both")


def test_threads_may_be_said(dragoman: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    expected = dragoman("translate", model, "ba ce").lines
    assert dragoman("translate", model, "ba ce", "--threads", 1).lines == expected
    refused(dragoman("translate", model, "ba", "--threads", 5000), "threads")


@pytest.mark.parametrize(
    "twice",
    [("--input", "a", "--input", "b"), ("--prefix", "A", "--prefix", "B"), ("--beam-size", 2, "--beam-size", 3)],
)
def test_an_option_that_counts_once_is_refused_twice(twice: tuple[object, ...], dragoman: Command, model: Path) -> None:
    refused(dragoman("translate", model, *twice), "given 2 times", str(twice[0]))


def test_a_setting_with_two_values_is_refused(dragoman: Command, model: Path) -> None:
    refused(dragoman("translate", model, "ba", "--set", "beam_size=2", "--set", "beam_size=3"), "given twice")
    refused(dragoman("translate", model, "ba", "--set", "beam_size=2", "--beam-size", 3), "given twice")
    same = ("--set", "beam_size=2", "--set", "beam_size=2", "--beam-size", 2)
    assert dragoman("translate", model, "ba", *same).status == 0
    refused(dragoman("train", "--out", "r", "--seed", 1, "--set", "seed=2"), "given twice")
    refused(dragoman("translate", model, "ba", "--set", "temperature=nan"), "(found nan)")  # which is unlike itself


def test_a_refused_training_leaves_nothing(dragoman: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    refused(dragoman("train", "--out", run, "--source", "none", "--target", "none"), "cannot read")
    assert not run.exists()
    run.mkdir()
    (run / "mine").write_text("kept")
    dragoman("train", "--out", run, "--source", "none", "--target", "none")
    assert (run / "mine").read_text() == "kept"


def test_models_nearby_are_named(dragoman: Command, model: Path) -> None:
    refused(dragoman("translate", model.parent / "modle", "ba"), "no model here", str(model))
    refused(dragoman("info", model.parent), "no model here", str(model))


def test_a_gpu_is_called_by_its_name(dragoman: Command, model: Path) -> None:
    refused(dragoman("translate", model, "ba", "--device", "gpu"), "cuda", "mps")


def test_a_text_has_one_line(model: Path) -> None:
    translator = Translator.from_pretrained(model)
    with pytest.raises(DataError, match="text 1 has more than one line"):
        translator.translate(["ba", "ba\nce"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk")
def test_a_full_disk_is_told_with_the_file(dragoman: Command, model: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    found = dragoman("translate", model, "ba", "--output", full)
    assert found.status == 1
    assert f"{full}: No space left" in found.err
