"""Run a recipe from raw files to its row of the table: train, translate, score.

    python recipes/run.py multi30k-en-de --data DIR [--out runs] [--seeds 1,2,3] [--ensemble] [--test] [--set KEY=VALUE]

`--data` is the folder that the recipe's `${DATA}` stands for. Settings are chosen on the dev set, which is what is
judged; `--test` judges the test set, if there is one, once all seeds are trained, and once per version of the recipe:
asked again, it tells what it found. Interrupted runs go on where they stopped, finished ones are not trained again.

Prints a JSON row for each seed, with `--ensemble` one of all of them together, and of several seeds one of the means
and standard deviations. The rows also land beside the runs as `result-dev.json` and `result-test.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dragoman
from dragoman.config import SETTINGS_FILE, make_config, merge, parse_assignments, read_toml
from dragoman.data import Prepared
from dragoman.errors import DragomanError
from dragoman.evaluation import Metric, group_references, score
from dragoman.language import TextScorer, summarize
from dragoman.models import load_pretrained
from dragoman.studies.judge import read_test_set
from dragoman.text import read_lines
from dragoman.training.tasks import task_of
from dragoman.training.validate import teacher_forced

HERE = Path(__file__).parent


def judge(models: Sequence[Path], part: str, data: Path, test: dict[str, Any]) -> dict[str, Any]:
    """Scores of translations with their signatures, or how likely the (first) model finds a text, or how many tokens of
    held-out targets are its likeliest ones after the right ones before them.

    Args:
        models: one run, or several that decide together.
        part: "dev" or "test".
        data: the folder of the corpora.
        test: the recipe's entry in `tests.toml`.
    """
    dev = Prepared.open(models[0] / "data") if part == "dev" else None
    if "text" in test:
        lines = dev.dev_target if dev else [line.text for line in read_lines(data / test["text"])]
        return summarize(TextScorer.from_pretrained(models[0]).score(lines)).to_dict()
    if dev and test.get("teacher_forced"):
        return token_accuracy(models[0], dev)
    group = test.get("group", False)
    if dev is None:
        sources, answers = read_test_set(data / test["source"], data / test["reference"], group=group)
    elif group:
        sources, answers = group_references(dev.dev_source, dev.dev_target)
    else:
        sources, answers = dev.dev_source, [(line,) for line in dev.dev_target]
    translator = dragoman.Translator.from_pretrained(models)
    outputs = [one.text for one in translator.translate(sources)]
    language = translator.languages.target
    scores = score(outputs, answers, metrics=[metric_of(test, name, language) for name in test["metrics"]])
    return {"lines": len(sources), "scores": [one.to_dict() for one in scores]}


def metric_of(test: dict[str, Any], name: str, language: str | None) -> Metric:
    """Return a metric as a recipe's entry in `tests.toml` asks for it."""
    return Metric(name, language, test.get("lowercase", False), test.get("tokenize") if name == "bleu" else None)


def token_accuracy(run: Path, data: Prepared) -> dict[str, Any]:
    """Teacher-forced on the dev set: the share of its tokens, `</s>` among them, that the model of a run has right."""
    config = make_config(read_toml(run / SETTINGS_FILE))
    model = load_pretrained(run).model
    assert config.training.batch_tokens is not None
    sums = teacher_forced(model, data.dev, task_of(config), config.training.batch_tokens)
    return {"lines": len(data.dev), "token_accuracy": 100 * sums.correct / sums.labels}


def once(file: Path, version: str, look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was found when this version of a recipe was looked at before, or what is found now, which is kept."""
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["version"] == version:
            return kept["found"]
    found = look()
    file.write_text(json.dumps({"version": version, "found": found}, indent=2) + "\n", encoding="utf-8")
    return found


def recipe_text(name: str) -> str:
    """A recipe as it is written, after those it builds on."""
    text = (HERE / f"{name}.toml").read_text(encoding="utf-8")
    base = tomllib.loads(text).get("base")
    return text if base is None else recipe_text(Path(base).stem) + text


def read_tests() -> dict[str, Any]:
    """How each recipe is judged."""
    return tomllib.loads((HERE / "tests.toml").read_text(encoding="utf-8"))


def judged(
    file: Path, name: str, changes: list[str], models: list[Path], part: str, data: Path, test: dict[str, Any]
) -> dict[str, Any]:
    """`judge`, but the test set only once per version of the recipe."""
    if part == "dev":
        return judge(models, part, data, test)
    version = json.dumps([recipe_text(name), changes, test, [out.name for out in models]], sort_keys=True)
    return once(file, hashlib.sha256(version.encode()).hexdigest(), lambda: judge(models, part, data, test))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over the seeds (n - 1 below the root)."""
    shared = {key: rows[0][key] for key in ("recipe", "part", "threads", "machine")}
    found: dict[str, Any] = {**shared, "seeds": [row["seed"] for row in rows]}
    found["minutes"] = round(statistics.mean(row["minutes"] for row in rows), 1)
    for key in {"perplexity", "token_accuracy"} & rows[0].keys():
        values = [row[key] for row in rows]
        return {**found, key: {"mean": statistics.mean(values), "sd": statistics.stdev(values)}}
    found["scores"] = []
    for scores in zip(*(row["scores"] for row in rows), strict=True):
        values = [one["value"] for one in scores]
        facts = {"name": scores[0]["name"], "mean": statistics.mean(values), "sd": statistics.stdev(values)}
        found["scores"].append({**facts, "values": values, "signature": scores[0]["signature"]})
    return found


def train(name: str, out: Path, seed: int | None, changes: list[str]) -> dict[str, Any]:
    """Train with a seed, or with the recipe's own, or go on; the facts of the run.

    Raises:
        SystemExit: a signal stopped the training.
    """
    given = {"out": str(out), "training": {} if seed is None else {"seed": seed}}
    config = make_config(merge(read_toml(HERE / f"{name}.toml"), parse_assignments(changes), given))
    run = dragoman.train(config, resume=(out / SETTINGS_FILE).exists())
    if run.exit_status:
        raise SystemExit(run.exit_status)
    return {
        "recipe": name,
        "seed": run.config.training.seed,
        "minutes": round(run.progress.seconds / 60, 1),
        "updates": run.progress.step,
        "target_tokens": run.progress.labels,
        "threads": run.config.training.threads or int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
        "machine": platform.machine(),
    }


def run_directory(root: Path, name: str, seed: int | None) -> Path:
    """Where a recipe's run with a seed goes, or with its own."""
    return root / name if seed is None else root / name / f"seed-{seed}"


def seed_list(text: str) -> list[int]:
    """What `--seeds` means."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"whole numbers with commas are expected, not {text!r}") from None


def plainly(work: Callable[[], None]) -> None:
    """Do the work of a script; a mistake that its user can mend is a message on standard error, not a traceback."""
    try:
        work()
    except (DragomanError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        raise SystemExit(getattr(error, "exit_code", 1)) from None


def main() -> None:
    """Train all seeds, judge, print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tests = read_tests()
    parser.add_argument("name", choices=sorted(tests))
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs"), type=Path, help="where run directories go")
    parser.add_argument(
        "--seeds", type=seed_list, help="one run for each, as NAME/seed-N; the recipe's own alone if left out"
    )
    parser.add_argument("--ensemble", action="store_true", help="also judge all seeds (two or more) together")
    parser.add_argument("--test", action="store_true", help="judge the test set instead of the dev set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting; repeatable")
    options = parser.parse_args()
    if options.test and tests[options.name].get("teacher_forced"):
        parser.error(f"{options.name} is judged on its dev set, it has no test set: leave --test out")
    if options.ensemble and "metrics" not in tests[options.name]:
        parser.error(f"{options.name} is not judged by its outputs: leave --ensemble out")

    seeds = options.seeds or [None]
    runs = {run_directory(options.out, options.name, seed): seed for seed in seeds}
    if options.ensemble and len(runs) < 2:
        what = "--ensemble judges two models or more together"
        parser.error(f"{what}, here is {len(runs)}: name several seeds (--seeds 1,2), or leave --ensemble out")

    os.environ["DATA"] = str(options.data)
    home, test, part = options.out / options.name, tests[options.name], "test" if options.test else "dev"
    facts = {out: train(options.name, out, seed, options.set) for out, seed in runs.items()}
    rows = []
    for out, own in facts.items():
        found = judged(out / "judged.json", options.name, options.set, [out], part, options.data, test)
        rows.append({"part": part, **own, **found})
    if options.ensemble:
        every = list(facts.values())
        together = {"seed": [own["seed"] for own in every], "minutes": sum(own["minutes"] for own in every)}
        found = judged(home / "judged.json", options.name, options.set, list(runs), part, options.data, test)
        rows.append({"part": part, **every[0], **together, **found})
    if len(runs) > 1:
        rows.append(summary(rows[: len(runs)]))
    (home / f"result-{part}.json").write_text(json.dumps(rows, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    plainly(main)
