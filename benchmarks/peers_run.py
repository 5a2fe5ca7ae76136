"""Side by side with other programs: decoding, training, start, files, and how costs grow.

Everyone runs in a process of its own, on the same work with the same weights, only one at a time, in turns. Rows go to
standard output as JSON, tables to standard error; `--markdown FILE` writes them all, `--page FILE` the short ones of a
page of the guide. Each table that is done is kept in `--out`: a run that was stopped goes on after it (`--again`
measures it again). A table of systems that do not compute the same fails, and so does the command. The peers live in an
environment of their own:

    python3 -m venv .venv-peers
    .venv-peers/bin/python -m pip install -r benchmarks/requirements-peers.txt
    .venv-peers/bin/python -m pip install --no-deps -r benchmarks/requirements-peers-alone.txt
    .venv/bin/python benchmarks/peers_run.py > rows.jsonl

Pieces of a table, each with other options, become one page: `peers_run.py --rows build/peers/*.jsonl --markdown FILE`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from peers_commands import bench_file, bench_start
from peers_decoding import CURVES, bench_curves, bench_decoding
from peers_page import fill
from peers_picture import draw
from peers_pool import HERE, Contestant, PeerError, Worker, say
from peers_report import markdown, show
from peers_rows import Plan, Row
from peers_trained import Models, bench_trained, train_models, write_corpus
from peers_training import bench_training, bench_user
from peers_work import MODELS

TABLES = ("decode", "file", "start", "train", "user", "trained", "curves")
# What is measured if nothing else is asked for: the others take as long again, and say little more.
USUAL = TABLES[:5]
# Engine and precision of ours; the first is what a user gets.
OURS = ("auto", "auto:float32", "module")
# Programs whose search is a loop in Python, and their precisions.
RUNTIMES = (("onnxruntime", "float32"), ("onnxruntime", "int8"), ("openvino", "float32"))
# Who is not measured, and why.
LEFT_OUT = {
    "bergamot": "its package is for Python 3.10 alone and asks the network for models when it is imported; it runs "
    "models in Marian's own format, with Marian's own positions, and none here is one"
}
LINES = 1000
NOT_SETTINGS = ("tables", "rows", "markdown", "page", "picture", "out", "again")
QUICK = {
    "budget": 0.1, "rounds": 1, "batch_tokens": 256, "seconds": 8.0, "steps": 120, "lines": 40, "most": 64,
    "models": ["tiny"], "batches": (1, 4),
}  # fmt: skip


def ours(name: str) -> Contestant:
    """`engine` or `engine:precision`."""
    engine, _, precision = name.partition(":")
    title = "dragoman" if name == "auto" else f"dragoman {engine} {precision}".rstrip()
    return Contestant(title, "dragoman", sys.executable, {"engine": engine, "precision": precision or "auto"})


def plan_of(options: argparse.Namespace, folder: Path) -> Plan:
    python = str(options.python)
    ctranslate2 = []
    for kind in ("float32", "int8"):
        given = {"compute_type": kind}
        ctranslate2.append(Contestant(f"ctranslate2 {kind}", "ctranslate2", python, given))
        if options.threads > 1:  # its other way to use them, and often the better one
            given = {**given, "workers": options.threads, "threads": 1}
            title = f"ctranslate2 {kind}, {options.threads} workers of 1"
            ctranslate2.append(Contestant(title, "ctranslate2", python, given))
    return Plan(
        folder, options.threads, options.budget, options.rounds, [ours(name) for name in options.ours], ctranslate2,
        [Contestant("transformers", "marian", python, {"precision": "float32"})],
        Contestant("probe", "probe", sys.executable),
        [Contestant(f"{name} {kind}", name, python, {"precision": kind}) for name, kind in RUNTIMES],
    )  # fmt: skip


def tell_versions(plan: Plan) -> None:
    versions: dict[str, str] = {}
    for one in (plan.ours[0], plan.ctranslate2[0], plan.marian[0], *plan.runtimes):
        try:
            with Worker(one, plan.threads) as worker:
                versions |= worker.result("versions")
        except PeerError as error:
            plan.emit("peers unavailable", {"what": one.name, "reason": str(error)})
    arithmetic = {}
    for one in plan.ours:
        with plan.attempt(one.name), Worker(one, plan.threads) as worker:
            arithmetic[one.name] = worker.result("arithmetic")
    for what, reason in LEFT_OUT.items():
        plan.emit("peers left out", {"what": what, "reason": reason})
    plan.emit("peers versions", {"versions": versions, "arithmetic": arithmetic})


def corpus(options: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    return (options.source, options.target) if options.source else write_corpus(folder / "corpus")


def trained(options: argparse.Namespace, plan: Plan) -> tuple[Models, list[str]]:
    """Copies of the models that were given, or models trained for so many updates; and lines to translate."""
    source, target = corpus(options, plan.folder)
    if options.model:
        sinusoids = copied(options.sinusoids, plan.folder / "given-sinusoids") if options.sinusoids else None
        models = Models(copied(options.model, plan.folder / "given-default"), sinusoids)
    else:
        say(f"training two models for {options.steps} updates each, unless they are there")
        models = train_models(plan, source, target, options.steps)
    lines = (options.input or source).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return models, [line for line in lines if line.strip()][: options.lines]


def copied(run: Path, to: Path) -> Path:
    """A model beside which others may be written."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for file in ("config.json", "model.safetensors", *(one.name for one in run.glob("tokenizer*.model"))):
        shutil.copy(run / file, to / file)
    return to


def steps(options: argparse.Namespace, plan: Plan) -> dict[str, Callable[[], None]]:
    """How each table is made."""
    models = options.models

    def translate(bench: Callable[..., None], *, whole: bool = True) -> None:
        models, lines = trained(options, plan)
        for beam in options.beams:
            with plan.attempt(f"{bench.__name__}, beam size {beam}"):
                bench(plan, models, lines if whole else lines[0], beam)

    def user() -> None:
        bench_user(plan, models[-1:], *corpus(options, plan.folder), options.seconds, options.rounds)

    return {
        "decode": lambda: bench_decoding(plan, models, options.batches, options.beams),
        "trained": lambda: translate(bench_trained),
        "file": lambda: translate(bench_file),
        "start": lambda: translate(bench_start, whole=False),
        "train": lambda: bench_training(plan, models, options.batch_tokens, updates=1),
        "user": user,
        "curves": lambda: bench_curves(plan, options.curves, options.most),
    }


def run_all(options: argparse.Namespace, plan: Plan) -> None:
    """Each table that is wanted, unless the same one is kept from a run before."""
    ways = steps(options, plan)
    for number, table in enumerate(options.tables, 1):
        kept = options.out / f"{table}-{digest(options)}.jsonl"
        say(f"table {number} of {len(options.tables)}: {table}")
        if kept.exists() and not options.again:
            say(f"kept from a run before: {kept}")
            plan.rows += read_rows([kept])
            print(kept.read_text(encoding="utf-8"), end="", flush=True)
            continue
        first = len(plan.rows)
        tell_versions(plan)
        with plan.attempt(table):
            ways[table]()
        beside = kept.with_suffix(".part")
        beside.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plan.rows[first:]), "utf-8")
        beside.rename(kept)


def digest(options: argparse.Namespace) -> str:
    """What tells one set of settings from another; where rows go changes none of them."""
    told = {name: str(value) for name, value in vars(options).items() if name not in NOT_SETTINGS}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]


def read_rows(files: list[Path]) -> list[Row]:
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told = f"which of: {' '.join(TABLES)} (if none is named: {' '.join(USUAL)})"
    parser.add_argument("tables", nargs="*", default=USUAL, help=told)
    parser.add_argument("--python", type=Path, default=HERE.parent / ".venv-peers/bin/python", help="of the peers")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ours", nargs="+", default=OURS, metavar="ENGINE[:PRECISION]")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=(1, 32, 64))
    parser.add_argument("--beams", nargs="+", type=int, default=(1, 4))
    parser.add_argument("--curves", nargs="+", choices=list(CURVES), default=list(CURVES))
    parser.add_argument("--most", type=int, default=1024, help="end of the curves, but that of the vocabulary")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds for each group of calls")
    parser.add_argument("--rounds", type=int, default=3, help="rounds at least, whatever the budget")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="target tokens of a training batch")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each turn of training as a user would")
    parser.add_argument("--steps", type=int, default=1000, help="updates of the models to translate with")
    parser.add_argument("--model", type=Path, help="instead: a run with SentencePiece tokenizers")
    parser.add_argument("--sinusoids", type=Path, help="with it: one of the same sizes with sinusoids")
    parser.add_argument("--source", type=Path, help="raw sentences to train on; made up if not given")
    parser.add_argument("--target", type=Path)
    parser.add_argument("--input", type=Path, help="sentences to translate; those of --source if not given")
    parser.add_argument("--lines", type=int, default=LINES, help="how many of them")
    parser.add_argument("--markdown", type=Path, help="where to write the tables for a page")
    parser.add_argument("--page", type=Path, nargs="+", help="pages of the guide, whose tables to write anew")
    parser.add_argument("--picture", type=Path, help="where to draw the curves (needs matplotlib)")
    parser.add_argument("--rows", type=Path, nargs="+", help="show the rows of earlier runs instead of measuring")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build/peers", help="keeps tables that are done")
    parser.add_argument("--again", action="store_true", help="measure again what is kept")
    parser.add_argument("--quick", action="store_true", help="whether all of it works: figures mean nothing")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"there is no table {' '.join(sorted(unknown))}: choose from {' '.join(TABLES)}")
    if bool(options.source) != bool(options.target):
        parser.error("give both --source and --target")
    if options.sinusoids and not options.model:
        parser.error("--sinusoids goes with --model")
    if options.quick:
        vars(options).update(QUICK)
    return options


def main() -> None:
    options = arguments()
    if options.rows:
        rows = read_rows(options.rows)
    elif not options.python.exists():
        raise SystemExit(f"no environment of the peers at {options.python}: see the head of {Path(__file__).name}")
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        plan = plan_of(options, options.out)
        run_all(options, plan)
        rows = plan.rows
    show(rows)
    if options.markdown:
        options.markdown.write_text(markdown(rows), encoding="utf-8")
    for page in options.page or ():
        fill(page, rows)
    if options.picture:
        draw(rows, options.picture)
    if failed := [row for row in rows if row["benchmark"] == "peers unequal"]:
        raise SystemExit(f"{len(failed)} tables failed: systems do not compute the same")


if __name__ == "__main__":
    main()
