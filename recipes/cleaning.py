"""What noise costs, and what of it `dragoman clean` brings back: one model each on clean, noisy and cleaned captions.

    python recipes/cleaning.py --data DIR [--out runs/cleaning] [--pairs 10000] [--share 0.3] [--steps 1200]

DIR has `multi30k` (https://github.com/multi30k/dataset), English to German. Noise of all kinds of
`dragoman.cleaning.noise` is put between the pairs, French captions as the third language. All models are alike and
learn for as many updates. With `--scores` two more models, there and back, are trained on what the rules keep; the
pairs that they find worst are dropped, and a last model learns from the rest. Prints a JSON row for each model: BLEU on
the test set of 2016 with its interval of 95 %, and the difference from the clean one with its interval and p;
`result.json` has them, `cleaned/report.txt` what each rule dropped.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from dragoman import Translator
from dragoman.cleaning import clean
from dragoman.cleaning.noise import KINDS, add_noise
from dragoman.config import make_config
from dragoman.config.cleaning import CleaningConfig
from dragoman.evaluation import Metric, compare
from dragoman.text import ParallelCorpus, read_texts
from dragoman.training import train

_SETTINGS: dict[str, Any] = {
    "model": {
        "d_model": 128, "num_heads": 4, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.1,
        "positions": "rotary", "right_to_left": False,
    },
    "training": {
        "batch_tokens": 1024, "optimizer": "adam", "learning_rate": 3e-3, "warmup_steps": 200, "patience": 0,
        "threads": 1,
    },
    "validation": {"metric": "loss", "max_sentences": 200},
    "tokenizer": {"kind": "bpe", "joint": True, "vocab_size": 3000},
}  # fmt: skip


def trained(run: Path, source: Path, target: Path, dev: tuple[Path, Path], steps: int) -> Path:
    """Train a model unless it is there; its directory."""
    if not (run / "README.md").exists():
        files = {"source": source, "target": target, "dev_source": dev[0], "dev_target": dev[1]}
        data = {name: [str(path)] for name, path in files.items()}
        training = {**_SETTINGS["training"], "max_steps": steps}
        validation = {**_SETTINGS["validation"], "every": max(1, steps // 3)}
        tree = {**_SETTINGS, "out": str(run), "data": data, "training": training, "validation": validation}
        train(make_config(tree), resume=run.exists())
    return run


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write both sides as files of lines."""
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    return paths


def make_corpora(options: argparse.Namespace) -> dict[str, tuple[Path, Path]]:
    """Write the clean, the noisy and the cleaned corpus, and how much of each kind of noise was kept."""
    folder, out = options.data / "multi30k", options.out
    sides = [list(read_texts(folder / f"train.{language}"))[: options.pairs] for language in ("en", "de")]
    pairs, other = list(zip(*sides, strict=True)), list(read_texts(folder / "train.fr"))[: options.pairs]
    noisy = add_noise(pairs, options.share, other=other)
    found = {
        "clean": write_pairs(out, "clean", pairs),
        "noisy": write_pairs(out, "noisy", [(one.source, one.target) for one in noisy]),
        "cleaned": (out / "cleaned" / "source.txt", out / "cleaned" / "target.txt"),
    }
    if not (out / "cleaned").exists():
        corpus = ParallelCorpus.from_files([found["noisy"][0]], [found["noisy"][1]])
        clean(corpus, out / "cleaned", keep_dropped=True, report=print)
    lines = (out / "cleaned" / "dropped.jsonl").read_text(encoding="utf-8").splitlines()
    dropped = {json.loads(line)["line"] for line in lines}
    total, kept = Counter[str](), Counter[str]()
    for number, one in enumerate(noisy, 1):
        total[one.kind or "clean"] += 1
        kept[one.kind or "clean"] += number not in dropped
    for kind in ("clean", *KINDS):
        print(f"{kind}: {kept[kind]:,} of {total[kind]:,} kept", flush=True)
    return found


def scored(options: argparse.Namespace, files: tuple[Path, Path], dev: tuple[Path, Path]) -> tuple[Path, Path]:
    """Drop what two models find worst of the noisy corpus; the models learned from what the rules keep of it."""
    out = options.out / "scored"
    if not out.exists():
        cleaned = options.out / "cleaned" / "source.txt", options.out / "cleaned" / "target.txt"
        there = trained(options.out / "run-cleaned", *cleaned, dev, options.steps)
        back = trained(options.out / "run-back", *cleaned[::-1], dev[::-1], options.steps)
        corpus = ParallelCorpus.from_files([files[0]], [files[1]])
        settings = CleaningConfig(drop_share=options.drop_share)
        clean(corpus, out, scores=(there, back), settings=settings, report=print)
    return out / "source.txt", out / "target.txt"


def main() -> None:
    """Train, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/cleaning"))
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--drop-share", type=float, default=0.05)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.data / "multi30k"
    dev = folder / "val.en", folder / "val.de"
    corpora = make_corpora(options)
    tests = [list(read_texts(folder / f"test_2016_flickr.{language}")) for language in ("en", "de")]
    outputs: dict[str, list[str]] = {}
    rows = []
    for name in (*corpora, *(["scored"] if options.scores else [])):
        files = corpora[name] if name in corpora else scored(options, corpora["noisy"], dev)
        run = trained(options.out / f"run-{name}", *files, dev, options.steps)
        outputs[name] = [one.text for one in Translator.from_pretrained(run).translate(tests[0])]
        found = compare(outputs["clean"], outputs[name], tests[1], Metric("bleu", "de"))
        numbers = {"bleu": found.b.value, "low": found.b.low, "high": found.b.high, "difference": found.difference}
        between = {"difference_low": found.low, "difference_high": found.high, "p": found.p_randomisation}
        rows.append({"corpus": name, "pairs": sum(1 for _ in read_texts(files[0])), **numbers, **between})
        print(json.dumps(rows[-1]), flush=True)
    (options.out / "result.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
