"""`dragoman transcribe`: as many lines as sounds, in order; evaluate, tune and score take lists of recordings."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.audio import FrontEnd, Recording, Waveform
from dragoman.bulk import translate_file
from dragoman.cli import main
from dragoman.config import AudioConfig, DecodingConfig, ModelConfig
from dragoman.errors import ConfigError, DataError
from dragoman.models import build_model, save_pretrained
from dragoman.models.description import save_tokenizers
from dragoman.runs import bundle, pack
from dragoman.studies.listening import named_recordings
from dragoman.text import TokenizerPair
from dragoman.text.vocabulary import Vocabulary
from small_sounds import write_spoken, write_wav


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_spoken(tmp_path_factory.mktemp("spoken"), "one", 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, spoken: tuple[Path, Path]) -> Path:
    """One that was never trained: what it writes does not matter here."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = Vocabulary.train("word", spoken[1].read_text().splitlines())
    front_end = FrontEnd.of(AudioConfig(), 8000)
    torch.manual_seed(0)
    config = ModelConfig(
        mels=front_end.n_mels, target_vocab=len(vocabulary), d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1,
        num_decoder_layers=1, positions="rotary", tie_embeddings="decoder",
    )  # fmt: skip
    save_pretrained(folder, build_model(config), config, DecodingConfig(beam_size=2, max_length=5))
    save_tokenizers(folder, TokenizerPair(vocabulary, vocabulary, sound=front_end))
    return folder


def test_a_model_that_listens_is_bundled_and_packed(model: Path, spoken: tuple[Path, Path], tmp_path: Path) -> None:
    made = bundle(model, tmp_path / "made").directory, pack(model, tmp_path / "made.dragoman").directory
    sound = str(spoken[0].parent / "one0.wav")
    heard = [dragoman.Translator.from_pretrained(one).translate([sound])[0].text for one in (model, *made)]
    assert heard[1:] == [heard[0]] * 2


def test_a_model_that_listens_is_no_work_for_several_workers(
    model: Path, spoken: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="listens to sounds"):
        translate_file(model, spoken[1], tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["dragoman", *words])
    status = 0
    try:
        main()
    except SystemExit as end:
        status = int(end.code or 0)
    out, error = capfd.readouterr()
    return status, out, error


def test_a_line_for_each_sound_in_order(
    model: Path, spoken: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = spoken[0].parent
    files = [str(folder / f"one{number}.wav") for number in (3, 0, 3)]
    status, out, _ = run(monkeypatch, capfd, "transcribe", str(model), *files, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [one["source"] for one in found] == files
    assert found[0]["text"] == found[2]["text"]
    expected = [one.text for one in dragoman.transcribe(model, files)]
    assert [one["text"] for one in found] == expected
    listed = dragoman.transcribe(model, spoken[0])
    assert [one.source for one in listed] == [str(folder / f"one{number}.wav") for number in range(5)]
    assert [one.text for one in dragoman.transcribe(model, folder)] == [one.text for one in listed]
    assert run(monkeypatch, capfd, "transcribe", str(model), str(folder))[1].count("\n") == 5


def test_standard_input_is_a_sound(
    model: Path, spoken: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = spoken[0].parent / "one1.wav"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    status, out, _ = run(monkeypatch, capfd, "transcribe", str(model), "-")
    assert status == 0
    assert out == dragoman.transcribe(model, file)[0].text + "\n"


def test_lines_of_a_list_are_those_of_any_file(model: Path, spoken: tuple[Path, Path], tmp_path: Path) -> None:
    # A line ends at LF; a mark of byte order and a CR do not count, and a separator of lines in a name does not end it.
    names = ["one.wav", "a\u2028b\x85.wav"]
    for name in names:
        (tmp_path / name).write_bytes((spoken[0].parent / "one0.wav").read_bytes())
    listing, said = tmp_path / "list.tsv", tmp_path / "said.txt"
    listing.write_bytes(b"\xef\xbb\xbf" + "".join(f"{name}\r\n" for name in names).encode())
    said.write_text("low\n" * 2)
    found = dragoman.transcribe(model, listing)
    assert [one.source for one in found] == [str(tmp_path / name) for name in names]
    result = dragoman.evaluate(model, listing, said, metrics=["exact"], bootstrap=0)
    assert [one.text for one in found] == result.hypotheses
    listing.write_bytes(b"one.wav\n\xff.wav\n")
    with pytest.raises(DataError) as raised:
        dragoman.transcribe(model, listing)
    assert (raised.value.file, raised.value.line) == (str(listing), 2)


def test_lists_are_judged_tuned_and_scored(
    model: Path, spoken: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    listing, said = map(str, spoken)
    result = dragoman.evaluate(model, listing, said, metrics=["exact"], bootstrap=0, breakdown=True)
    assert [one.text for one in dragoman.transcribe(model, listing)] == result.hypotheses
    tuned = dragoman.tune(model, listing, said, metric="exact", beam_sizes=[1, 2], length_penalties=[0.6], samples=10)
    assert len(tuned.trials) == 2
    status, out, _ = run(monkeypatch, capfd, "score", str(model), "--source", listing, "--target", said)
    assert status == 0
    assert len(out.splitlines()) == 5


def test_lists_break_scores_down_by_seconds_and_two_systems_are_compared(
    model: Path, spoken: tuple[Path, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    listing, said = spoken
    result = dragoman.evaluate(model, listing, said, metrics=["exact"], bootstrap=0, breakdown=True)
    assert result.breakdown is not None
    seconds = [one.read().seconds for one in named_recordings(listing)]
    assert result.breakdown.length_unit == "seconds"
    edges = [float(edge) for one in result.breakdown.by_length for edge in one.label.split("-")]
    assert (edges[0], edges[-1]) == (round(min(seconds), 1), round(max(seconds), 1))
    assert sum(one.lines for one in result.breakdown.by_length) == 5
    (tmp_path / "one.txt").write_text("".join(f"{line}\n" for line in result.hypotheses))
    options = ("--reference", str(said), "--source", str(listing), "--breakdown", "--worst", "2", "--metric", "exact")
    status, out, _ = run(monkeypatch, capfd, "compare", str(tmp_path / "one.txt"), str(said), *options, "--json")
    assert status == 0
    told = json.loads(out)["breakdown"]
    assert (told["length_of"], told["length_unit"]) == ("source", "seconds")
    assert run(monkeypatch, capfd, "compare", str(tmp_path / "one.txt"), str(said), *options)[0] == 0
    outside = dragoman.evaluate_outputs(said, said, listing, metrics=["exact"], bootstrap=0, breakdown=True)
    assert outside.breakdown is not None
    assert [one.label for one in outside.breakdown.by_length] == [one.label for one in result.breakdown.by_length]
    # Parts of recordings are as long as they are told, and texts are counted in words as ever.
    assert Recording.of_line(f"{listing.parent / 'one0.wav'}\t0.1\t0.3").seconds == pytest.approx(0.2)
    texts = dragoman.evaluate_outputs(said, said, said, metrics=["exact"], bootstrap=0, breakdown=True)
    assert texts.breakdown is not None
    assert texts.breakdown.length_unit != "seconds"


def test_texts_and_sounds_are_told_apart(
    model: Path, spoken: tuple[Path, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    status, _, error = run(monkeypatch, capfd, "translate", str(model), "a text")
    assert status == 2
    assert "transcribe" in error
    for look in (dragoman.explain, dragoman.inspect):
        with pytest.raises(DataError, match="cannot be read"):
            look(model, "a text")
    (tmp_path / "list.tsv").write_text(f"{spoken[0].parent / 'one0.wav'}\nnone.wav\n")
    with pytest.raises(DataError, match=r"list.tsv, line 2: there is no such recording(.|\n)*none.wav"):
        named_recordings(tmp_path / "list.tsv")
    with pytest.raises(DataError, match=r"no such recording(.|\n)*to do: .*are a list of recordings"):
        dragoman.evaluate(model, spoken[1], spoken[1])
    with pytest.raises(DataError, match="no such file"):
        dragoman.transcribe(model, tmp_path / "none.wav")
    with pytest.raises(DataError, match="no sounds"):
        dragoman.transcribe(model, tmp_path)
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(DataError, match="sound"):
        dragoman.transcribe(model, tmp_path / "text.wav")
    with pytest.raises(ConfigError, match=r"(?s)decoding settings.*model\.d_model"):
        dragoman.transcribe(model, spoken[0], settings={"d_model": 5})
    assert dragoman.transcribe(model, [Waveform(torch.zeros(0), 8000)])[0].text == ""


def test_parts_are_told_with_their_times(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    time = torch.arange(2 * 8000) / 8000
    speech = 0.4 * torch.sin(2 * torch.pi * 300 * time) * torch.sin(torch.pi * 4 * time).abs()
    pause = torch.zeros(8000)
    noise = 0.002 * torch.randn(9 * 8000, generator=torch.Generator().manual_seed(1))
    sound = torch.cat([pause, speech, pause, pause, speech, pause]) + noise[: 8 * 8000]
    for name, samples in (("talk", sound), ("noise", 100 * noise)):
        write_wav(tmp_path / f"{name}.wav", samples.clamp(-1, 1).numpy())
    status, out, _ = run(monkeypatch, capfd, "transcribe", str(model), str(tmp_path / "talk.wav"), "--times")
    assert status == 0
    assert all(len(line.split("\t")) == 3 for line in out.splitlines())
    paths = [str(tmp_path / "talk.wav"), str(tmp_path / "noise.wav")]
    lengths = ("--set", "min_length=2", "--set", "max_length=2")
    status, out, _ = run(monkeypatch, capfd, "transcribe", str(model), *paths, "--times", "--json", *lengths)
    talk, noisy = map(json.loads, out.splitlines())
    assert noisy["parts"] == []
    assert [len(part["text"].split()) for part in talk["parts"]] == [2]
    assert all(0 <= part["start"] < part["end"] <= 8.01 for part in talk["parts"])
