"""From one model's outputs to the next model's training, with nothing but the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from end_to_end import small


def test_made_up_pairs_train_the_next_model(dragoman, model: Path, corpus: Path, tmp_path: Path) -> None:
    mono, pairs = tmp_path / "mono", tmp_path / "made.tsv"
    mono.write_text("".join(f"{line}\n" for line in ["", *small.sentences(20)]), encoding="utf-8")
    options = ("--input", mono, "--output", pairs, "--max-ratio", 50, "--set", "min_length=1")
    told = dragoman("synthesize", model, *options, "--json")
    counts = json.loads(told.out)
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").split("\n")[:-1]]
    assert (counts["read"], counts["kept"], counts["dropped"]["empty"]) == (21, len(rows), 1)
    assert all(source.startswith("<bt> ") for source, _ in rows)
    assert len(rows) > 3
    assert {target for _, target in rows} <= set(small.sentences(20))

    files = ("--source", corpus / "train.source", "--target", corpus / "train.target", "--pairs", pairs)
    settings = ('tokenizer.symbols=["<bt>"]', "data.repeat=[2,1]", "max_steps=2", "every=2")
    changes = [part for setting in settings for part in ("--set", setting)]
    held_out = ("--dev-source", corpus / "dev.source", "--dev-target", corpus / "dev.target")
    done = dragoman("train", *files, *held_out, "--config", corpus / "small.toml", *changes, "--out", tmp_path / "run")
    assert done.status == 0, done.err
    assert f"{2 * 200 + len(rows)} pairs with those that are repeated" in done.err
    assert '"<bt>": 4' in (tmp_path / "run/vocabulary.json").read_text(encoding="utf-8")


def test_json_lines_are_written_too(dragoman, model: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "made.jsonl", small.sentences(20)
    options = ("--kind", "distillation", "--max-ratio", 50, "--keep-copies", "--set", "min_length=1")
    told = dragoman("synthesize", model, "--output", out, *options, stdin="".join(f"{x}\n" for x in lines).encode())
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
    assert rows
    assert {row["source"] for row in rows} <= set(lines)
    assert told.lines == [f"{len(rows)} of 20 lines kept, {20 - len(rows)} unfinished"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output", "x.txt"), "expected: .tsv or .jsonl"),
        (("--output", "x.tsv", "--kind", "paraphrase"), "no such kind"),
        (("--output", "x.tsv", "--set", "dropout=1"), "only decoding settings"),
    ],
)
def test_mistakes_are_told(dragoman, model: Path, options, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = dragoman("synthesize", model, *options, stdin=b"ba\n")
    assert (wrong.status, wrong.out) == (2, "")
    assert message in wrong.err
    assert not list(tmp_path.iterdir())
