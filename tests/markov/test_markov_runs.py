"""From a text to a run directory that complete, score and info take."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import TrainConfig, make_config, merge, parse_assignments, read_toml
from dragoman.data import prepare
from dragoman.errors import ConfigError
from dragoman.files import make_directory
from dragoman.language import Completer, TextScorer
from dragoman.markov import RUNGS, MarkovModel, load
from dragoman.training import info, markov, train
from dragoman.training.log import RunLog
from dragoman.training.markov import is_counted, train_markov
from dragoman.training.progress import Progress
from dragoman.training.signals import StopSignals
from end_to_end import small

DEV = ["ba ce di", "fo gu", "ba xu ki"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "train.xx").write_text("".join(f"{line}\n" for line in small.sentences(150, 1, 6)), encoding="utf-8")
    (tmp_path / "dev.xx").write_text("".join(f"{line}\n" for line in DEV), encoding="utf-8")
    return tmp_path


def config_of(corpus: Path, family: str, *settings: str) -> TrainConfig:
    tree: dict[str, Any] = {
        "out": str(corpus / "run"),
        "data": {"text": [str(corpus / "train.xx")], "dev_text": [str(corpus / "dev.xx")]},
        "tokenizer": {"kind": "word"},
        "model": {"family": family},
    }
    return make_config(merge(tree, parse_assignments(settings)))


def trained(config: TrainConfig) -> tuple[Path, Progress, int]:
    directory = Path(config.out)
    make_directory(directory)
    with RunLog(directory, quiet=True) as log, StopSignals(quiet=True) as stop:
        made, progress, status = train_markov(config, directory, log, lambda: prepare(config, directory / "data"), stop)
    if progress.finished and progress.step:
        # What is written down is what was trained with.
        assert make_config(read_toml(directory / "config.toml")) == make_config(made.to_dict(none=False))
    return directory, progress, status


@pytest.mark.parametrize("rung", RUNGS)
def test_a_run_is_the_model_that_was_counted(rung: type[MarkovModel], corpus: Path) -> None:
    directory, progress, status = trained(config_of(corpus, rung.kind, "markov.k=0.01", "markov.backoff=2"))
    assert (status, progress.finished) == (0, True)
    scorer = TextScorer.from_pretrained(directory)
    vocabulary = scorer.tokenizer
    lines = (corpus / "train.xx").read_text(encoding="utf-8").split("\n")[:-1]
    expected = rung.fit([vocabulary.encode(line) for line in lines], len(vocabulary), k=0.01, backoff=2.0)
    assert (directory / "markov.safetensors").read_bytes() == saved_bytes(expected, corpus / "again")
    assert progress.labels == sum(len(line.split()) + 1 for line in lines)
    (event,) = (json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    measured = expected.measure([vocabulary.encode(text) for text in DEV])
    assert event["perplexity"] == pytest.approx(measured.perplexity)
    assert event["accuracy"] == pytest.approx(measured.accuracy)
    assert scorer.summary(DEV).perplexity == pytest.approx(measured.perplexity)
    card = (directory / "README.md").read_text(encoding="utf-8")
    assert f"| perplexity | {measured.perplexity:.3f} |" in card
    assert f"{expected.numbers:,} numbers counted, k 0.01, backoff 2." in card
    ((best,),) = Completer.from_pretrained(directory).complete(["ba"])
    assert best.text.startswith("ba")
    facts = info(directory)
    assert facts["parameters"] == expected.numbers
    assert facts["model"] == {"family": rung.kind, "target_vocab": len(vocabulary), "k": 0.01, "backoff": 2.0}
    assert facts["languages"] == {"target": "xx"}


def saved_bytes(model: MarkovModel, folder: Path) -> bytes:
    model.save(folder)
    return (folder / "markov.safetensors").read_bytes()


def test_what_was_learned_is_counted() -> None:
    # 4 5 </s> twice: pairs (<pad> <s>), (<s> 4), (4 5); and as many single words.
    kinds = {rung.kind: rung.fit([[4, 5], [4, 5]], 8).numbers for rung in RUNGS}
    orders = {"zeroth-order": 3, "first-order": 3, "second-order": 3}
    assert kinds == {**orders, "skips": 6, "masked-skips": 9, "matrix-skips": 9}


def test_a_finished_run_stays_and_an_interrupted_one_is_counted_again(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(corpus, "skips")

    def stopped(self: object) -> Any:
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)
        return iter(self)  # type: ignore[call-overload]

    monkeypatch.setattr(markov._Sentences, "__iter__", stopped)
    directory, progress, status = trained(config)
    assert (status, progress.finished) == (130, False)
    assert not (directory / "markov.json").exists()
    assert "--resume counts again" in (directory / "train.log").read_text(encoding="utf-8")
    assert trained(config)[2] == 0
    before = (directory / "markov.json").stat().st_mtime_ns
    _, progress, status = trained(config)
    assert (status, progress.finished) == (0, True)
    assert (directory / "markov.json").stat().st_mtime_ns == before
    assert "finished already" in (directory / "train.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["bpe", "character"])
def test_a_text_of_subwords_or_characters_is_counted_too(kind: str, corpus: Path) -> None:
    directory, *_ = trained(config_of(corpus, "second-order", f"tokenizer.kind={kind}"))
    completer = Completer.from_pretrained(directory)
    assert completer.tokenizer.kind == kind
    assert completer.complete(["ba c"])[0][0].text.startswith("ba c")


@pytest.mark.parametrize(
    ("family", "settings", "found"),
    [
        ("first-order", ("d_model=64", "max_steps=3", "metric=loss"), "model.d_model, training.max_steps, validation."),
        ("causal", ("markov.k=0.5", "backoff=1"), "markov.k, markov.backoff"),
        ("transformer", ("markov.k=0.5",), "markov.k"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(
    family: str, settings: tuple[str, ...], found: str, corpus: Path
) -> None:
    with pytest.raises(ConfigError, match=f"have no effect on a {family} model") as caught:
        train(config_of(corpus, family, *settings), quiet=True)
    assert (caught.value.found or "").startswith(found)
    assert not (corpus / "run" / "config.toml").exists()


def test_what_means_something_is_taken_and_a_resumed_run_is_held_to_its_family(corpus: Path) -> None:
    config = config_of(corpus, "first-order", "seed=4", "markov.k=0.5", "min_count=2")
    directory = train(config, quiet=True).directory
    assert load(directory).k == 0.5
    assert train(make_config({"out": str(directory)}), resume=True, quiet=True).progress.finished
    with pytest.raises(ConfigError, match="have no effect on a first-order model"):
        train(make_config({"out": str(directory), "training": {"max_steps": 3}}), resume=True, quiet=True)


def test_unknown_words_that_training_never_met_are_told(corpus: Path) -> None:
    directory, *_ = trained(config_of(corpus, "first-order"))
    log = (directory / "train.log").read_text(encoding="utf-8")
    assert "1 of 11 held-out tokens are unknown words" in log
    assert "tokenizer.min_count = 2" in log


def test_the_impossible_is_told_and_the_log_stays_json(corpus: Path) -> None:
    directory, *_ = trained(config_of(corpus, "second-order", "markov.k=0.0", "markov.backoff=0.0"))
    assert "markov.k above 0" in (directory / "train.log").read_text(encoding="utf-8")
    event = json.loads((directory / "metrics.jsonl").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert event["perplexity"] is None
    assert load(directory).k == 0.0


def test_a_vocabulary_too_large_and_other_weights_are_refused(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="counted anew"):
        trained(config_of(corpus, "first-order", "training.init_from='elsewhere'"))
    monkeypatch.setattr(markov, "MAX_VOCAB", 10)
    with pytest.raises(ConfigError, match="too large to count") as caught:
        trained(config_of(corpus, "first-order"))
    assert "min_count" in str(caught.value)
    assert not (corpus / "run" / "markov.json").exists()


def test_which_families_are_counted() -> None:
    assert [is_counted(family) for family in ("transformer", "causal", "masked")] == [False] * 3
    assert all(is_counted(rung.kind) for rung in RUNGS)
