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

import dragoman
from dragoman.config import make_config, merge, parse_assignments, read_toml

HERE = Path(__file__).parent


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
    test = tests[options.name]
    result = dragoman.evaluate(
        out,
        options.data / test["source"],
        options.data / test["reference"],
        metrics=test["metrics"],
        group=test.get("group", False),
    )
    row = {
        "recipe": options.name,
        "minutes": round(run.progress.seconds / 60, 1),
        "updates": run.progress.step,
        "target_tokens": run.progress.labels,
        "threads": run.config.training.threads or int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
        "machine": platform.machine(),
        **result.to_dict(),
    }
    (out / "result.json").write_text(json.dumps(row, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
