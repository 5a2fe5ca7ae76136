"""A corpus and a configuration small enough to train in a second."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from dragoman.config import TrainConfig, make_config, merge, parse_assignments

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
            "label_smoothing": 0.1, "threads": 1,
        },
        "validation": {"every": 20, "metric": "loss"},
    }  # fmt: skip
    return make_config(merge(tree, parse_assignments(settings)))


def events(directory: Path, name: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["event"] == name]
