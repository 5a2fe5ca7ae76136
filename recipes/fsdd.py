"""The Free Spoken Digit Dataset: isolated digits, connected digits, and speakers that training never heard.

    python recipes/fsdd.py --data DIR [--task digits|speaker:NAME] [--out runs/fsdd] [--minutes 20] [--test]

One model learns from the recordings and from sequences of 1 to 7 of them, of one speaker each: 50 to 200 ms of silence
in between, each up to 6 dB louder or softer. It is judged on single recordings, and on sequences of held-out ones.
`speaker:NAME` leaves a speaker out of training and judges on all that is of that speaker. Held out for validation are
recordings 5 to 7 of each digit. Interrupted runs go on where they stopped. Prints a JSON row for isolated and one for
connected digits: digit error and lines that are right with their 95 % intervals, on the validation recordings or with
`--test` on the test set.
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
from heard import judge

import dragoman
from dragoman.files import make_directory

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE, LONGEST, PAUSE, GAIN = 8000, 7, (0.05, 0.2), 6.0
# Sequences that are made of the recordings of a split.
SEQUENCES = {"train": 6000, "dev": 200, "test": 300}
HELD_OUT = range(5, 8)
# Frames are normalised over their whole sound, and a single digit is cut right where it ends: what is judged has
# silence after it. Of 180 digits for validation 6 are wrong without, 1 with 50 to 70 ms, 2 with 40 or 80.
MARGIN = 0.06
# So training hears silence too, of any length up to this one, before and after each sound.
SILENCE = 0.2
KINDS = ("isolated", "connected")
SETTINGS = {
    "tokenizer.target_kind": "word", "audio.perturb": "speed", "audio.spec_augment": "sm",
    "conv_channels": 128, "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 4,
    "num_decoder_layers": 1, "dropout": 0.1, "batch_tokens": 2048, "optimizer": "muon", "learning_rate": 3e-3,
    "warmup_steps": 100, "weight_decay": 0.1, "muon_rate_factor": 1.0, "label_smoothing": 0.05, "patience": 0,
}  # fmt: skip

# Of a recording: speaker, digit, its number, samples.
Digit = tuple[str, int, int, np.ndarray]


def read_digits(data: Path) -> list[Digit]:
    """All recordings in a folder, those of the test set too."""
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


def draw_corpus(parts: dict[str, list[Digit]]) -> dict[str, list[tuple[str, np.ndarray]]]:
    """What is said and how it sounds, for each list: isolated and connected digits apart where they are judged."""
    made: dict[str, list[tuple[str, np.ndarray]]] = {}
    for seed, (part, digits) in enumerate(parts.items()):
        made[f"{part}-isolated"] = [(WORDS[one[1]], one[3]) for one in digits]
        made[f"{part}-connected"] = join(digits, SEQUENCES[part], seed)
    draw = np.random.default_rng(len(SEQUENCES))
    for name, rows in made.items():
        if name.startswith("train"):
            made[name] = [(text, silent(one, *draw.uniform(0, SILENCE, 2))) for text, one in rows]
        elif name.endswith("isolated"):
            made[name] = [(text, silent(one, 0, MARGIN)) for text, one in rows]
    return made


def silent(samples: np.ndarray, before: float, after: float) -> np.ndarray:
    """Samples with so many seconds of silence before and after them."""
    return np.pad(samples, (round(before * RATE), round(after * RATE)))


def write_corpus(digits: list[Digit], out: Path, task: str) -> None:
    """The lists and recordings of a task, as `train-isolated.tsv`, `train-isolated.txt` and so on."""
    for name, rows in draw_corpus(split(digits, task)).items():
        make_directory(out / name)
        for number, (_, samples) in enumerate(rows):
            with wave.open(str(out / name / f"{number:05}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(samples.tobytes())
        (out / f"{name}.txt").write_text("".join(f"{text}\n" for text, _ in rows), encoding="utf-8")
        lines = "".join(f"{name}/{number:05}.wav\n" for number in range(len(rows)))
        (out / f"{name}.tsv").write_text(lines, encoding="utf-8")


def train(corpus: Path, out: Path, minutes: float) -> dragoman.Run:
    """Train on both kinds of lines, or go on."""

    def both(part: str, ending: str) -> list[Path]:
        return [corpus / f"{part}-{kind}.{ending}" for kind in KINDS]

    return dragoman.train(
        source_audio=both("train", "tsv"), target=both("train", "txt"), dev_source_audio=both("dev", "tsv"),
        dev_target=both("dev", "txt"), out=out, settings={**SETTINGS, "max_minutes": minutes}, resume=True,
    )  # fmt: skip


def main() -> None:
    """Make the corpus, train, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the corpora")
    parser.add_argument("--task", default="digits", help="digits, or speaker:NAME")
    parser.add_argument("--out", type=Path, default=Path("runs/fsdd"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--test", action="store_true")
    given = parser.parse_args()
    out = given.out / given.task.replace(":", "-")
    if not (out / "corpus" / "test-connected.tsv").exists():
        write_corpus(read_digits(given.data / "fsdd"), out / "corpus", given.task)
    run = train(out / "corpus", out / "run", given.minutes)
    if run.exit_status:
        raise SystemExit(run.exit_status)
    part = "test" if given.test else "dev"
    translator = run.translator()
    for kind in KINDS:
        row = {"task": given.task, "part": part, "kind": kind, "training_minutes": round(run.progress.seconds / 60, 1)}
        row |= judge(translator, out / "corpus", f"{part}-{kind}", ("wer", "exact"))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
