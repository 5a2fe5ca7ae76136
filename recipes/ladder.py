"""Train and measure every rung of the ladder on one corpus, and print the table.

    python recipes/ladder.py --data DIR [--out runs/ladder] [--minutes 15] [--rungs skips,one-layer]

The corpus is the English side of `DIR/tatoeba-en-zh`, split as there. All rungs share one vocabulary of whole words, so
their perplexities compare; words seen less than `--min-count` times are one word, `<unk>`. The dev set chooses k and
backoff of the counting rungs, and when the Transformers stop; the test set is looked at once.

Rungs: zeroth-order first-order second-order skips masked-skips matrix-skips, then two Transformers: one-layer, and
full, which leaves every other setting to `dragoman train`, within so many minutes. A run that is there is measured
again, not trained again, and must have the same vocabulary. Each row also lands in its run directory as `result.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from run import plainly

import dragoman
from dragoman.config import SETTINGS_FILE, make_config, merge
from dragoman.engines import ModuleEngine
from dragoman.errors import ModelError
from dragoman.markov import RUNGS, MarkovModel, Measure, is_markov, load, measure
from dragoman.models import count_parameters, load_pretrained
from dragoman.text import TokenizerPair, Vocabulary, read_lines

KINDS = {rung.kind: rung for rung in RUNGS}
# What is set of each Transformer besides what all rungs share.
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "one-layer": {
        "model": {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_decoder_layers": 1, "dropout": 0.2},
        "training": {"max_steps": 3000},
    },
    "full": {},
}
SEES = {
    "zeroth-order": "no word: how frequent each is",
    "first-order": "the last word",
    "second-order": "the last two words",
    "skips": "each earlier word with the last one, votes added up",
    "masked-skips": "the same, a learned mask silencing pairs",
    "matrix-skips": "the same as matrix products",
    "one-layer": "all words, by one layer of attention (d_model 128)",
    "full": "all words, by three layers (d_model 256)",
}
START = (1e-4, 3.0)
K = (1e-6, 1e-5, 1e-4, 1e-3)
BACKOFF = (1.0, 3.0, 10.0, 30.0, 100.0)
Sequences = Sequence[Sequence[int]]


def main() -> None:
    """Train, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs/ladder"), type=Path, help="where run directories go")
    parser.add_argument("--min-count", default=3, type=int, help="rarer words are <unk>")
    parser.add_argument("--minutes", default=15.0, type=float, help="for each Transformer at most")
    parser.add_argument("--rungs", default=",".join(SEES), help="which, with commas between")
    options = parser.parse_args()
    corpus = options.data / "tatoeba-en-zh"
    wanted = options.rungs.split(",")
    if unknown := [name for name in wanted if name not in SEES]:
        parser.error(f"no such rung: {', '.join(unknown)}")
    texts = {part: [line.text for line in read_lines(corpus / f"{part}.en")] for part in ("train", "dev", "test")}
    vocabulary = Vocabulary.train("word", texts["train"], min_count=options.min_count)
    for name in wanted:
        check_vocabulary(options.out / name, vocabulary)
    ids = {part: [vocabulary.encode(text) for text in some] for part, some in texts.items()}
    shared = {
        "data": {"text": [str(corpus / "train.en")], "dev_text": [str(corpus / "dev.en")]},
        "tokenizer": {"kind": "word", "min_count": options.min_count},
    }
    rows = []
    for name in wanted:
        tree = merge(shared, {"out": str(options.out / name)}, _settings(name, ids, len(vocabulary), options))
        rows.append(row(name, tree, ids["test"]))
        print(json.dumps(rows[-1]), flush=True)
    unknown = sum(one.count(vocabulary.unk) for one in ids["test"])
    tokens = sum(map(len, ids["test"])) + len(ids["test"])
    print(f"\n{len(vocabulary):,} entries; test: {tokens:,} tokens with </s>, {unknown:,} of them <unk>\n")
    print(table(rows))


def check_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    """Refuse a run, if there is one, whose words have other ids than those it would be measured with.

    Raises:
        ModelError: it has another vocabulary.
    """
    if not (directory / SETTINGS_FILE).exists():
        return
    stored = TokenizerPair.load(directory).target
    sizes = [f"{one.kind} vocabulary of {len(one):,} entries" for one in (vocabulary, stored)]
    pieces, present = (one.pieces(list(range(len(one)))) for one in (vocabulary, stored))
    if present != pieces:
        raise ModelError(
            "the run that is there has another vocabulary", file=directory,
            expected=f"{sizes[0]}, as the corpus and --min-count give it",
            found=f"{sizes[1]}, with other words or in another order" if sizes[0] == sizes[1] else sizes[1],
            hint="give the --min-count and the corpus that it was trained with, or another --out",
        )  # fmt: skip


def _settings(name: str, ids: dict[str, list[list[int]]], vocab: int, options: argparse.Namespace) -> dict[str, Any]:
    if name in TRANSFORMERS:
        limits = {"training": {"max_minutes": options.minutes, **TRANSFORMERS[name].get("training", {})}}
        return merge({"model": {"family": "causal"}}, TRANSFORMERS[name], limits)
    settings: dict[str, Any] = {"model": {"family": name}}
    if not is_markov(options.out / name):
        # Matrix products give what the look-up gives, which is quicker to choose with.
        rung = KINDS["masked-skips" if name == "matrix-skips" else name]
        k, backoff = chosen(rung.fit(ids["train"], vocab), ids["dev"])
        settings["markov"] = {"k": k, "backoff": backoff}
    return settings


def chosen(model: MarkovModel, dev: Sequences) -> tuple[float, float]:
    """k and backoff that predict the dev set best: the best backoff at the usual k, then the best k with it."""

    def perplexity(k: float, backoff: float) -> float:
        again = type(model).from_parts(model.vocab, model.parts(), k=k, backoff=backoff)
        return again.perplexity(dev)

    backoff = min(BACKOFF, key=lambda value: perplexity(START[0], value)) if model.lower is not None else START[1]
    return min(K, key=lambda value: perplexity(value, backoff)), backoff


def row(name: str, tree: dict[str, Any], test: Sequences) -> dict[str, Any]:
    """Train one rung, unless that was done, and measure it."""
    out = Path(tree["out"])
    stored = out / "result.json"
    before = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else None
    if before is None:
        run = dragoman.train(make_config(tree), resume=(out / SETTINGS_FILE).exists())
        if run.exit_status:
            raise SystemExit(run.exit_status)
        before = {"seconds": round(run.progress.seconds, 1)}
    numbers, found, extra = measured(out, test)
    result = {
        "rung": name, "perplexity": round(found.perplexity, 2), "accuracy": round(found.accuracy, 4),
        "numbers": numbers, "seconds": before["seconds"], **extra,
    }  # fmt: skip
    stored.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def measured(directory: Path, test: Sequences) -> tuple[int, Measure, dict[str, float]]:
    """How many numbers a model stores, how well it predicts, and with what k and backoff."""
    if is_markov(directory):
        model = load(directory)
        return model.numbers, measure(model, test), {"k": model.k, "backoff": model.backoff}
    network = load_pretrained(directory).model
    return count_parameters(network), measure(ModuleEngine(network), test), {}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as markdown."""
    lines = [
        "| rung | the next word from | perplexity | accuracy | numbers | seconds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for one in rows:
        figures = (
            f"{one['perplexity']:.1f} | {100 * one['accuracy']:.1f} % | {one['numbers']:,} | {one['seconds']:,.1f}"
        )
        lines.append(f"| {one['rung']} | {SEES[one['rung']]} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    plainly(main)
