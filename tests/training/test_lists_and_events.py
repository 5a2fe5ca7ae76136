"""`train` from Python: lists in place of files, settings by name, events, and a callback that stops it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import Translator, train
from dragoman.errors import ConfigError, DataError
from dragoman.events import Advanced, Event, Finished, Saved, Started, StopTraining, Validated
from dragoman.text.listed import data_files
from small_runs import small_config, write_corpus

SETTINGS = {"max_steps": 6, "warmup_steps": 2, "threads": 1, "log_every": 2, "validation.every": 3,
            "model": {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1},
            "tokenizer.kind": "word", "schedule": "inverse_sqrt", "batch_tokens": 128}  # fmt: skip


def corpus(folder: Path) -> dict[str, list[str]]:
    return {key: Path(path).read_text().splitlines() for key, (path,) in write_corpus(folder, pairs=40).items()}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_lists_train_what_files_do(tmp_path: Path) -> None:
    lists = corpus(tmp_path)
    files = {key: tmp_path / f"{key}.txt" for key in lists}
    pairs = {"pairs": list(zip(lists["source"], lists["target"], strict=True)), "dev_source": iter(lists["dev_source"]),
             "dev_target": tuple(lists["dev_target"])}  # fmt: skip
    one = train(**files, settings=SETTINGS, out=tmp_path / "files", quiet=True)
    two = train(**lists, settings=SETTINGS, out=tmp_path / "lists", quiet=True)
    three = train(**pairs, settings=SETTINGS, out=tmp_path / "pairs", quiet=True)
    some = {key: [path] for key, path in files.items()}
    several = train(**some, settings=SETTINGS, out=tmp_path / "several", quiet=True)
    assert one.progress.step == two.progress.step == three.progress.step == 6
    assert weights(one.directory) == weights(two.directory) == weights(several.directory) == weights(three.directory)
    again = train(**lists, out=tmp_path / "lists", settings={"max_steps": 8}, resume=True, quiet=True)
    assert again.progress.step == 8
    other = {**lists, "target": lists["target"][::-1]}
    with pytest.raises(ConfigError, match="target"):
        train(**other, out=tmp_path / "lists", resume=True, quiet=True)
    few = {"max_steps": 2, "threads": 1}
    tuned = train(**lists, settings=few, init_from=one.directory, out=tmp_path / "tuned", quiet=True)
    assert isinstance(tuned.translator(), Translator)


WRONG: dict[str, tuple[Callable[[dict[str, list[str]]], dict[str, object]], str]] = {
    "None among texts": (lambda c: {**c, "source": iter([*c["source"][1:], None])}, r"source\[39\] is no text"),
    "bytes": (lambda c: {**c, "dev_target": iter([*c["dev_target"], b"x"])}, r"dev_target\[20\] is no text"),
    "two lines in one": (lambda c: {**c, "source": ["a\nb", *c["source"][1:]]}, r"source\[0\] is more than one line"),
    "a text too few": (lambda c: {**c, "target": c["target"][:-1]}, "target has another number of texts"),
    "no pair": (lambda c: {"pairs": [("a", "b"), ("a", "b", "c")]}, r"pairs\[1\] is no pair"),
    "a half surrogate": (lambda c: {**c, "source": ["\ud800", *c["source"][1:]]}, "source contains what is not text"),
    "a typo": (lambda c: {**c, "settings": {"max_stepz": 3}}, r"did you mean 'training.max_steps'"),
    "a typo in a section": (lambda c: {**c, "settings": {"model": {"d_modell": 3}}}, r"did you mean 'model.d_model'"),
    "another's name": (lambda c: {**c, "settings": {"hidden_size": 3}}, r"called 'model.d_model' here"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_by_number_and_leaves_nothing(
    tmp_path: Path, change: Callable[[dict[str, list[str]]], dict[str, object]], message: str
) -> None:
    given = change(corpus(tmp_path))
    with pytest.raises((ConfigError, DataError), match=message):
        train(**{"settings": SETTINGS, **given}, out=tmp_path / "run", quiet=True)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_the_same_lists_are_kept_once_and_never_overwrite_others(tmp_path: Path) -> None:
    first = data_files({"source": ["a", "b"], "pairs": [("a", "b")]}, tmp_path)
    again = data_files({"source": iter(["a", "b"]), "pairs": [{"source": "a", "target": "b"}]}, tmp_path)
    other = data_files({"source": ["a", "c"]}, tmp_path)
    assert first == again
    assert first["source"] != other["source"]
    assert Path(first["source"][0]).read_text() == "a\nb\n"
    assert json.loads(Path(first["pairs"][0]).read_text()) == {"source": "a", "target": "b"}


# Events


def test_a_callback_hears_of_everything_in_order(tmp_path: Path) -> None:
    heard: list[Event] = []
    run = train(small_config(tmp_path, "run", "max_steps=6", "validation.every=3", "log_every=2"),
                quiet=True, on_event=heard.append)  # fmt: skip
    assert [type(one) for one in heard if not isinstance(one, Saved)] == [
        Started, Advanced, Validated, Advanced, Advanced, Validated, Finished,
    ]  # fmt: skip
    assert [one.step for one in heard if isinstance(one, Advanced)] == [2, 4, 6]
    assert all(one.path.is_dir() for one in heard if isinstance(one, Saved))
    assert heard[0] == Started(0, run.directory, 6)
    assert heard[-1] == Finished(6, run.directory, is_complete=True)
    best = [one.step for one in heard if isinstance(one, Validated) and one.is_best]
    assert best[-1] == run.progress.best_step
    lines = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]
    told = [one.values["loss"] for one in heard if isinstance(one, Advanced)]
    assert told == [line["loss"] for line in lines if line["event"] == "train"]


def _stops(event: Event) -> None:
    if isinstance(event, Advanced) and event.step >= 4:
        raise StopTraining


@pytest.mark.parametrize(
    "callback", [lambda one: isinstance(one, Advanced) and one.step >= 4, _stops], ids=["True", "StopTraining"]
)
def test_a_callback_stops_and_the_run_goes_on_later(tmp_path: Path, callback: Callable[[Event], object]) -> None:
    heard: list[Event] = []

    def both(event: Event) -> object:
        heard.append(event)
        return callback(event)

    config = small_config(tmp_path, "run", "max_steps=10", "log_every=2")
    run = train(config, quiet=True, on_event=both)
    assert (run.progress.step, run.progress.finished, run.exit_status) == (4, False, 0)
    assert heard[-1] == Finished(4, run.directory, is_complete=False)
    assert any(isinstance(one, Saved) and one.step == 4 for one in heard)
    on = train(config, resume=True, quiet=True)
    through = train(small_config(tmp_path, "through", "max_steps=10", "log_every=2"), quiet=True)
    assert on.progress.finished
    assert weights(on.directory) == weights(through.directory)


def test_a_callback_that_fails_ends_the_training_with_its_error(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(small_config(tmp_path), quiet=True, on_event=fail)
