"""The digits: what is held out is in no list to learn from, and sequences are of what their list may use."""

from __future__ import annotations

import csv
import wave
import zipfile
from pathlib import Path

import fsdd
import numpy as np
import pytest

SPEAKERS = ("anna", "bert")


def recordings(per_digit: int = 10) -> list[fsdd.Digit]:
    """Each one constant, so that a sequence tells what it was made of."""
    made = []
    for place, speaker in enumerate(SPEAKERS):
        for digit in range(10):
            for index in range(per_digit):
                value = 1000 + 1000 * place + 100 * digit + index
                made.append((speaker, digit, index, np.full(800 + 10 * digit, value, "<i2")))
    return made


def names(digits: list[fsdd.Digit]) -> set[tuple[str, int, int]]:
    return {one[:3] for one in digits}


@pytest.mark.parametrize("task", ["digits", "speaker:bert"])
def test_lists_share_no_recording(task: str) -> None:
    parts = {name: names(digits) for name, digits in fsdd.split(recordings(), task).items()}
    assert not parts["train"] & parts["dev"]
    assert not (parts["train"] | parts["dev"]) & parts["test"]
    assert set().union(*parts.values()) == names(recordings())
    heard = {speaker for speaker, _, _ in parts["train"] | parts["dev"]}
    assert heard == ({"anna"} if ":" in task else set(SPEAKERS))


def test_a_speaker_who_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="no speaker carl"):
        fsdd.split(recordings(), "speaker:carl")


def test_sequences_are_of_one_speaker_and_say_what_is_heard() -> None:
    made = fsdd.join(recordings(), 40, seed=3)
    assert [text for text, _ in made] == [text for text, _ in fsdd.join(recordings(), 40, seed=3)]
    assert {len(text.split()) for text, _ in made} == set(range(1, fsdd.LONGEST + 1))
    for text, sound in made:
        starts = np.flatnonzero((sound[1:] != 0) & (sound[:-1] == 0)).size + (sound[0] != 0)
        assert starts == len(text.split())
        spoken = sum(800 + 10 * fsdd.WORDS.index(word) for word in text.split())
        pauses = (len(text.split()) - 1) * np.array(fsdd.PAUSE) * fsdd.RATE
        assert spoken + np.floor(pauses[0]) - 7 <= len(sound) <= spoken + pauses[1]
        assert abs(sound[sound != 0]).min() >= 500
        assert sound.max() <= 2 * (1000 * len(SPEAKERS) + 1000)


def test_a_corpus_is_read_and_its_lists_are_written(tmp_path: Path) -> None:
    for part, some in (("test", range(5)), ("train", range(5, 9))):
        rows = [one for one in recordings() if one[2] in some and one[1] < 2]
        with zipfile.ZipFile(tmp_path / f"{part}.zip", "w") as archive:
            for speaker, digit, index, samples in rows:
                with archive.open(f"{digit}_{speaker}_{index}.wav", "w") as file, wave.open(file, "wb") as sound:
                    sound.setnchannels(1)
                    sound.setsampwidth(2)
                    sound.setframerate(fsdd.RATE)
                    sound.writeframes(samples.tobytes())
        with open(tmp_path / f"{part}.tsv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, delimiter="\t")
            table.writerow(("file", "digit", "speaker", "index", "samples"))
            table.writerows((f"{d}_{who}_{i}.wav", d, who, i, len(samples)) for who, d, i, samples in rows)
    digits = fsdd.read_digits(tmp_path)
    assert len(digits) == 2 * 2 * 9
    small = dict.fromkeys(fsdd.SEQUENCES, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsdd, "SEQUENCES", small)
        fsdd.write_corpus(digits, tmp_path / "out", "digits")
    for part in small:
        for kind, count in (("isolated", {"train": 4, "dev": 12, "test": 20}[part]), ("connected", 5)):
            said = (tmp_path / "out" / f"{part}-{kind}.txt").read_text(encoding="utf-8").splitlines()
            files = (tmp_path / "out" / f"{part}-{kind}.tsv").read_text(encoding="utf-8").splitlines()
            assert len(said) == len(files) == count
            assert all((tmp_path / "out" / file).exists() for file in files)


def test_each_list_has_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsdd, "SEQUENCES", dict.fromkeys(fsdd.SEQUENCES, 2))
    lists = fsdd.draw_corpus(fsdd.split(recordings(), "digits"))
    again = fsdd.draw_corpus(fsdd.split(recordings(), "digits"))
    ends: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for part, silences in ends.items():
        for kind in fsdd.KINDS:
            for (text, sound), (_, other) in zip(lists[f"{part}-{kind}"], again[f"{part}-{kind}"], strict=True):
                assert np.array_equal(sound, other)
                heard = np.flatnonzero(sound)
                before, after = int(heard[0]), len(sound) - 1 - int(heard[-1])
                if kind == "isolated":
                    assert heard[-1] + 1 - heard[0] == 800 + 10 * fsdd.WORDS.index(text)
                    assert part == "train" or (before, after) == (0, round(fsdd.MARGIN * fsdd.RATE))
                else:
                    assert part == "train" or (before, after) == (0, 0)
                silences += [before, after] if part == "train" else []
    most = fsdd.SILENCE * fsdd.RATE
    assert 0 <= min(ends["train"]) < most / 10 < 9 * most / 10 < max(ends["train"]) <= most
