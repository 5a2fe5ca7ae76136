"""Adapt a base of everyday sentences to captions, by all weights, by adapters, and with old pairs mixed in.

    python recipes/adaptation.py --data DIR [--out runs/adaptation] [--pairs 500,5000,29000]
        [--ways full,lora,lora-all,mixed] [--set KEY=VALUE]

The base learns English to German from `DIR/tatoeba-en-de` for 20 minutes, unless it is there; it is trained on with the
first pairs of `DIR/multi30k` by what `train --init-from` chooses, for 300 updates, or 100 where there are fewer than
5,000 pairs. `lora` has adapters of rank 8 on attention, `lora-all` of rank 16 on every matrix; half of what `mixed`
sees, which trains all weights, are old pairs. Prints a JSON row for each: BLEU and chrF on both test sets, before (way
"none") and after, minutes, and the bytes of what has to be kept of the run besides the base. Rows that are in
`result.json` are not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from run import plainly

import dragoman
from dragoman.config import make_config, merge, parse_assignments
from dragoman.evaluation import Metric, score
from dragoman.text import read_lines
from dragoman.training import train

OLD, NEW = "tatoeba-en-de", "multi30k"
TRAINING = {OLD: "train.{}.gz", NEW: "train.{}"}
HELD_OUT = {OLD: "dev.{}", NEW: "val.{}"}
TESTS = {OLD: "test.{}", NEW: "test_2016_flickr.{}"}
BASE: dict[str, dict[str, Any]] = {
    "tokenizer": {"vocab_size": 6000},
    "model": {
        "d_model": 192, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 2,
        "positions": "rotary", "dropout": 0.1, "right_to_left": False,
    },
    "training": {"max_minutes": 20, "batch_tokens": 2048, "optimizer": "muon"},
    "validation": {"max_sentences": 200, "metric": "loss"},
}  # fmt: skip
EVERYTHING = ("query", "key", "value", "output", "inner", "outer")
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "lora": {"training": {"lora_rank": 8}},
    "lora-all": {"training": {"lora_rank": 16, "lora_matrices": EVERYTHING}},
    "mixed": {"data": {"weights": [1, 1]}},
}
MANY, UPDATES, FEW_UPDATES, MIXED_IN = 5000, 300, 100, 29_000
SIDES = {"source": "en", "target": "de"}


def held_out(data: Path, corpus: str) -> dict[str, list[str]]:
    """Return the settings of `data` for held-out pairs."""
    return {f"dev_{side}": [str(data / corpus / HELD_OUT[corpus].format(code))] for side, code in SIDES.items()}


def first(data: Path, corpus: str, pairs: int, folder: Path) -> dict[str, str]:
    """Return files of the first pairs of a corpus, which are written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for side, code in SIDES.items():
        lines = islice(read_lines(data / corpus / TRAINING[corpus].format(code)), pairs)
        path = folder / f"{corpus}-{pairs}.{code}"
        path.write_text("".join(f"{line.text}\n" for line in lines), encoding="utf-8")
        found[side] = str(path)
    return found


def scores(model: Path, data: Path) -> dict[str, float]:
    """Return BLEU and chrF of a model on both test sets."""
    translator, found = dragoman.Translator.from_pretrained(model), {}
    for corpus, name in TESTS.items():
        files = (data / corpus / name.format(code) for code in SIDES.values())
        sources, targets = ([one.text for one in read_lines(file)] for file in files)
        outputs = [one.text for one in translator.translate(sources)]
        metrics = [Metric("bleu", "de"), Metric("chrf", "de")]
        bleu, chrf = score(outputs, [(line,) for line in targets], metrics=metrics, bootstrap=0)
        found |= {f"{corpus} BLEU": round(bleu.value, 2), f"{corpus} chrF": round(chrf.value, 2)}
    return found


def adapt(base: Path, out: Path, data: Path, pairs: int, way: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train the base on in one way; the row of the table."""
    corpora = [NEW, OLD] if way == "mixed" else [NEW]
    folder = out.parent / "pairs"
    files = [first(data, corpus, pairs if corpus == NEW else MIXED_IN, folder) for corpus in corpora]
    chosen: dict[str, Any] = {side: [one[side] for one in files] for side in SIDES} | held_out(data, NEW)
    steps = UPDATES if pairs >= MANY else FEW_UPDATES
    tree = {"out": str(out), "data": chosen, "training": {"init_from": str(base), "max_steps": steps}}
    tree = merge(merge(tree, WAYS[way]), {"validation": {"max_sentences": 200}})
    run = train(make_config(merge(tree, settings)), resume=out.exists(), quiet=True)
    kept = out / "adapter" / "adapter.safetensors" if way.startswith("lora") else out / "model.safetensors"
    return {"way": way, "pairs": pairs, **scores(out, data), "updates": run.progress.step,
            "best": run.progress.best_step, "learning_rate": run.config.training.learning_rate,
            "minutes": round(run.progress.seconds / 60, 2), "bytes": kept.stat().st_size}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing and print a row for each adaptation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/adaptation"))
    parser.add_argument("--pairs", default="500,5000,29000")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    base, result = options.out / "base", options.out / "result.json"
    if not (base / "README.md").exists():
        files = {side: [str(options.data / OLD / TRAINING[OLD].format(code))] for side, code in SIDES.items()}
        tree = {"out": str(base), "data": files | held_out(options.data, OLD)}
        train(make_config(merge(tree, BASE)), resume=base.exists())
    rows = json.loads(result.read_text(encoding="utf-8")) if result.exists() else []
    settings = parse_assignments(options.settings)
    plans = [("none", 0), *((way, int(pairs)) for pairs in options.pairs.split(",") for way in options.ways.split(","))]
    for way, pairs in plans:
        if any((row["way"], row["pairs"]) == (way, pairs) for row in rows):
            continue
        if way == "none":
            rows.append({"way": way, "pairs": pairs, **scores(base, options.data)})
        else:
            out = options.out / f"{way}-{pairs}"
            rows.append(adapt(base, out, options.data, pairs, way, settings))
        print(json.dumps(rows[-1]), flush=True)
        result.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    plainly(main)
