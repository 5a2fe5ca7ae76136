"""The Free Spoken Digit Dataset: isolated digits, connected digits, and speakers that training never heard.

    python recipes/fsdd.py --data DIR [--task isolated|connected|speaker:NAME] [--out runs/fsdd] [--minutes 20] [--test]

`connected` joins 1 to 7 recordings of one speaker, 50 to 200 ms of silence between them, each up to 6 dB louder or
softer; test sequences are of test recordings only. `speaker:NAME` leaves a speaker out of training and is judged on all
of that speaker's recordings. Held out for validation are recordings 5 to 7 of each digit. Interrupted runs go on where
they stopped. Prints one JSON row: digit error and lines that are right with their 95 % intervals, on the validation
recordings or with `--test` on the test set.
"""

from __future__ import annotations

import argparse
import csv
import json
import wave
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import dragoman
from dragoman.evaluation import score
from dragoman.files import make_directory

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE, LONGEST, PAUSE, GAIN = 8000, 7, (0.05, 0.2), 6.0
# Sequences that are made of the recordings of a split.
SEQUENCES = {"train": 6000, "dev": 200, "test": 300}
HELD_OUT = range(5, 8)
SETTINGS = {"dropout": 0.2, "num_encoder_layers": 4, "patience": 0, "audio.perturb": "speed"}

# Of a recording: speaker, digit, its number, samples.
Digit = tuple[str, int, int, np.ndarray]


def read_digits(data: Path) -> list[Digit]:
    """All recordings, those of the test set too."""
    found = []
    for part in ("train", "test"):
        with zipfile.ZipFile(data / f"{part}.zip") as archive, open(data / f"{part}.tsv", encoding="utf-8") as rows:
            for row in csv.DictReader(rows, delimiter="\t"):
                with archive.open(row["file"]) as file, wave.open(file) as sound:
                    samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2")
                found.append((row["speaker"], int(row["digit"]), int(row["index"]), samples))
    return found


def split(digits: list[Digit], task: str) -> dict[str, list[Digit]]:
    """Which recordings are trained on, and which are for validation and test."""
    parts: dict[str, list[Digit]] = {"train": [], "dev": [], "test": []}
    left_out = task.partition(":")[2]
    if left_out and left_out not in {speaker for speaker, *_ in digits}:
        raise SystemExit(f"there is no speaker {left_out}")
    for one in digits:
        speaker, _, index, _ = one
        if left_out:
            parts["test" if speaker == left_out else "dev" if index in HELD_OUT else "train"].append(one)
        else:
            parts["test" if index < 5 else "dev" if index in HELD_OUT else "train"].append(one)
    return parts


def join(digits: list[Digit], count: int, seed: int) -> list[tuple[str, np.ndarray]]:
    """Sequences of recordings of one speaker each."""
    draw, by_speaker = np.random.default_rng(seed), defaultdict(list)
    for one in digits:
        by_speaker[one[0]].append(one)
    speakers = sorted(by_speaker)
    made = []
    for _ in range(count):
        own = by_speaker[speakers[draw.integers(len(speakers))]]
        chosen = [own[draw.integers(len(own))] for _ in range(draw.integers(1, LONGEST + 1))]
        parts = []
        for _, _, _, samples in chosen:
            parts.append(samples * 10 ** (draw.uniform(-GAIN, GAIN) / 20))
            parts.append(np.zeros(int(draw.uniform(*PAUSE) * RATE)))
        sound = np.concatenate(parts[:-1]).clip(-32768, 32767).astype("<i2")
        made.append((" ".join(WORDS[one[1]] for one in chosen), sound))
    return made


def write_corpus(data: Path, out: Path, task: str) -> None:
    """The lists and recordings of a task, as `train.tsv`, `train.txt` and so on."""
    for seed, (part, digits) in enumerate(split(read_digits(data), task).items()):
        if task == "connected":
            rows = join(digits, SEQUENCES[part], seed)
        else:
            rows = [(WORDS[digit], samples) for _, digit, _, samples in digits]
        make_directory(out / part)
        for number, (_, samples) in enumerate(rows):
            with wave.open(str(out / part / f"{number:05}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(samples.tobytes())
        (out / f"{part}.txt").write_text("".join(f"{text}\n" for text, _ in rows), encoding="utf-8")
        lines = "".join(f"{part}/{number:05}.wav\n" for number in range(len(rows)))
        (out / f"{part}.tsv").write_text(lines, encoding="utf-8")


def main() -> None:
    """Make the corpus, train, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with train.zip and test.zip")
    parser.add_argument("--task", default="isolated")
    parser.add_argument("--out", type=Path, default=Path("runs/fsdd"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--test", action="store_true")
    given = parser.parse_args()
    out = given.out / given.task.replace(":", "-")
    if not (out / "corpus" / "test.tsv").exists():
        write_corpus(given.data, out / "corpus", given.task)
    dragoman.train(
        source_audio=out / "corpus" / "train.tsv", target=out / "corpus" / "train.txt",
        dev_source_audio=out / "corpus" / "dev.tsv", dev_target=out / "corpus" / "dev.txt",
        out=out / "run", settings={**SETTINGS, "max_minutes": given.minutes}, resume=True,
    )  # fmt: skip
    part = "test" if given.test else "dev"
    said = (out / "corpus" / f"{part}.txt").read_text(encoding="utf-8").splitlines()
    paths = [out / "corpus" / part / f"{number:05}.wav" for number in range(len(said))]
    heard = [one.text for one in dragoman.Translator.from_pretrained(out / "run").translate(paths)]
    row = {"task": given.task, "part": part, "lines": len(said)}
    for one in score(heard, said, metrics=("wer", "exact")):
        row |= {
            one.name: round(one.value, 2),
            f"{one.name}_interval": [round(one.low or 0, 2), round(one.high or 0, 2)],
        }
        row |= {"edits": one.edits._asdict()} if one.edits else {}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
