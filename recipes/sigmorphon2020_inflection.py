"""SIGMORPHON 2020 task 0: from a lemma and tags to the inflected form, for one language.

    python recipes/sigmorphon2020_inflection.py deu --data DIR [--out runs] [--seed 1] [--test] [--set KEY=VALUE]

A source is the tags, each one symbol (`;V`), and the letters of the lemma, separated by blanks; a target is the letters
of the form. Settings are those of `sigmorphon2020-inflection.toml`. An interrupted run goes on where it stopped. Prints
a JSON row with the share of forms that are right on the dev set, or with `--test` on the test set, which is looked at
once per version of the recipe; the row also lands in the run directory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from pathlib import Path

from run import judged, plainly, train

from dragoman.files import make_directory

RECIPE = "sigmorphon2020-inflection"
PARTS = ("train", "dev", "test")
TEST = {"source": "test.source", "reference": "test.target", "metrics": ["exact"]}


def read_forms(file: Path) -> tuple[list[str], list[str]]:
    """The sources and targets of one file of the task."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    sources = [" ".join([*(f";{tag}" for tag in tags.split(";")), letters(lemma)]) for lemma, _, tags in rows]
    return sources, [letters(form) for _, form, _ in rows]


def letters(word: str) -> str:
    """The letters of a word or phrase as symbols; `_` stands for a blank."""
    return " ".join(word.replace(" ", "_"))


def write_corpus(data: Path, language: str, out: Path) -> None:
    """The language's files as `${CORPUS}/train.source` and so on."""
    make_directory(out)
    for part in PARTS:
        for side, lines in zip(("source", "target"), read_forms(data / f"{language}.{part}.tsv.gz"), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (out / f"{part}.{side}").write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    """Train, judge, print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=("eng", "deu"))
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs"), type=Path, help="where run directories go")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--test", action="store_true", help="judge the test set instead of the dev set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting; repeatable")
    options = parser.parse_args()

    home = options.out / f"{RECIPE}-{options.language}"
    corpus, run, part = home / "corpus", home / f"seed-{options.seed}", "test" if options.test else "dev"
    write_corpus(options.data / "sigmorphon2020-inflection", options.language, corpus)
    os.environ["CORPUS"] = str(corpus)
    facts = train(RECIPE, run, options.seed, options.set)
    found = judged(run / "judged.json", RECIPE, options.set, [run], part, corpus, TEST)
    row = {"part": part, "language": options.language, **facts, **found}
    (run / f"result-{part}.json").write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(row))


if __name__ == "__main__":
    plainly(main)
