"""The verbs that judge, with all they can tell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from end_to_end import small
from end_to_end.conftest import Command

TEXTS = small.sentences(12, seed=40)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Sources, outputs with faults, references."""
    references = small.sentences(12, seed=41)
    outputs = ["", TEXTS[1], *references[2:11], "ba ba ba ba ba"]
    return write(tmp_path / "s", TEXTS), write(tmp_path / "o", outputs), write(tmp_path / "r", references)


def test_evaluate_tells_where_the_faults_are(dragoman: Command, model: Path, files: tuple[Path, Path, Path]) -> None:
    source, _, reference = files
    arguments = ("evaluate", model, "--source", source, "--reference", reference)
    plain = dragoman(*arguments)
    found = dragoman(*arguments, "--breakdown", "--worst", 2)
    assert found.status == 0
    assert all(line.startswith("warning: outputs that the model did not end") for line in found.err.splitlines())
    assert found.lines[: len(plain.lines)] == plain.lines
    own = "Outputs and references, by the model's own score"
    for title in ("By source length", "By unknown pieces in the source", "Faulty outputs", own, "Worst by chrF2"):
        assert title in found.lines
    tree = json.loads(dragoman(*arguments, "--breakdown", "--worst", 2, "--json").out)
    assert sum(group["lines"] for group in tree["breakdown"]["by_length"]) == 12
    errors = tree["breakdown"]["errors"]
    assert sorted(line for lines in errors.values() for line in lines) == list(range(1, 13))
    [line] = [line for line in found.lines if line.endswith(" ".join(map(str, errors["model"][:6])) + " ...")]
    assert line.split()[:4] == ["scores", "above", "them:", "model"]
    assert [f"line {one['line']}: {one['value']:.2f}" in found.lines for one in tree["worst"]["sentences"]] == [
        True
    ] * 2
    assert tree["worst"]["sentences"][0]["source"] in TEXTS


def test_evaluate_scores_outputs_from_elsewhere(
    dragoman: Command, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, outputs, reference = files
    arguments = ("evaluate", "--outputs", outputs, "--source", source, "--reference", reference, "--metric", "exact")
    found = dragoman(*arguments, "--breakdown", "--report", tmp_path / "page.md")
    assert (found.status, found.err) == (0, "")
    assert "75.00" in found.lines[0]
    assert not any("model error" in line for line in found.lines)  # no model is there to be asked
    assert [line.split()[-2:] for line in found.lines if line.startswith(("empty", "copied", "looping"))] == [
        ["1", "1"], ["1", "2"], ["1", "12"],
    ]  # fmt: skip
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert found.lines[0] in page
    assert "| looping | 1 | 12 |" in page
    assert json.loads(dragoman(*arguments, "--json").out)["lines"] == 12


def test_evaluate_says_what_it_lacks(dragoman: Command, model: Path, files: tuple[Path, Path, Path]) -> None:
    source, outputs, reference = files
    for arguments, message in (
        ((), "give a model, or --outputs"),
        ((model, "--outputs", outputs, "--source", source), "give a model, or --outputs"),
        ((model,), "a model needs sources"),
        (("--outputs", outputs, "--hypotheses", "x"), "without a model, this option has no effect"),
        (("--outputs", outputs, "--length-penalty", "0"), "--outputs and --length-penalty"),
        (("--outputs", source.parent / "none"), "cannot read the file"),
        (("--outputs", write(source.parent / "one", ["x"])), "as many outputs as references"),
        (("--outputs", outputs, "--group"), "grouped by their sources"),
        (("--outputs", outputs, "--ensemble", model), "without a model, this option has no effect"),
        (("--outputs", outputs, "--metric", ""), "no metric to score by"),
        ((model, "--source", source, "--metric", ","), "no metric to score by"),
    ):
        found = dragoman("evaluate", *arguments, "--reference", reference)
        assert (found.status != 0, found.out) == (True, "")
        assert message in found.err


def test_compare_tells_where_either_is_better(
    dragoman: Command, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, outputs, reference = files
    arguments = ("compare", outputs, reference, "--reference", reference, "--source", source)
    plain = dragoman(*arguments)
    found = dragoman(*arguments, "--breakdown", "--worst", 1, "--report", tmp_path / "page.md")
    assert (found.status, found.err, len(plain.lines)) == (0, "", 1)
    assert found.lines[0] == plain.lines[0]
    assert "BLEU by source length" in found.lines
    assert "Where A is ahead by chrF2: nowhere" in found.lines
    assert "line 1: A 0.00, B 100.00" in found.lines
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert plain.lines[0] in page
    assert "| looping | 1 | 0 | -1 |" in page
    tree = json.loads(dragoman(*arguments, "--breakdown", "--json").out)
    assert tree["breakdown"]["faults"]["a"]["looping"] == [12]
    assert "breakdown" not in json.loads(dragoman(*arguments, "--json").out)


def test_tokens_are_scored_as_they_are_on_request(dragoman: Command, model: Path, tmp_path: Path) -> None:
    tokens, answers = ["a well-kept cat &amp; dog ."] * 4, ["a well-fed cat &amp; dog ."] * 4
    outputs, reference = write(tmp_path / "o", tokens), write(tmp_path / "r", answers)
    arguments = ("evaluate", "--outputs", outputs, "--reference", reference, "--metric", "bleu")
    assert "--tokenize none" in dragoman(*arguments).out
    found = json.loads(dragoman(*arguments, "--tokenize", "none", "--breakdown", "--json").out)
    assert found["scores"][0]["value"] == BLEU(tokenize="none").corpus_score(tokens, [answers]).score
    assert found["breakdown"]["by_length"][0]["scores"]["bleu"]["value"] == found["scores"][0]["value"]
    test_set = ("--source", write(tmp_path / "s", small.sentences(4)), "--reference", reference, "--json")
    calls = {
        "evaluate": (model, "--metric", "bleu", *test_set),
        "tune": (model, "--beam-sizes", 1, *test_set),
        "compare": (outputs, reference, "--reference", reference, "--json"),
    }
    for verb, options in calls.items():
        for chosen, tokenizer in ((("--tokenize", "none"), "none"), ((), "13a")):
            told = dragoman(verb, *options, *chosen).out
            assert set(re.findall(r"tok:(\w+)", told)) == {tokenizer}
        wrong = dragoman(verb, *options, "--tokenize", "nil")
        assert (wrong.status, wrong.out) == (2, "")
        assert "there is no tokenizer 'nil'" in wrong.err
