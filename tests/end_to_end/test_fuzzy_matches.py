"""A model that reads each source with the targets of the training pairs most like it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dragoman.errors import ModelError
from dragoman.training import train
from dragoman.translation import Translator
from small_runs import events, small_config

pytestmark = pytest.mark.arithmetic


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matches")
    config = small_config(folder, "run", "data.fuzzy_matches=2", "model.tie_embeddings=decoder")
    return train(config, resume=False).directory


def own_parts(translator: Translator, text: str) -> list[str]:
    [result] = translator.translate([text])
    return " ".join(result.source_tokens).split(" <s> ")


def test_all_verbs_read_the_matches(dragoman, run: Path) -> None:
    text = "ba ce di fo gu"
    parts = own_parts(Translator.from_pretrained(run), text)
    assert parts[0] == text
    assert len(parts) == 3
    targets = (run.parent / "target.txt").read_text().splitlines()
    assert all(part in targets for part in parts[1:])
    read = json.loads(dragoman("translate", run, "--json", stdin=f"{text}\n".encode()).out)
    assert " ".join(read["source_tokens"]) == " <s> ".join(parts)
    shown = dragoman("explain", run, text)
    assert shown.status == 0
    assert "<s>" in shown.out.split("what the decoder is given")[0]
    info = json.loads(dragoman("info", run, "--json").out)
    assert info["tokenizers"]["beside each source"] == "the targets of the 2 most like it of 200 training pairs"
    assert "who has the model has them" in (run / "README.md").read_text()
    source, target = run.parent / "dev_source.txt", run.parent / "dev_target.txt"
    assert dragoman("evaluate", run, "--source", source, "--reference", target).status == 0
    assert dragoman("score", run, "--source", source, "--target", target).status == 0


def test_every_engine_reads_them(run: Path) -> None:
    lines = (run.parent / "dev_source.txt").read_text().splitlines()
    found = {}
    for engine in ("module", "packed", "native"):
        translator = Translator.from_pretrained(run, engine=engine, precision="float32", device="cpu")
        found[engine] = [result.text for result in translator.translate(lines)]
    assert found["module"] == found["packed"] == found["native"]


@pytest.mark.parametrize("joint", [True, False])
def test_a_model_without_its_pairs_is_refused(dragoman, joint: bool, tmp_path: Path) -> None:
    settings = ("data.fuzzy_matches=2", "max_steps=1", f"tokenizer.joint={str(joint).lower()}")
    run = train(small_config(tmp_path, "run", *settings, "model.tie_embeddings=decoder"), quiet=True).directory
    (run / "matches.safetensors").unlink()
    with pytest.raises(ModelError, match=r"expected: matches\.safetensors"):
        Translator.from_pretrained(run)
    for verb in (("info", run), ("average", run, "--out", tmp_path / "mean", "--last", 1), ("remember", run)):
        refused = dragoman(*verb)
        assert refused.status != 0
        assert "matches.safetensors" in refused.err
    further = small_config(tmp_path, "further", *settings, f"init_from={run}")
    with pytest.raises(ModelError, match=r"matches\.safetensors"):
        train(further, quiet=True)


def test_pairs_beside_a_model_without_are_refused(run: Path, tmp_path: Path) -> None:
    plain = train(small_config(tmp_path, "run", "max_steps=1", "model.tie_embeddings=decoder"), quiet=True).directory
    shutil.copy(run / "matches.safetensors", plain)
    with pytest.raises(ModelError, match="other fuzzy matches than the model's"):
        Translator.from_pretrained(plain)


def test_a_training_pair_is_read_without_itself_but_the_same_text_later_with_it(run: Path) -> None:
    source = (run.parent / "source.txt").read_text().splitlines()
    target = (run.parent / "target.txt").read_text().splitlines()
    row = next(row for row, text in enumerate(source) if len(text.split()) == 7)
    assert target[row] in own_parts(Translator.from_pretrained(run), source[row])[1:]


def test_an_average_keeps_the_pairs(dragoman, run: Path, tmp_path: Path) -> None:
    assert dragoman("average", run, "--out", tmp_path / "mean", "--last", "2").status == 0
    assert (tmp_path / "mean" / "matches.safetensors").read_bytes() == (run / "matches.safetensors").read_bytes()
    assert own_parts(Translator.from_pretrained(tmp_path / "mean"), "ba ce di") == own_parts(
        Translator.from_pretrained(run), "ba ce di"
    )


def test_an_ensemble_needs_the_same_pairs(run: Path) -> None:
    other = train(
        small_config(run.parent, "one", "data.fuzzy_matches=1", "training.max_steps=1"), resume=False
    ).directory
    with pytest.raises(ModelError, match="an ensemble needs the same tokenizers and fuzzy matches"):
        Translator.from_pretrained([run, other])
    assert len(Translator.from_pretrained([run, run]).translate(["ba ce"])) == 1


def test_a_model_of_other_pairs_goes_on_from_it(run: Path) -> None:
    settings = (
        "data.fuzzy_matches=2",
        f"training.init_from={run}",
        "training.max_steps=1",
        "model.tie_embeddings=decoder",
    )
    (run.parent / "more").mkdir()
    made = train(small_config(run.parent / "more", "run", *settings), resume=False).directory
    assert len(own_parts(Translator.from_pretrained(made), "ba ce di")) == 3


def test_a_resumed_run_draws_the_matches_it_would_have_drawn(tmp_path: Path) -> None:
    settings = ("data.fuzzy_matches=2", "model.dropout=0.1")
    for name, steps in (("whole", (40,)), ("parts", (13, 40))):
        for number, most in enumerate(steps):
            train(small_config(tmp_path, name, *settings, f"max_steps={most}"), resume=number > 0, quiet=True)
    whole, parts = ([row["loss"] for row in events(tmp_path / name, "train")] for name in ("whole", "parts"))
    assert len(whole) == 40
    assert whole == parts
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "parts" / "model.safetensors"
    ).read_bytes()
