"""Measure what each means against little data gives: a training beside the base for each, judged on the dev set.

    python recipes/effects.py --data DIR [--out runs/effects] [--only r-drop-3,rotary] [--threads 1] [--picture F.png]

`effects.toml` lists the means. Everything is one seed; the row `another-seed` says what chance alone does. Interrupted
runs go on where they stopped, finished ones are not trained again; a changed plan needs another `--out`. Two calls with
different `--only` may share one, once the base is trained. Prints a table in Markdown of all that is finished: BLEU and
chrF on the dev set of Multi30k, the difference to the base with its interval and p-value (paired bootstrap), minutes of
training beside the base's, seconds of translating. `OUT/rows.json` has the same, and `--picture` draws it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from effects_picture import draw_effects
from run import once, plainly

import dragoman
from dragoman.canvas import checked_path
from dragoman.config import SETTINGS_FILE, make_config, merge, parse_assignments
from dragoman.data.filtering import Counts
from dragoman.evaluation import Metric, compare
from dragoman.files import make_directory, write_bytes, write_json
from dragoman.studies.synthesis import WAYS, synthesize
from dragoman.text import read_lines

PLAN = Path(__file__).parent / "effects.toml"
BASE, BACKWARDS, TEACHER, RESULT = "base", "backwards", "another-seed", "effect.json"
LANGUAGES = ("en", "de")


class Making(NamedTuple):
    """One way of making pairs: by which models, from which lines, as which kind; whether sources get the kind's tag."""

    models: tuple[str, ...]
    lines: str
    kind: str
    tagged: bool = True


MADE = {
    "back-translation": (Making((BACKWARDS,), "more.de", "back-translation"),),
    "self-training": (Making((BASE,), "more.en", "self-training"),),
    "distillation": (Making((BASE, TEACHER), "train.en", "distillation"),),
    "diversification": (
        Making((BASE,), "train.en", "distillation"),
        Making((BACKWARDS,), "train.de", "back-translation", tagged=False),
    ),
}
# Pairs made so are learned from instead of the real ones, all others beside them.
IN_PLACE = "distillation"


class Effects:
    """The corpus, the runs and what came of them.

    Args:
        data: the folder of the corpora.
        out: where runs and results go.
        plan: what `effects.toml` says.
        threads: of training.
        changes: settings changed in every run.
    """

    def __init__(self, data: Path, out: Path, plan: dict[str, Any], threads: int, changes: list[str]) -> None:
        self.out, self.plan, self.means, self.threads = out, plan, plan["means"], threads
        self.changes = parse_assignments(changes)
        self.lines: dict[str, list[str]] = {}
        make_directory(out / "corpus")
        for language in LANGUAGES:
            text, dev = (
                [line.text for line in read_lines(data / f"multi30k/{part}.{language}")] for part in ("train", "val")
            )
            after = plan["pairs"] + plan["more"]
            parts = {"train": text[: plan["pairs"]], "more": text[plan["pairs"] : after], "dev": dev}
            for part, lines in parts.items():
                self.lines[f"{part}.{language}"] = lines
                self.write(f"{part}.{language}", lines)

    def write(self, name: str, lines: list[str]) -> str:
        """A file of the corpus; its path."""
        path = self.out / "corpus" / name
        write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
        return str(path)

    def version(self, name: str) -> str:
        """What a row depends on."""
        facts = {key: value for key, value in self.plan.items() if key != "means"}
        way = {key: value for key, value in self.means.get(name, {}).items() if key != "what"}
        return json.dumps([facts, way, self.changes], sort_keys=True)

    def is_done(self, name: str) -> bool:
        """Whether a row was measured, as the plan has it now."""
        file = self.out / name / RESULT
        return file.exists() and json.loads(file.read_text(encoding="utf-8"))["version"] == self.version(name)

    def measure(self, name: str) -> dict[str, Any]:
        """What a row is made of: trained, translated and kept, or read where that was done before."""
        file = self.out / name / RESULT
        make_directory(file.parent)
        return once(file, self.version(name), lambda: self.look(name))

    def look(self, name: str) -> dict[str, Any]:
        """Train what a row needs, and translate."""
        way = self.means.get(name, {})
        for needed in way.get("with", ()):
            self.measure(needed)
        minutes = 0.0
        if "search" in way or "with" in way:
            models = [self.out / BASE, *(self.out / other for other in way.get("with", ()))]
        else:
            models = [self.out / name]
            own, minutes = self.settings(name, way)
            minutes += self.train(name, own)
        translator = dragoman.Translator.from_pretrained(models)
        translator.translate(self.lines["dev.en"][:8])
        began = time.perf_counter()
        outputs = [one.text for one in translator.translate(self.lines["dev.en"], **way.get("search", {}))]
        return {"minutes": round(minutes, 1), "seconds": round(time.perf_counter() - began, 1), "outputs": outputs}

    def settings(self, name: str, way: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """What a row trains with, beside the base's settings; the minutes that it took to come so far."""
        own = parse_assignments(way.get("set", []))
        if "made" in way:
            pairs, minutes = self.make_pairs(name, way["made"])
            return merge(pairs, own), minutes
        if "after" in way:
            minutes = self.measure(way["after"])["minutes"]
            return {"training": {"init_from": str(self.out / way["after"])}}, minutes
        if "files" in way:
            corpus = self.out / "corpus"
            files = {side: [str(corpus / part) for part in parts] for side, parts in way["files"].items()}
            return {"data": files}, 0.0
        return own, 0.0

    def train(self, name: str, own: dict[str, Any]) -> float:
        """Train, or go on; the minutes.

        Raises:
            SystemExit: a signal stopped the training.
        """
        sides = LANGUAGES if name != BACKWARDS else LANGUAGES[::-1]
        paths = [str(self.out / "corpus" / f"{part}.{side}") for part in ("train", "dev") for side in sides]
        files = dict(zip(("source", "target", "dev_source", "dev_target"), ([path] for path in paths), strict=True))
        given = {"data": files, "out": str(self.out / name), "training": {"threads": self.threads}}
        tree = merge(given, self.plan["base"], own, self.changes)
        run = dragoman.train(make_config(tree), resume=(self.out / name / SETTINGS_FILE).exists())
        if run.exit_status:
            raise SystemExit(run.exit_status)
        return run.progress.seconds / 60

    def make_pairs(self, name: str, kind: str) -> tuple[dict[str, Any], float]:
        """Made-up pairs, as settings: beside the real ones, or by distillation in their place; and the minutes."""
        minutes, pairs = 0.0, []
        for making in MADE[kind]:
            for model in making.models:
                if model == BACKWARDS:
                    minutes += self.train(BACKWARDS, {})
                else:
                    self.measure(model)
            began = time.perf_counter()
            models = [self.out / model for model in making.models]
            counts = Counts(unit="lines")
            tag = None if making.tagged else ""
            translator = dragoman.Translator.from_pretrained(models)
            pairs += synthesize(translator, self.lines[making.lines], kind=making.kind, tag=tag, counts=counts)
            minutes += (time.perf_counter() - began) / 60
            print(f"{name}: {counts.kept:,} of {counts.read:,} lines of {making.lines} kept")
        if not pairs:
            raise SystemExit(f"{name}: no output is worth learning from")
        if kind == IN_PLACE:
            sides = [
                self.write(f"{name}.{side}", [pair[number] for pair in pairs]) for number, side in enumerate(LANGUAGES)
            ]
            return {"data": {"source": sides[:1], "target": sides[1:]}}, minutes
        file = self.write(f"{name}.tsv", ["\t".join(pair) for pair in pairs])
        tags = [WAYS[making.kind].tag for making in MADE[kind] if making.tagged and WAYS[making.kind].tag]
        return {"data": {"pairs": [file]}, "tokenizer": {"symbols": tags}}, minutes

    def row(self, name: str) -> dict[str, Any]:
        """What a means gave beside the base."""
        found, base = self.measure(name), self.measure(BASE)
        what = self.means[name]["what"] if name != BASE else None
        row: dict[str, Any] = {"name": name, "what": what, "minutes": found["minutes"], "seconds": found["seconds"]}
        row["cost"] = round(found["minutes"] / (base["minutes"] or 1), 2)
        for metric in ("bleu", "chrf"):
            both = compare(base["outputs"], found["outputs"], self.lines["dev.de"], Metric(metric, "de"))
            row[metric] = {"value": both.b.value, "difference": both.difference, "interval": [both.low, both.high]}
            row[metric]["p"] = both.p_bootstrap
        return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| means | what | BLEU | difference | p | chrF | training | translating |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        bleu, (low, high) = row["bleu"], row["bleu"]["interval"]
        gain = f"{bleu['difference']:+.2f} [{low:+.2f}, {high:+.2f}]" if row["name"] != BASE else ""
        p = f"{bleu['p']:.3f}" if row["name"] != BASE else ""
        training = f"{row['minutes']} min ({row['cost']})" if row["minutes"] else "none"
        cells = (
            f"`{row['name']}`",
            row["what"] or "",
            f"{bleu['value']:.2f}",
            gain,
            p,
            f"{row['chrf']['value']:.2f}",
            training,
            f"{row['seconds']} s",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is asked for, then print all that is finished."""
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs/effects"), type=Path, help="where runs and results go")
    parser.add_argument("--only", help=f"some of {', '.join(plan['means'])}")
    parser.add_argument("--threads", default=os.cpu_count(), type=int, help="of training")
    parser.add_argument("--picture", type=Path, help="draw the rows too: a .png, .svg or .pdf")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting in every run")
    options = parser.parse_args()

    names = options.only.split(",") if options.only else list(plan["means"])
    if unknown := [name for name in names if name not in plan["means"]]:
        parser.error(f"there is no {unknown[0]}")
    if options.picture:
        checked_path(options.picture)  # now, not when hours have gone by
    effects = Effects(options.data, options.out, plan, options.threads, options.set)
    for name in (BASE, *names):
        effects.measure(name)
    rows = [effects.row(name) for name in (BASE, *plan["means"]) if effects.is_done(name)]
    write_json(options.out / "rows.json", {"rows": rows})
    print(table(rows))
    if options.picture:
        print(draw_effects(rows, options.picture).path)


if __name__ == "__main__":
    plainly(main)
