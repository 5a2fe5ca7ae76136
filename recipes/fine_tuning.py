"""Adapt a small model of one corpus to another, with more and fewer pairs, and print what is won and what is lost.

    python recipes/fine_tuning.py --data DIR [--out runs/fine-tuning] [--pairs 100,1000,10000] [--set KEY=VALUE]

The corpora are `DIR/multi30k` (captions) and `DIR/tatoeba-en-de` (everyday sentences), English to German. A small base
of each is trained for 1,500 updates (some six minutes on one core) unless it is there; then each is trained on with the
first pairs of the other, by what `train --init-from` chooses. Prints a JSON row for each: BLEU on 500 dev sentences of
either corpus, before and after. The dev set of the new corpus also chose the weights. Rows land in `result.json`.
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

CORPORA = {
    "multi30k": ("multi30k", "train.{}", "val.{}"),
    "tatoeba": ("tatoeba-en-de", "train.{}.gz", "dev.{}"),
}
BASE: dict[str, dict[str, Any]] = {
    "tokenizer": {"vocab_size": 4000},
    "model": {
        "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "right_to_left": False,
    },
    "training": {"max_steps": 1500, "batch_tokens": 2048},
    "validation": {"max_sentences": 200, "every": 500},
}  # fmt: skip
JUDGED = 500


def files(data: Path, corpus: str) -> dict[str, list[str]]:
    """Return the settings of `data` for a corpus."""
    folder, training, held_out = CORPORA[corpus]
    names = {"source": (training, "en"), "target": (training, "de"), "dev_source": (held_out, "en"),
             "dev_target": (held_out, "de")}  # fmt: skip
    return {key: [str(data / folder / name.format(language))] for key, (name, language) in names.items()}


def first(corpus: dict[str, list[str]], pairs: int, folder: Path) -> dict[str, list[str]]:
    """Return the settings of `data` for the first pairs of a corpus, which are written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = dict(corpus)
    for key, language in (("source", "en"), ("target", "de")):
        lines = "".join(f"{line.text}\n" for line in islice(read_lines(corpus[key][0]), pairs))
        (folder / f"train.{language}").write_text(lines, encoding="utf-8")
        found[key] = [str(folder / f"train.{language}")]
    return found


def bleu(model: Path, corpus: dict[str, list[str]]) -> float:
    """Return the BLEU of a model on the first dev sentences of a corpus."""
    sources, targets = ([one.text for one in islice(read_lines(corpus[key][0]), JUDGED)]
                        for key in ("dev_source", "dev_target"))  # fmt: skip
    outputs = [one.text for one in dragoman.Translator.from_pretrained(model).translate(sources)]
    return score(outputs, [(line,) for line in targets], metrics=[Metric("bleu", "de")], bootstrap=0)[0].value


def adapt(base: Path, out: Path, data: Path, old: str, new: str, pairs: int, settings: list[str]) -> dict[str, Any]:
    """Train a base on with pairs of another corpus; the row of the table."""
    chosen = first(files(data, new), pairs, out.parent / f"{new}-{pairs}")
    given = parse_assignments(settings)
    tree = merge({"out": str(out), "data": chosen, "training": {"init_from": str(base)}}, given)
    run = train(make_config(merge({"validation": {"max_sentences": 200}}, tree)), resume=out.exists(), quiet=True)
    scores = {
        f"{what} {when}": round(bleu(model, files(data, corpus)), 2)
        for what, corpus in (("new", new), ("old", old))
        for when, model in (("before", base), ("after", out))
    }
    training = run.config.training
    return {"base": old, "new": new, "pairs": pairs, **scores, "updates": run.progress.step,
            "best": run.progress.best_step, "learning_rate": training.learning_rate,
            "seconds": round(run.progress.seconds)}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing and print a row for each adaptation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/fine-tuning"))
    parser.add_argument("--pairs", default="100,1000,10000")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    bases = {name: options.out / f"base-{name}" for name in CORPORA}
    for name, base in bases.items():
        if not (base / "README.md").exists():
            tree = merge({"out": str(base), "data": files(options.data, name)}, BASE)
            train(make_config(tree), resume=base.exists())
    rows = []
    for pairs in map(int, options.pairs.split(",")):
        for old, new in (("multi30k", "tatoeba"), ("tatoeba", "multi30k")):
            out = options.out / f"{old}-to-{new}-{pairs}"
            rows.append(adapt(bases[old], out, options.data, old, new, pairs, options.settings))
            print(json.dumps(rows[-1]), flush=True)
    (options.out / "result.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    plainly(main)
