"""Run a recipe from raw files to its row of the table: train, translate the test set, score.

    python recipes/run.py multi30k-en-de --data DIR [--out runs] [--set KEY=VALUE]

`--data` is the folder that the recipe's `${DATA}` stands for. An interrupted run goes on where it stopped; a finished
one is only judged again. Prints one JSON row, which also lands in the run directory as `result.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tomllib
from pathlib import Path
from typing import Any

import dragoman
from dragoman.config import make_config, merge, parse_assignments, read_toml
from dragoman.decoding import TextScorer, summarize
from dragoman.text import read_lines

HERE = Path(__file__).parent


def judge(model: Path, data: Path, test: dict[str, Any]) -> dict[str, Any]:
    """Scores of translations with their signatures, or how likely the model finds a text."""
    if "text" in test:
        lines = [line.text for line in read_lines(data / test["text"])]
        return summarize(TextScorer.from_pretrained(model).score(lines)).to_dict()
    group = test.get("group", False)
    files = data / test["source"], data / test["reference"]
    return dragoman.evaluate(model, *files, metrics=test["metrics"], group=group).to_dict()


def main() -> None:
    """Train, judge, print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tests = tomllib.loads((HERE / "tests.toml").read_text(encoding="utf-8"))
    parser.add_argument("name", choices=sorted(tests))
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs"), type=Path, help="where run directories go")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting; repeatable")
    options = parser.parse_args()

    os.environ["DATA"] = str(options.data)
    out = options.out / options.name
    config = make_config(
        merge(read_toml(HERE / f"{options.name}.toml"), parse_assignments(options.set), {"out": str(out)})
    )
    run = dragoman.train(config, resume=True)
    if run.exit_status:
        raise SystemExit(run.exit_status)
    row = {
        "recipe": options.name,
        "minutes": round(run.progress.seconds / 60, 1),
        "updates": run.progress.step,
        "target_tokens": run.progress.labels,
        "threads": run.config.training.threads or int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
        "machine": platform.machine(),
        **judge(out, options.data, tests[options.name]),
    }
    (out / "result.json").write_text(json.dumps(row, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
