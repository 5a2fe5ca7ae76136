"""Train a recipe, and MarianMT of Hugging Face transformers beside it: same data, vocabulary, size, cores and time.

    python recipes/beside_marian.py tatoeba-zh-en --data DIR [--out runs/beside] [--threads 2] [--times 1] [--test]

First the recipe is trained; then MarianMT for as many seconds of training, or `--times` as many, on the same ids and in
the same batches, as `marian_training.py` says, with the peak learning rate of `--rates` that has the least loss on the
dev set after a quarter of the time. Both translate with beam 4, each with its own search and its own length penalty,
and both outputs are scored here, on the dev set or with `--test` on the test set, which is looked at once. The machine
should have nothing else to do. What is stopped goes on where it was.

MarianMT has post-norm layers, ours what the recipe says. Its trials, its validations and the reading of its files take
none of its time. It runs in the environment that `make bench-peers` makes (`--python`). Prints a JSON row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from run import HERE, metric_of, once, plainly, recipe_text, train

import dragoman
from dragoman.config import make_config, read_toml
from dragoman.data import Prepared, plan_epoch
from dragoman.evaluation import compare
from dragoman.files import make_directory
from dragoman.studies.judge import read_test_set

PEER = HERE.parent / ".venv-peers/bin/python"
BEAM_SIZE, EPOCHS, TRIAL, MEASUREMENTS, WARM_UP = 4, 30, 0.25, 10, 0.1


def make_task(ours: Path, data: Prepared, threads: int, seed: int) -> dict[str, Any]:
    """What both kinds of runs of MarianMT have in common, read from our run."""
    config = make_config(read_toml(ours / "config.toml"))
    stores = {
        part: [[one(row).tolist() for row in range(len(store))] for one in (store.source, store.target)]
        for part, store in (("train", data.train), ("dev", data.dev))
    }
    lengths = data.train.source_lengths, data.train.target_lengths
    budget = config.training.batch_tokens or 0
    epochs = [plan_epoch(*lengths, batch_tokens=budget, seed=seed, epoch=epoch) for epoch in range(EPOCHS)]
    model = json.loads((ours / "config.json").read_text(encoding="utf-8"))["model"]
    facts = {"dropout": config.model.dropout, "smoothing": config.training.label_smoothing, "model": model}
    limits = {"threads": threads, "seed": seed, "beam_size": BEAM_SIZE, "warm_up": WARM_UP}
    return {**facts, **limits, **stores, "batches": [rows.tolist() for updates in epochs for (rows,) in updates]}


def run_marian(python: Path, folder: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Train and translate as the task says, or read what came of it before.

    Raises:
        SystemExit: it was stopped, or failed.
    """
    result = folder / task["result"]
    if not result.exists():
        make_directory(folder)
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        environment = {**os.environ, "OMP_NUM_THREADS": str(task["threads"]), "HF_HUB_OFFLINE": "1"}
        command = [str(python), str(HERE / "marian_training.py"), str(folder)]
        with subprocess.Popen(command, env=environment) as child:
            # Whoever stops this script stops the training, which then saves where it stands.
            before = signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
            code = child.wait()
            signal.signal(signal.SIGTERM, before)
        if code:
            raise SystemExit(code)
    return json.loads(result.read_text(encoding="utf-8"))


def train_marian(python: Path, home: Path, task: dict[str, Any], rates: list[float], seconds: float) -> dict[str, Any]:
    """The trials, if there is a choice, then the rate that did best for all of the time."""
    empty = {"sources": [], "result": "trial.json", "measurements": 1, "seconds": TRIAL * seconds}
    tried = rates if len(rates) > 1 else []
    trials = {
        rate: run_marian(python, home / f"rate-{rate:g}", {**task, **empty, "rate": rate})["dev_loss"] for rate in tried
    }
    rate = min(trials, key=lambda one: trials[one]) if trials else rates[0]
    whole = {"rate": rate, "measurements": MEASUREMENTS, "seconds": seconds}
    found = run_marian(python, home / f"whole-{rate:g}", {**task, **whole})
    return {**found, "rate": rate, "trials": {f"{one:g}": round(loss, 4) for one, loss in trials.items()}}


def score_both(
    ours: Path, data: Prepared, marian: dict[str, Any], sources: list[str], answers: Any, test: dict[str, Any]
) -> dict[str, Any]:
    """Both systems on the same sentences, scored as the recipe's entry in `tests.toml` says, ours minus theirs."""
    translator = dragoman.Translator.from_pretrained(ours)
    outputs = [one.text for one in translator.translate(sources, beam_size=BEAM_SIZE)]
    theirs = [data.tokenizers.target.decode(ids) for ids in marian["outputs"]]
    asked = {name: metric_of(test, name, translator.languages.target) for name in ("bleu", "chrf")}
    return {name: compare(theirs, outputs, answers, metric).to_dict() for name, metric in asked.items()}


def main() -> None:
    """Train both, judge both, print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tests = tomllib.loads((HERE / "tests.toml").read_text(encoding="utf-8"))
    parser.add_argument("name", choices=sorted(name for name in tests if "bleu" in tests[name].get("metrics", ())))
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs/beside"), type=Path, help="where everything goes")
    parser.add_argument("--python", default=PEER, type=Path, help="an interpreter that has transformers")
    parser.add_argument("--rates", default="5e-4,1e-3,2e-3", help="peak learning rates that MarianMT may try")
    parser.add_argument("--times", default=1.0, type=float, help="MarianMT trains so many times as long as the recipe")
    parser.add_argument("--threads", default=os.cpu_count(), type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--test", action="store_true", help="judge the test set instead of the dev set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of ours")
    options = parser.parse_args()
    if not 0 < options.times < math.inf:
        parser.error(f"--times {options.times:g} is no time to train")

    os.environ["DATA"] = str(options.data)
    home, test, part = options.out / options.name, tests[options.name], "test" if options.test else "dev"
    ours = home / "dragoman"
    changes = [*options.set, f"training.threads={options.threads}", "precision=float32", "training.device=cpu"]
    facts = train(options.name, ours, options.seed, changes)
    data = Prepared.open(ours / "data")
    sources, answers = data.dev_source, [(line,) for line in data.dev_target]
    if options.test:
        sources, answers = read_test_set(options.data / test["source"], options.data / test["reference"], group=False)
    ids = [data.tokenizers.source.encode(line) for line in sources]
    task = {**make_task(ours, data, options.threads, options.seed), "sources": ids, "result": f"{part}.json"}
    rates = [float(rate) for rate in options.rates.split(",")]
    peer, seconds = home / f"marian-{options.times:g}", 60 * options.times * facts["minutes"]
    marian = train_marian(options.python, peer, task, rates, seconds)

    def look() -> dict[str, Any]:
        return score_both(ours, data, marian, sources, answers, test)

    version = json.dumps([recipe_text(options.name), changes, test, options.seed, marian["rate"], options.times])
    key = hashlib.sha256(version.encode()).hexdigest()
    found = once(peer / "judged.json", key, look) if options.test else look()
    told = {key: value for key, value in marian.items() if key != "outputs"}
    row = {
        "part": part,
        **facts,
        "times": options.times,
        "marian": told,
        "lines": len(sources),
        "marian_and_ours": found,
    }
    (home / f"result-{part}-{options.times:g}.json").write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    plainly(main)
