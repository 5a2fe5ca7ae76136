"""Corpora and configurations small enough to train in a second, and runs that die on the way."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

from dragoman.config import TrainConfig, make_config, merge, parse_assignments
from dragoman.training import train
from dragoman.training.trainer import Trainer
from forked import run as in_child

WORDS = ["ba", "ce", "di", "fo", "gu", "ha", "ki", "lo", "mu", "ne"]


def write_corpus(folder: Path, pairs: int = 200, seed: int = 0) -> dict[str, list[str]]:
    """Lines of syllables and the same lines backwards; the `data` section that reads them."""
    draw = random.Random(seed)
    lines = [[draw.choice(WORDS) for _ in range(draw.randint(1, 7))] for _ in range(pairs + 20)]
    sections = {}
    for part, rows in (("", lines[:pairs]), ("dev_", lines[pairs:])):
        for side, step in (("source", 1), ("target", -1)):
            path = folder / f"{part}{side}.txt"
            path.write_text("".join(" ".join(row[::step]) + "\n" for row in rows), encoding="utf-8")
            sections[part + side] = [str(path)]
    return sections


def small_config(folder: Path, out: str = "run", *settings: str) -> TrainConfig:
    """2 + 2 layers, d_model 32, dropout and label smoothing on."""
    if not (folder / "source.txt").exists():
        write_corpus(folder)
    tree: dict[str, Any] = {
        "out": str(folder / out),
        "data": {key: [str(folder / f"{key}.txt")] for key in ("source", "target", "dev_source", "dev_target")},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {
            "d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.1,
        },
        "training": {
            "batch_tokens": 128, "max_steps": 60, "warmup_steps": 10, "learning_rate": 3e-3, "log_every": 1,
            "label_smoothing": 0.1, "threads": 1, "schedule": "inverse_sqrt", "ema_decay": 0.0,
        },
        "validation": {"every": 20, "metric": "loss"},
    }  # fmt: skip
    return make_config(merge(tree, parse_assignments(settings)))


def events(directory: Path, name: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["event"] == name]


def write_text(folder: Path, lines: int = 300, seed: int = 0) -> dict[str, list[str]]:
    """Lines of syllables in their order, round and round from any of them; the `data` section that reads them."""
    draw = random.Random(seed)
    sections = {}
    for part, count in (("text", lines), ("dev_text", 40)):
        starts = [(draw.randrange(len(WORDS)), draw.randint(4, 9)) for _ in range(count)]
        rows = [" ".join(WORDS[(first + i) % len(WORDS)] for i in range(length)) for first, length in starts]
        path = folder / f"{part}.txt"
        path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
        sections[part] = [str(path)]
    return sections


def text_config(folder: Path, family: str, out: str = "run", *settings: str) -> TrainConfig:
    """A model of one text: one layer, d_model 32, dropout on."""
    if not (folder / "text.txt").exists():
        write_text(folder)
    tree: dict[str, Any] = {
        "out": str(folder / out),
        "data": {key: [str(folder / f"{key}.txt")] for key in ("text", "dev_text")},
        "tokenizer": {"kind": "word"},
        "model": {
            "family": family, "d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 1,
            "num_decoder_layers": 1, "dropout": 0.1,
        },
        "training": {
            "batch_tokens": 128, "max_steps": 40, "warmup_steps": 10, "learning_rate": 5e-3, "log_every": 1,
            "threads": 1, "schedule": "inverse_sqrt", "ema_decay": 0.0,
        },
        "validation": {"every": 20},
    }  # fmt: skip
    return make_config(merge(tree, parse_assignments(settings)))


def digests(run: Path) -> dict[str, str]:
    last = max((run / "checkpoints").iterdir())
    files = [run / "model.safetensors", *last.glob("*.safetensors")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def losses(run: Path) -> dict[int, tuple[str, str]]:
    return {row["step"]: (row["loss"].hex(), row["gradient_norm"].hex()) for row in events(run, "train")}


def train_until_killed(config, step: int) -> None:
    """Train, and die as by kill -9 once the checkpoint after `step` updates is on disk."""

    def run() -> None:
        pause = Trainer._pause

        def pause_and_die(self, stop):
            pause(self, stop)
            if self.progress.step == step:
                os._exit(137)

        Trainer._pause = pause_and_die
        train(config, resume=True, quiet=True)

    assert in_child(run) == 137


def assert_goes_on_bit_for_bit(folder: Path, killed_at: int, *settings: str) -> None:
    """A run that is killed after so many updates, and goes on, ends as one that is not."""
    assert_killed_is_whole(*(small_config(folder, name, *settings) for name in ("whole", "broken")), killed_at)


def assert_killed_is_whole(whole: TrainConfig, broken: TrainConfig, killed_at: int) -> None:
    """Of two runs of the same settings, the one that is killed after so many updates and goes on ends as the other."""
    train(whole, quiet=True)
    train_until_killed(broken, killed_at)
    train(broken, resume=True, quiet=True)
    assert losses(Path(broken.out)) == losses(Path(whole.out))
    assert digests(Path(broken.out)) == digests(Path(whole.out))
