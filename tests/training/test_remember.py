"""Datastores of runs: made when training ends, or later, of its own pairs or of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dragoman.config import make_config
from dragoman.data import prepare
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.memory import Datastore
from dragoman.text import read_lines
from dragoman.training import info, remember, train
from dragoman.translation import Translator
from small_runs import events, small_config, text_config, write_corpus

pytestmark = pytest.mark.arithmetic

NAME = "datastore.safetensors"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remember")
    return train(small_config(folder, "run", "training.max_steps=20"), quiet=True).directory


@pytest.fixture(autouse=True)
def forget(request: pytest.FixtureRequest):
    yield
    if "run" in request.fixturenames:
        (request.getfixturevalue("run") / NAME).unlink(missing_ok=True)


def test_training_makes_one_where_it_is_asked_for(tmp_path: Path) -> None:
    settings = ("training.datastore=true", "training.max_steps=20", "validation.length_penalties=[0.6, 1.0]")
    done = train(small_config(tmp_path, "run", *settings), quiet=True)
    store = Datastore.load(done.directory)
    assert store is not None
    assert store.pairs == 200
    log = (done.directory / "train.log").read_text(encoding="utf-8")
    assert "datastore: with a mean weight" in log
    assert log.index("datastore: with a mean weight") < log.index("trying 2 length penalties"), (
        "which it is to count for"
    )
    assert len(events(done.directory, "search")) == 1
    assert done.translator().backend.torch.datastores[0] is not None
    assert info(done.directory)["datastore"] == str(store)
    assert "who has that file\nhas their targets" in (done.directory / "README.md").read_text(encoding="utf-8")


def test_training_that_goes_on_forgets_it(tmp_path: Path) -> None:
    steps = ("training.schedule=constant", "training.max_steps=20")
    done = train(small_config(tmp_path, "run", *steps, "training.datastore=true"), quiet=True)
    assert (done.directory / NAME).exists()
    more = ("training.schedule=constant", "training.max_steps=40", "training.datastore=false")
    train(small_config(tmp_path, "run", *more), resume=True, quiet=True)
    assert not (done.directory / NAME).exists()
    assert Translator.from_pretrained(done.directory).translate(["ba ce"])


def test_a_finished_run_makes_one_when_it_is_resumed_with_it(tmp_path: Path) -> None:
    settings = ("training.max_steps=20", "training.ema_decay=0.9")  # the kept weights are not those of the checkpoint
    train(small_config(tmp_path, "run", *settings), quiet=True)
    asked = small_config(tmp_path, "run", *settings, "training.datastore=true")
    done = train(asked, resume=True, quiet=True)
    resumed = Datastore.load(done.directory)
    assert resumed is not None
    again = remember(done.directory, device="cpu")
    assert torch.allclose(resumed.states.float(), again.states.float(), atol=2e-2), "of the kept weights"


def test_later_it_is_the_same(tmp_path: Path) -> None:
    done = train(small_config(tmp_path, "run", "training.datastore=true", "training.max_steps=20"), quiet=True)
    first = Datastore.load(done.directory)
    assert first is not None
    made = remember(done.directory, device="cpu")
    assert torch.equal(made.tokens, first.tokens)
    assert torch.allclose(made.states.float(), first.states.float(), atol=2e-2)
    assert (made.weight, made.falloff) == (first.weight, first.falloff)


def test_other_pairs_may_be_given_and_added(run: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, pairs=30, seed=5)
    (tmp_path / "more.tsv").write_text("ba ce\tce ba\n\tno source\n", encoding="utf-8")
    lines: list[str] = []
    files = {"source": [tmp_path / "source.txt"], "target": [tmp_path / "target.txt"], "pairs": [tmp_path / "more.tsv"]}
    made = remember(run, **files, report=lines.append)
    assert made.pairs == 31
    assert lines[0] == "pairs: 31 of 32 pairs kept, 1 empty"
    assert not any("with a mean weight" in line for line in lines), "the held-out pairs of the run are of another kind"
    assert (float(made.weight), float(made.falloff)) == pytest.approx((0.4, 0.8))
    both = remember(run, pairs=[tmp_path / "more.tsv"], add=True)
    assert both.pairs == 32
    assert torch.equal(both.states[: len(made)], made.states)
    held_out = {"dev_source": [tmp_path / "dev_source.txt"], "dev_target": [tmp_path / "dev_target.txt"]}
    remember(run, **files, **held_out, report=lines.append)
    assert any("with a mean weight" in line for line in lines)


def test_columns_of_given_pairs_may_be_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.tsv").write_text("".join(f"w{n} w1\tw2\n" for n in range(9)), encoding="utf-8")
    rows = "".join(f"{n},w2,w{n} w1\n" for n in range(9))
    (tmp_path / "table.csv").write_text(f"id,out,in\n{rows}", encoding="utf-8")
    plain = remember(run, pairs=[tmp_path / "plain.tsv"])
    named = remember(run, pairs=[tmp_path / "table.csv"], columns={"source": "in", "target": "out"})
    assert torch.equal(torch.as_tensor(named.states), torch.as_tensor(plain.states))
    with pytest.raises(DataError, match="3 columns"):
        remember(run, pairs=[tmp_path / "table.csv"])


def test_fuzzy_matches_are_read_with_the_sources_but_never_the_pair_itself(tmp_path: Path) -> None:
    settings = ("training.max_steps=1", "data.fuzzy_matches=2", "model.tie_embeddings=decoder")
    done = train(small_config(tmp_path, "run", *settings), quiet=True)
    own = remember(done.directory, device="cpu")
    files = {side: [tmp_path / f"{side}.txt"] for side in ("source", "target")}
    read = remember(done.directory, **files, device="cpu")
    # The directions are found from the same pairs, so keys are the same where sources and their matches are.
    assert torch.equal(read.tokens, own.tokens)
    assert torch.allclose(read.states.float(), own.states.float(), atol=1e-2)


def test_nothing_to_remember(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no datastore to add to"):
        remember(run, add=True)
    empty = tmp_path / "empty.tsv"
    empty.write_text("")
    with pytest.raises(DataError, match="no pair is left"):
        remember(run, pairs=[empty])
    with pytest.raises(ConfigError, match="source and target files go in pairs"):
        remember(run, source=[run.parent / "source.txt"])
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in run.iterdir():
        if path.is_file() and path.name != "config.toml":
            (alone / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match="no prepared data"):
        remember(alone)
    lines = [[line.text for line in read_lines(run.parent / f"{side}.txt")][:20] for side in ("source", "target")]
    (tmp_path / "some.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*lines, strict=True)))
    assert remember(alone, pairs=[tmp_path / "some.tsv"]).pairs == 20


def test_the_library_that_is_missing_is_told_before_the_work(run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match="faiss, which is not installed"):
        remember(run)
    with pytest.raises(ConfigError, match="faiss, which is not installed"):
        train(small_config(tmp_path, "run", "training.datastore=true"), quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_models_of_one_text_have_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a datastore is of pairs"):
        text_config(tmp_path, "causal", "run", "training.datastore=true")
    done = train(text_config(tmp_path, "causal", "run", "training.max_steps=1"), quiet=True)
    with pytest.raises(ModelError, match="only an encoder-decoder translates"):
        remember(done.directory)


def test_prepared_data_that_were_made_anew_from_other_words_are_refused(tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    prepare(small_config(tmp_path), prepared)
    settings = small_config(tmp_path).to_dict(unset=False) | {"data": {"prepared": str(prepared)}}
    done = train(make_config({**settings, "out": str(tmp_path / "run")}), quiet=True)
    assert remember(done.directory, device="cpu").pairs == 200
    for path in tmp_path.glob("*.txt"):
        path.write_text(path.read_text(encoding="utf-8").replace("ba", "zu"), encoding="utf-8")
    prepare(small_config(tmp_path), prepared)
    with pytest.raises(ConfigError, match="no prepared data of the run in its words"):
        remember(done.directory, device="cpu")
