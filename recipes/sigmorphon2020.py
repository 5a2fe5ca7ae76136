"""SIGMORPHON 2020 task 1: one model of spelling to sound for fifteen languages, or an ensemble of several.

    python recipes/sigmorphon2020.py --data DIR [--out runs/sigmorphon2020] [--seeds 1,2,3] [--test]

All languages are learned together: a source is the language's code and the letters of the word, decomposed (NFD takes
Korean syllables apart), separated by blanks; settings are those of `sigmorphon2020-g2p.toml`. Interrupted runs go on
where they stopped, finished ones are only judged. Prints one JSON row for each language and one of the mean: word error
and phoneme error in percent on the dev sets, or with `--test` on the test sets, which are looked at once per version of
the recipe. In the mean each language counts alike; its 95 % intervals are of words drawn anew within each language.
"""

from __future__ import annotations

import argparse
import json
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from run import once, plainly, recipe_text, seed_list, train

import dragoman
from dragoman.evaluation.metrics import measure
from dragoman.evaluation.resampling import bootstrap_sums, interval
from dragoman.files import make_directory
from dragoman.text import read_lines

RECIPE = "sigmorphon2020-g2p"
LANGUAGES = ("ady", "arm", "bul", "dut", "fre", "geo", "gre", "hin", "hun", "ice", "jpn", "kor", "lit", "rum", "vie")
METRICS = ("word_error", "per")
SAMPLES = 1000


def read_words(file: Path, language: str) -> tuple[list[str], list[str]]:
    """The sources and targets of one file of the task."""
    rows = [line.text.split("\t") for line in read_lines(file)]
    letters = [" ".join(unicodedata.normalize("NFD", word).replace(" ", "_")) for word, _ in rows]
    return [f"{language} {word}" for word in letters], [phonemes for _, phonemes in rows]


def write_corpus(data: Path, out: Path) -> None:
    """The languages one after the other, as `${CORPUS}/train.source` and so on."""
    make_directory(out)
    for part in ("train", "dev"):
        pairs = [read_words(data / f"{language}.{part}.tsv", language) for language in LANGUAGES]
        for side, name in enumerate(("source", "target")):
            text = "".join(line + "\n" for pair in pairs for line in pair[side])
            (out / f"{part}.{name}").write_text(text, encoding="utf-8", newline="\n")


def judge(models: Sequence[Path], data: Path, part: str) -> list[dict[str, Any]]:
    """A row for each language and one of the mean, whose words are drawn anew within each language."""
    translator = dragoman.Translator.from_pretrained(models)
    rows, drawn = [], dict.fromkeys(METRICS, np.zeros(SAMPLES))
    for number, language in enumerate(LANGUAGES):
        sources, targets = read_words(data / f"{language}.{part}.tsv", language)
        outputs = [one.text for one in translator.translate(sources)]
        found = {name: measure(name, outputs, [(target,) for target in targets]) for name in METRICS}
        for name, measured in found.items():
            sums = bootstrap_sums(measured.statistics, samples=SAMPLES, seed=number)
            drawn[name] = drawn[name] + measured.values(sums)
        values = {name: measured.value() for name, measured in found.items()}
        rows.append({"language": language, "words": len(sources), **values})
    mean: dict[str, Any] = {"language": "mean", "words": sum(row["words"] for row in rows)}
    for name in METRICS:
        mean[name] = sum(row[name] for row in rows) / len(rows)
        mean[f"{name}_interval"] = interval(drawn[name] / len(rows), 0.95)
    return [*rows, mean]


def main() -> None:
    """Train the members, judge the ensemble, print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs/sigmorphon2020"), type=Path, help="where run directories go")
    parser.add_argument("--seeds", default="1", type=seed_list, help="one member of the ensemble for each")
    parser.add_argument("--test", action="store_true", help="judge on the test sets instead of the dev sets")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting; repeatable")
    options = parser.parse_args()

    data, corpus = options.data / "sigmorphon2020-g2p", options.out / "corpus"
    write_corpus(data, corpus)
    os.environ["CORPUS"] = str(corpus)
    members = {options.out / f"seed-{seed}": seed for seed in options.seeds}
    facts = [train(RECIPE, out, seed, options.set) for out, seed in members.items()]
    models, part = list(members), "test" if options.test else "dev"
    version = json.dumps([recipe_text(RECIPE), options.set, list(members.values())], sort_keys=True)
    if options.test:
        file = options.out / f"judged-{len(models)}.json"
        rows = once(file, version, lambda: {"rows": judge(models, data, part)})["rows"]
    else:
        rows = judge(models, data, part)
    shared = {"recipe": RECIPE, "part": part, "seeds": list(members.values())}
    minutes = round(sum(fact["minutes"] for fact in facts), 1)
    rows = [{**shared, "minutes": minutes, "threads": facts[0]["threads"], **row} for row in rows]
    (options.out / f"result-{part}-{len(models)}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    plainly(main)
