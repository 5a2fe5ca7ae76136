"""Every verb with good input: what it prints is what the Python underneath says."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Completer, Translator, evaluate
from dragoman.config import make_config, read_toml
from dragoman.models import load_pretrained
from end_to_end import small
from end_to_end.conftest import Command

pytestmark = pytest.mark.arithmetic

TEXTS = small.sentences(6, seed=20)
INPUT = "".join(f"{text}\n" for text in TEXTS).encode()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


# Training


def test_train_leaves_a_run_that_is_a_model(run: Path) -> None:
    files = {"config.json", "config.toml", "model.safetensors", "vocabulary.json", "README.md", "metrics.jsonl"}
    assert files <= {path.name for path in run.iterdir()}
    config = make_config(read_toml(run / "config.toml"))
    assert (config.model.d_model, config.model.d_ff, config.training.seed) == (16, 24, 5)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    losses = [row["loss"] for row in rows if row["event"] == "validation"]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert len(Translator.from_pretrained(run).translate(["ba ce"])) == 1


def test_train_tells_what_it_chose_and_json_says_where_it_stands(
    dragoman: Command, corpus: Path, tmp_path: Path
) -> None:
    sides = [(corpus / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("source", "target")]
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
    arguments = ("--pairs", tmp_path / "pairs.tsv.gz", "--config", corpus / "small.toml", "--set", "max_steps=4")
    found = dragoman("train", *arguments, "--out", tmp_path / "run", "--json")
    assert found.status == 0
    tree = json.loads(found.out)
    assert (tree["directory"], tree["progress"]["step"]) == (str(tmp_path / "run"), 4)
    for told in ("200 pairs", "chosen from the corpus", "parameters on", "done: 4 updates"):
        assert told in found.err
    more = dragoman("train", "--out", tmp_path / "run", "--resume", "--set", "max_steps=6", "--quiet", "--json")
    assert (more.status, json.loads(more.out)["progress"]["step"], more.err) == (0, 6, "")
    tuned = ("train", *arguments, "--init-from", tmp_path / "run", "--out", tmp_path / "tuned", "--quiet")
    assert (dragoman(*tuned).status, load_pretrained(tmp_path / "tuned").config.d_model) == (0, 16)


def test_prepare_reports_and_train_goes_on_from_there(dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    files = ("--source", corpus / "train.source", "--target", corpus / "train.target")
    config = ("--config", corpus / "small.toml")
    plain = dragoman("prepare", *files, *config, "--out", tmp_path / "plain")
    assert (plain.status, plain.err) == (0, "")
    assert "200 pairs" in plain.lines[0]
    found = dragoman("prepare", *files, *config, "--out", tmp_path / "data", "--json")
    tree = json.loads(found.out)
    assert (tree["directory"], tree["report"]["pairs"]) == (str(tmp_path / "data"), 200)
    out = tmp_path / "run"
    trained = dragoman("train", "--prepared", tmp_path / "data", *config, "--set", "max_steps=3", "--out", out)
    assert trained.status == 0
    assert trained.out == ""
    assert dragoman("translate", out, stdin=INPUT).status == 0


def test_average_makes_a_model_of_the_last_checkpoints(dragoman: Command, run: Path, tmp_path: Path) -> None:
    found = dragoman("average", run, "--last", 2, "--out", tmp_path / "mean")
    assert (found.status, found.lines) == (0, [str(tmp_path / "mean")])
    assert found.err.startswith("the average of the checkpoints of steps ")
    steps = sorted((run / "checkpoints").iterdir())[-2:]
    weights = [load_pretrained_weights(path) for path in steps]
    mean = load_pretrained(tmp_path / "mean").model.state_dict()
    for name, tensor in mean.items():
        expected = sum(one[name].double() for one in weights) / 2
        assert (tensor.double() - expected).abs().max() <= 1e-7
    assert dragoman("translate", tmp_path / "mean", stdin=INPUT).status == 0
    assert (tmp_path / "mean/model.safetensors").stat().st_size == (run / "model.safetensors").stat().st_size


def load_pretrained_weights(checkpoint: Path) -> dict:
    from dragoman.models.tensors import read_tensors

    return read_tensors(checkpoint / "model.safetensors")


# Translating


def test_translate_prints_a_line_for_a_line(dragoman: Command, model: Path, tmp_path: Path) -> None:
    expected = [one.text for one in Translator.from_pretrained(model).translate(TEXTS)]
    found = dragoman("translate", model, stdin=INPUT)
    assert (found.status, found.lines) == (0, expected)
    assert all(line.startswith("warning: ") for line in found.err.splitlines())
    (tmp_path / "in.gz").write_bytes(gzip.compress(INPUT))
    found = dragoman("translate", model, "--input", tmp_path / "in.gz", "--output", tmp_path / "out")
    assert (found.status, found.out) == (0, "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "".join(f"{text}\n" for text in expected)
    assert dragoman("translate", model).lines == []


def test_translate_takes_every_decoding_option(dragoman: Command, model: Path) -> None:
    translator = Translator.from_pretrained(model)
    for arguments, options in (
        (("--beam-size", 1), {"beam_size": 1}),
        (("--length-penalty", 2), {"length_penalty": 2.0}),
        (("--set", "max_length=3", "--set", "decoding.min_length=3"), {"max_length": 3, "min_length": 3}),
        (("--sampling", "--set", "sampling_seed=9"), {"sampling": True, "seed": 9}),
        (("--set", "beam_size=3", "--beam-size", 3), {"beam_size": 3}),
    ):
        expected = [one.text for one in translator.translate(TEXTS, **options)]
        assert dragoman("translate", model, *arguments, stdin=INPUT).lines == expected


def test_translate_begins_every_output_with_the_prefix(dragoman: Command, model: Path) -> None:
    prefixes = ["fo gu" if text.strip() else "" for text in TEXTS]
    expected = [one.text for one in Translator.from_pretrained(model).translate(TEXTS, prefixes=prefixes)]
    found = dragoman("translate", model, "--prefix", "fo gu", stdin=INPUT)
    assert found.lines == expected
    assert all(line.startswith("fo gu") for line, text in zip(found.lines, TEXTS, strict=True) if text.strip())


def test_translate_prints_scores_alignments_and_several_outputs(dragoman: Command, model: Path) -> None:
    best = Translator.from_pretrained(model).translate(TEXTS, n_best=5, alignments=True)
    found = dragoman("translate", model, "--beam-size", 5, "--scores", "--alignments", stdin=INPUT)
    for line, one in zip(found.lines, best, strict=True):
        assert line == f"{one.score:.4f}\t{one.text}\t" + " ".join(f"{i}-{j}" for i, j in one.alignment)
    found = dragoman("translate", model, "--nbest", 5, stdin=INPUT)
    assert found.lines == [
        f"{number}\t{output.score:.4f}\t{output.text}"
        for number, one in enumerate(best, 1)
        for output in one.alternatives
    ]
    found = dragoman("translate", model, "--nbest", 5, "--scores", "--alignments", stdin=INPUT)
    assert found.lines == [
        f"{number}\t{output.score:.4f}\t{output.text}\t" + " ".join(f"{i}-{j}" for i, j in output.alignment)
        for number, one in enumerate(best, 1)
        for output in one.alternatives
    ]
    assert len({line.split("\t")[3] for line in found.lines[:5]}) > 1
    found = dragoman("translate", model, "--nbest", 5, "--alignments", "--json", stdin=INPUT)
    for number, (line, one) in enumerate(zip(found.lines, best, strict=True), 1):
        tree = json.loads(line)
        assert tree["line"] == number
        assert (tree["source"], tree["text"]) == (TEXTS[number - 1], one.text)
        assert len(tree["alternatives"]) == 5
        assert tree["alignment"] == tree["alternatives"][0]["alignment"] == [list(pair) for pair in one.alignment]


def test_an_ensemble_decides_together(dragoman: Command, model: Path, tmp_path: Path) -> None:
    other = small.saved(tmp_path / "other", small.word_pair(), seed=7)
    expected = Translator.from_pretrained([model, other, model]).translate(TEXTS)
    found = dragoman("translate", model, "--ensemble", other, "--ensemble", model, stdin=INPUT)
    assert found.lines == [one.text for one in expected]
    assert found.lines != dragoman("translate", model, stdin=INPUT).lines


def test_complete_continues_a_prompt(dragoman: Command, causal_model: Path) -> None:
    completer = Completer.from_pretrained(causal_model)
    (best,) = completer.complete(["ba ce"], completer.options({"n_best": 6}))
    found = dragoman("complete", causal_model, "ba ce", "--nbest", 6)
    assert (found.status, found.lines, found.err) == (0, [one.text for one in best], "")
    assert all(line.startswith("ba ce") for line in found.lines)
    tree = json.loads(dragoman("complete", causal_model, "", "--json", "--beam-size", 1).out)
    assert tree["log_probability"] == pytest.approx(sum(tree["token_scores"]))
    draw = ("complete", causal_model, "", "--sampling", "--set")
    assert len({dragoman(*draw, f"sampling_seed={seed}").out for seed in range(6)}) > 1


# Judging


def test_evaluate_prints_scores_with_intervals_and_signatures(dragoman: Command, model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "source", TEXTS)
    outputs = dragoman("translate", model, "--beam-size", 2, stdin=INPUT).lines
    reference = write(tmp_path / "reference", [*outputs[:3], "no", "no", "no"])
    arguments = (model, "--source", source, "--reference", reference, "--metric", "exact, chrf,bleu", "--beam-size", 2)
    found = dragoman("evaluate", *arguments, "--hypotheses", tmp_path / "hypotheses")
    assert found.status == 0
    assert all(line.startswith("warning: outputs that the model did not end") for line in found.err.splitlines())
    options = Translator.from_pretrained(model).options({"beam_size": 2})
    expected = evaluate(model, source, reference, metrics=["exact", "chrf", "bleu"], decoding=options)
    assert found.lines == [str(score) for score in expected.scores]
    assert "50.00" in found.lines[0]
    assert all("bs:1000" in line and "[" in line for line in found.lines)
    assert (tmp_path / "hypotheses").read_text().split("\n")[:-1] == outputs
    tree = json.loads(dragoman("evaluate", *arguments, "--json").out)
    assert [row["name"] for row in tree["scores"]] == ["exact", "chrf", "bleu"]
    assert (tree["lines"], tree["decoding"]["beam_size"], tree["system"]) == (6, 2, str(model))
    assert tree["engine"].partition(" in ")[0] in ("native", "packed", "module")
    assert dragoman("evaluate", *arguments, "--report", tmp_path / "report.md").status == 0
    told = f"{model}: beam 2, length penalty 0.6 (gnmt), engine {tree['engine']}"
    assert told in (tmp_path / "report.md").read_text().replace("\\", "")


def test_evaluate_groups_lines_of_one_source(dragoman: Command, model: Path, tmp_path: Path) -> None:
    (right,) = dragoman("translate", model, stdin=b"ba ce\n").lines
    source = write(tmp_path / "source", ["ba ce", "ba ce"])
    reference = write(tmp_path / "reference", [right, "no"])
    arguments = ("--source", source, "--reference", reference, "--metric", "exact", "--json")
    for more, value in (((), 50.0), (("--group",), 100.0)):
        tree = json.loads(dragoman("evaluate", model, *arguments, *more).out)
        assert tree["scores"][0]["value"] == value


def test_score_prints_a_log_probability_for_each_pair(dragoman: Command, model: Path, tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", TEXTS), write(tmp_path / "t", ["", *TEXTS[1:]])
    expected = Translator.from_pretrained(model).score(TEXTS, ["", *TEXTS[1:]])
    arguments = ("score", model, "--source", source, "--target", target)
    assert dragoman(*arguments).lines == [f"{one.log_probability:.4f}" for one in expected]
    trees = [json.loads(line) for line in dragoman(*arguments, "--json").lines]
    assert [tree["log_probability"] for tree in trees] == [one.log_probability for one in expected]
    for line, one in zip(dragoman(*arguments, "--tokens").lines, expected, strict=True):
        total, pieces = line.split("\t")
        assert total == f"{one.log_probability:.4f}"
        assert [piece.rsplit(":")[0] for piece in pieces.split(" ")] == [*one.tokens, "</s>"]


def test_compare_tells_which_output_is_better(dragoman: Command, tmp_path: Path) -> None:
    lines = small.sentences(30, seed=30)
    good, bad = write(tmp_path / "good", lines), write(tmp_path / "bad", [line[:-2] + "xx" for line in lines])
    found = dragoman("compare", bad, good, "--reference", good, "--metric", "chrf")
    assert (found.status, len(found.lines), found.err) == (0, 1, "")
    tree = json.loads(dragoman("compare", bad, good, "--reference", good, "--metric", "chrf", "--json").out)
    assert tree == json.loads(json.dumps(tree))
    assert "100.00" in found.lines[0]


# Telling


def test_info_tells_what_a_directory_holds(dragoman: Command, run: Path, model: Path, causal_model: Path) -> None:
    found = dragoman("info", run)
    assert (found.status, found.err) == (0, "")
    for line in ("  d_model = 16", "  d_ff = 24", "checkpoints: step-00000020, step-00000030", "languages: none"):
        assert line in found.lines
    assert any(re.match(r"engine: (native|packed|module) in \w+ on ", line) for line in found.lines)
    tree = json.loads(dragoman("info", run, "--json").out)
    assert f"parameters: {tree['parameters']:,}" in found.lines
    assert "  source = xx" in dragoman("info", model).lines
    assert "checkpoints: none" in dragoman("info", model).lines
    assert "  family = causal" in dragoman("info", causal_model).lines


VERBS = [
    "train", "prepare", "translate", "evaluate", "compare", "tune", "remember", "synthesize", "score", "complete",
    "explain", "inspect", "average", "info", "plot", "bundle", "import", "settings", "demo",
]  # fmt: skip


def test_help_names_every_verb_in_a_whole_sentence(dragoman: Command) -> None:
    found = dragoman("--help")
    assert found.status == 0
    for verb in VERBS:
        (line,) = [line for line in found.lines if line.split()[:1] == [verb]]
        assert line.endswith(".")
        assert not line.endswith("...")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself(verb: str, dragoman: Command) -> None:
    found = dragoman(verb, "-h")
    assert (found.status, found.err) == (0, "")
    assert found.out.startswith(f"Usage: dragoman {verb} ")
    assert ("list[" in found.out) == (verb == "plot"), "which alone takes several by their places"


def test_a_reader_that_goes_away_is_no_error(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "s", ["ba ce di"] * 600)
    # As objects, they fill a pipe several times over.
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--input", str(source), "--json"]
    with subprocess.Popen([*command, "--beam-size=1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"line": 1, ')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_remember(run: Path, dragoman: Command, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    found = dragoman("remember", copy)
    assert (found.status, found.err) == (0, "")
    assert found.lines[-1].startswith("datastore: with a mean weight of ")
    pairs = write(tmp_path / "more.tsv", ["ba ce\tce ba"])
    tree = json.loads(dragoman("remember", copy, "--pairs", pairs, "--add", "--json").out)
    assert tree["pairs"] == json.loads(dragoman("remember", copy, "--json").out)["pairs"] + 1
    assert any(line.startswith("datastore: ") for line in dragoman("info", copy).lines)
    assert dragoman("translate", copy, "--set", "knn_weight=0.5", stdin=b"ba ce\n").status == 0
    refused = dragoman("remember", copy, "--source", pairs)
    assert refused.status == 2
    assert "source and target files go in pairs" in refused.err


def test_an_output_that_ends_in_gz_is_compressed(dragoman: Command, model: Path, tmp_path: Path) -> None:
    expected = dragoman("translate", model, stdin=INPUT).out
    assert dragoman("translate", model, "--output", tmp_path / "out.gz", stdin=INPUT).status == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == expected


def test_word_alignments_are_in_the_json_too(dragoman: Command, byte_model: Path) -> None:
    plain = dragoman("translate", byte_model, "--word-alignments", stdin=INPUT).lines
    for line, expected in zip(
        dragoman("translate", byte_model, "--word-alignments", "--json", stdin=INPUT).lines, plain, strict=True
    ):
        tree = json.loads(line)
        assert " ".join(f"{i}-{j}" for i, j in tree["word_alignment"]) == expected.rpartition("\t")[2]
        assert tree["alternatives"][0]["word_alignment"] == tree["word_alignment"]
        assert "word_alignment" not in json.loads(dragoman("translate", byte_model, "--json", stdin=b"ba\n").out)


def test_a_small_buffer_answers_while_the_input_goes_on(model: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--buffer", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in TEXTS[:3]:
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait() == 0
