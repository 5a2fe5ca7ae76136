"""A model that listens is trained on lists of recordings, goes on bit for bit, and transcribes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman
from dragoman.audio import Recording, Waveform
from dragoman.config import AudioConfig
from dragoman.data import Prepared
from dragoman.data.batching import collate
from dragoman.data.sounds import SoundStore
from dragoman.errors import ConfigError, DataError
from dragoman.models import load_pretrained
from dragoman.translation import Translator
from small_sounds import speak, write_spoken, write_wav

TINY = {
    "d_model": 32, "num_heads": 2, "d_ff": 64, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0,
    "label_smoothing": 0.0, "validation.every": 150, "audio.spec_augment": "none", "beam_size": 1, "ema_decay": 0.9,
    "learning_rate": 5e-3, "warmup_steps": 20, "ctc_loss_weight": 0.0,
}  # fmt: skip


def train(out: Path, listing: Path, said: Path, steps: int, resume: bool = False, **others: object) -> dragoman.Run:
    settings = {**TINY, "max_steps": steps, **others}
    return dragoman.train(
        source_audio=listing, target=said, dev_source_audio=listing, dev_target=said, out=out, settings=settings,
        resume=resume, quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_spoken(tmp_path_factory.mktemp("spoken"), "one", 20)


@pytest.fixture(scope="module")
def run(spoken: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "one", *spoken, 200).directory


def test_twenty_sounds_are_learned_by_heart(run: Path, spoken: tuple[Path, Path]) -> None:
    listing, said = spoken
    translator = Translator.from_pretrained(run)
    recordings = [listing.parent / line for line in listing.read_text().splitlines()]
    found = translator.translate(recordings)
    assert [one.text for one in found] == said.read_text().splitlines()
    assert [one.source for one in found] == list(map(str, recordings))
    waveforms = [Recording(str(path)).read() for path in recordings]
    assert [one.text for one in translator.translate(waveforms)] == [one.text for one in found]


def test_each_engine_hears_the_same(run: Path, spoken: tuple[Path, Path]) -> None:
    recordings = [spoken[0].parent / f"one{number}.wav" for number in range(6)]
    scores = []
    for engine in ("module", "packed", "auto"):
        translator = Translator.from_pretrained(run, engine=engine, precision="float32")
        found = translator.translate(recordings, beam_size=3, n_best=2)
        scores.append([[one.score for one in each.alternatives] for each in found])
        alone = [translator.translate([one], beam_size=3, n_best=2)[0] for one in recordings]
        assert [one.text for one in alone] == [one.text for one in found]
    assert np.allclose(scores[0], scores[1], atol=1e-4)
    assert np.allclose(scores[0], scores[2], atol=1e-4)


def test_prefixes_scores_and_ensembles_are_those_of_texts(run: Path, spoken: tuple[Path, Path]) -> None:
    listing, said = spoken
    path, words = listing.parent / "one0.wav", said.read_text().splitlines()[0]
    translator = Translator.from_pretrained([run, run])
    assert translator.translate([path])[0].text == words
    assert translator.translate([path], prefixes=["top"])[0].text.startswith("top")
    right, wrong = translator.score([path, path], [words, "top top top top"])
    assert right.log_probability > wrong.log_probability
    assert right.source == str(path)


def test_nothing_is_heard_in_an_empty_sound(run: Path) -> None:
    found = Translator.from_pretrained(run).translate([Waveform(torch.zeros(0), 8000), Waveform(torch.zeros(3), 8000)])
    assert found[0].text == ""
    assert len(found) == 2


def test_a_resumed_run_equals_one_that_went_through(spoken: tuple[Path, Path], tmp_path: Path) -> None:
    # SpecAugment and dropout are drawn by what is counted, not by what was drawn before.
    drawn = {"audio.spec_augment": "ld", "dropout": 0.1, "validation.every": 3, "ctc_loss_weight": 0.3}
    through = train(tmp_path / "through", *spoken, 6, **drawn)
    train(tmp_path / "two", *spoken, 3, **drawn)
    again = train(tmp_path / "two", *spoken, 6, resume=True, **drawn)
    # The plan of the shorter run had another learning rate: what is heard must be the same.
    data = [Prepared.open(path.directory / "data").train for path in (through, again)]
    for store in data:
        assert isinstance(store, SoundStore)
    heard = [collate(store.in_epoch(AudioConfig(), 1, 4), [3, 0, 5]).source.ids for store in data]
    assert torch.equal(*heard)
    assert not torch.equal(heard[0], collate(data[0].in_epoch(AudioConfig(), 1, 5), [3, 0, 5]).source.ids)


def test_a_part_of_a_recording_is_a_recording(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    sounds = [speak([word], random) for word in ("low", "top")]
    write_wav(tmp_path / "both.wav", np.concatenate(sounds))
    border = len(sounds[0]) / 8000
    parts = [
        Recording.of_line(f"both.wav\t{start}\t{end}", folder=str(tmp_path))
        for start, end in ((0, border), (border, 9))
    ]
    assert [len(part.read()) for part in parts] == [len(one) for one in sounds]
    assert Recording.of_line(str(parts[1])) == parts[1]


@pytest.mark.parametrize("line", ["a.wav\t1", "a.wav\t2\t1", "a.wav\tx\ty", "a.wav\t-1\t2", "\t0\t1", "a.wav\t0\tnan"])
def test_lines_that_name_no_recording(line: str) -> None:
    with pytest.raises(DataError, match="names no recording") as raised:
        Recording.of_line(line, file="list.tsv", line=7)
    assert (raised.value.file, raised.value.line) == ("list.tsv", 7)


def test_a_recording_that_is_not_there_is_told_with_its_line(spoken: tuple[Path, Path], tmp_path: Path) -> None:
    listing = tmp_path / "list.tsv"
    listing.write_text(f"{spoken[0].parent / 'one0.wav'}\nmissing.wav\n{spoken[0].parent / 'one1.wav'}\n")
    (tmp_path / "said.txt").write_text("low\nmid\ntop\n")
    with pytest.raises(DataError, match=r"missing\.wav") as raised:
        train(tmp_path / "run", listing, tmp_path / "said.txt", 2)
    assert (raised.value.file, raised.value.line) == (str(listing), 2)
    assert not (tmp_path / "run").exists()


def test_texts_and_sounds_are_not_mixed(spoken: tuple[Path, Path], run: Path, tmp_path: Path) -> None:
    listing, said = spoken
    with pytest.raises(ConfigError, match="not both"):
        dragoman.train(source_audio=listing, source=said, target=said, out=tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match="not judged on texts"):
        dragoman.train(
            source_audio=listing, target=said, dev_source=said, dev_target=said, out=tmp_path / "run", quiet=True
        )
    with pytest.raises(DataError, match="sound"):
        list(Translator.from_pretrained(run).tokenizers.given([17]))
    with pytest.raises(ConfigError, match="fuzzy matches"):
        train(tmp_path / "run", listing, said, 2, **{"data.fuzzy_matches": 1})


def test_recordings_too_long_are_left_out(spoken: tuple[Path, Path], tmp_path: Path) -> None:
    run = train(tmp_path / "run", *spoken, 2, **{"audio.max_seconds": 0.5})
    data = Prepared.open(run.directory / "data")
    counts = data.counts["train"]
    assert 0 < counts.kept < counts.read
    assert counts.dropped["too long"] == counts.read - counts.kept
    assert isinstance(data.train, SoundStore)
    assert max(len(data.train.source(row)) for row in range(len(data.train))) <= 4000


def test_models_that_listen_have_a_head_for_ctc_unless_it_is_left_out(
    run: Path, spoken: tuple[Path, Path], tmp_path: Path
) -> None:
    assert load_pretrained(run).model.ctc is None
    # What an older version wrote knows of no head.
    older = shutil.copytree(run, tmp_path / "older")
    description = json.loads((older / "config.json").read_text())
    assert description["model"].pop("ctc") is False
    del description["sha256"]
    (older / "config.json").write_text(json.dumps(description))
    assert Translator.from_pretrained(older).translate([spoken[0].parent / "one0.wav"])
    assert load_pretrained(older).config.ctc is None
    made = train(tmp_path / "with", *spoken, 2, ctc_loss_weight=None)
    assert made.config.training.ctc_loss_weight == 0.3
    assert made.config.validation.metric == "wer"
    events = [json.loads(line) for line in (made.directory / "metrics.jsonl").read_text().splitlines()]
    assert {"wer", "cer", "exact"} <= next(one for one in events if one["event"] == "validation").keys()
    read = load_pretrained(made.directory)
    assert read.config.ctc
    assert read.model.ctc.weight.shape == read.model.generator.weight.shape
    for settings in ({"model.ctc": True}, {"ctc_loss_weight": 0.3, "model.ctc": False}):
        with pytest.raises(ConfigError, match="trained"):
            train(tmp_path / "neither", *spoken, 2, **settings)
