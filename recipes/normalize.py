"""Compare the rules of `tokenizer.normalize` on the demo corpus: clean sources, and the same as programs leave them.

    python recipes/normalize.py [--out runs/normalize] [--seeds 1,2] [--steps 700] [--set KEY=VALUE]

Trains a small model in each direction (about a minute each on one core) unless it is there. Then translates the 300
test sentences, as they are and with each sort of dirt in all of them, and prints a JSON row for each rule: the mean of
the seeds, BLEU and chrF. Rules that write the training pairs in the same way share a training: such models differ in
nothing but what is done to other sources. Rows land in `result.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from run import plainly, seed_list

from dragoman import Translator
from dragoman.config import make_config, merge, parse_assignments
from dragoman.demo.grammar import generate, load_grammar, write_corpus
from dragoman.demo.show import DIRECTIONS, demo_config
from dragoman.evaluation import Metric, score
from dragoman.text import read_texts
from dragoman.text.normalization import NORMALIZATIONS, normalizer, target_normalization
from dragoman.training import train

_SETTINGS: dict[str, Any] = {
    "tokenizer": {"kind": "auto", "target_kind": "auto", "joint": False},
    "training": {"precision": "float32", "threads": 1},
    "validation": {"every": 350, "metric": "bleu", "max_sentences": 100},
}
_SINGLETONS = {unicodedata.normalize("NFC", chr(code)): chr(code) for code in (*range(0xF900, 0xFAD9), 0x212A, 0x212B)}


def _between(text: str, what: str, random: Random, share: float) -> str:
    """The text with something between neighbours that are letters, now and then; once at least."""
    places = [i for i, (a, b) in enumerate(pairwise(text), 1) if a.isalpha() and b.isalpha()]
    chosen = {i for i in places if random.random() < share} or set(random.sample(places, min(len(places), 1)))
    return "".join(what * (i in chosen) + c for i, c in enumerate(text))


def _for_blanks(text: str, blank: str) -> str:
    """The text with another blank for each; where it has none, at its ends, as pasting leaves them."""
    return text.replace(" ", blank) if " " in text else f"{blank}{text}{blank}"


def _wide(text: str, random: Random) -> str:
    """The text with some words and all signs in their other width."""
    signs = {"。": "｡", "？": "?", "！": "!", "，": ","}
    words = re.split("( )", text)
    chosen = random.randrange(0, len(words), 2)
    full = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in words[chosen])
    return "".join([*words[:chosen], full, *words[chosen + 1 :]]).translate(str.maketrans(signs))


DIRT: dict[str, Callable[[str, Random], str]] = {
    "no-break spaces": lambda text, random: _for_blanks(text, "\xa0"),
    "ideographic spaces": lambda text, random: _for_blanks(text, "\u3000"),
    "zero-width spaces": lambda text, random: _between(text, "\u200b", random, 0.2),
    "soft hyphens": lambda text, random: _between(text, "\xad", random, 0.2),
    "byte-order mark": lambda text, random: "\ufeff" + text,
    "other width": _wide,
    "not composed": lambda text, random: "".join(_SINGLETONS.get(c, c) for c in unicodedata.normalize("NFD", text)),
}


def soiled(texts: Sequence[str], kind: str) -> list[str]:
    """Return the texts with one sort of dirt in each; the same for the same texts."""
    return [DIRT[kind](text, Random(f"{kind} {i} {text}")) for i, text in enumerate(texts)]


def trained(out: Path, corpus: Path, direction: str, rule: str, seed: int, options: argparse.Namespace) -> Path:
    """Train a model unless it is there; its directory."""
    source, target = direction.split("-")
    texts = hash_of(corpus / f"train.{source}", rule), hash_of(corpus / f"train.{target}", target_rule(rule))
    name = sha256("".join(texts).encode()).hexdigest()[:8]
    run = out / f"{direction}-{name}-{seed}"
    if not (run / "README.md").exists():
        config = demo_config(run, corpus, direction).to_dict(unset=False)
        settings = {**_SETTINGS["tokenizer"], "normalize": rule}
        steps = {"max_steps": options.steps, "seed": seed, **_SETTINGS["training"]}
        tree = merge(config, {**_SETTINGS, "tokenizer": settings, "training": steps})
        train(make_config(merge(tree, parse_assignments(options.settings))), resume=run.exists())
    return run


def target_rule(rule: str) -> str:
    """Return what targets get where sources get a rule."""
    return next(target_normalization(one) for one in NORMALIZATIONS if one == rule)


def hash_of(path: Path, rule: str) -> str:
    """Return a hash of the lines of a file as a rule writes them."""
    change = next(normalizer(one) for one in NORMALIZATIONS if one == rule)
    return sha256("\n".join(map(change, read_texts(path))).encode()).hexdigest()


def judged(model: Path, rule: str, sets: dict[str, list[str]], references: list[str], language: str) -> dict[str, Any]:
    """Return BLEU and chrF of a model on each set of sources, which are written as the rule says."""
    change = next(normalizer(one) for one in NORMALIZATIONS if one == rule)
    translator, found, known = Translator.from_pretrained(model), {}, {}
    for name, sources in sets.items():
        texts = tuple(map(change, sources))
        if texts not in known:
            outputs = [one.text for one in translator.translate(list(texts))]
            metrics = [Metric("bleu", language), Metric("chrf", language)]
            scores = score(outputs, [(one,) for one in references], metrics=metrics, bootstrap=0)
            known[texts] = [one.value for one in scores]
        found[name] = known[texts]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing and print a row for each direction and rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/normalize"))
    parser.add_argument("--seeds", type=seed_list, default=(1, 2))
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--directions", default=",".join(DIRECTIONS))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    corpus, rows = options.out / "corpus", []
    write_corpus(corpus, generate(load_grammar()), "zh", "en")
    for direction in options.directions.split(","):
        source, target = direction.split("-")
        clean, references = (list(read_texts(corpus / f"test.{language}")) for language in (source, target))
        sets = {"clean": clean, **{kind: soiled(clean, kind) for kind in DIRT}}
        for rule in NORMALIZATIONS:
            seeds = [
                judged(trained(options.out, corpus, direction, rule, seed, options), rule, sets, references, target)
                for seed in options.seeds
            ]
            scores = {kind: [round(mean(one[kind][n] for one in seeds), 2) for n in (0, 1)] for kind in sets}
            dirty = [round(mean(scores[kind][n] for kind in DIRT), 2) for n in (0, 1)]
            rows.append({"direction": direction, "rule": rule, "dirty": dirty, **scores})
            print(json.dumps(rows[-1]), flush=True)
            (options.out / "result.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    plainly(main)
