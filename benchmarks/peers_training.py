"""Training side by side: the same batches, and as a user would from raw files."""

from __future__ import annotations

import json
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path

import torch
from peers_limits import Sizes
from peers_pool import HERE, Contestant, PeerError, Worker, environment_of, quartiles, say, take_turns
from peers_rows import Limits, Plan, Runs
from peers_work import MODELS, TRAINING_GOAL, USER_GOAL, training

from dragoman.data import TokenStore, plan_epoch
from dragoman.training.precision import choose_precision

# Peers that train as their users do; each takes the same arguments.
SCRIPTS = {"transformers Trainer": "peers_trainer.py", "joeynmt": "peers_joeynmt.py"}


def bench_training(plan: Plan, models: Sequence[str], tokens: int, updates: int) -> None:
    """An update on each of some batches: forward, backward, clipping, Adam; in fresh processes, for their memory."""
    for name in models:
        shape = Sizes.of(MODELS[name])
        limits = Limits.probe(plan, shape)
        batches = training(updates, tokens, MODELS[name]["target_vocab"])
        targets = sum(len(ids) + 1 for batch in batches for ids in batch[1])
        lengths = [[len(ids) + 1 for batch in batches for ids in batch[side]] for side in (0, 1)]
        with plan.attempt(f"training {name}"), tempfile.TemporaryDirectory(dir=plan.folder) as folder:
            with Worker(plan.ours[0], plan.threads) as worker:
                worker.call("make_model", folder, MODELS[name], False)
            contestants = [plan.ours[0], *plan.marian]
            if choose_precision(shape.d_model, torch.device("cpu"))[0] == "bfloat16":
                contestants += [_in_bfloat16(one) for one in contestants]
            with plan.opened(contestants, "prepare_training", folder, batches, 0.1) as workers:
                runs = Runs(workers, plan.clock)
                times = take_turns(runs.times(), budget=plan.budget, fewest=plan.fewest)
                losses = {who: worker.told for who, worker in workers.items()}
            least = shape.update(*lengths) / limits.operations["float32"]
            extra = {
                who: {
                    "first_loss": losses[who],
                    "peak_mib": runs.peaks.get(who),
                    "share_of_float32_limit": least / quartiles(taken, "it")["it"],
                }
                for who, taken in times.items()
            }
            facts = {"model": name, "batch_tokens": tokens, "updates": updates, "goal": TRAINING_GOAL}
            plan.report(
                "peers train", facts, times, [one.name for one in plan.marian], extra, {"target_tokens": targets}
            )


def _in_bfloat16(one: Contestant) -> Contestant:
    """The same with its products in bfloat16, as this toolkit chooses on a processor that is faster at it."""
    return replace(one, name=f"{one.name} bfloat16", options={**one.options, "autocast": True})


def bench_user(plan: Plan, models: Sequence[str], source: Path, target: Path, seconds: float, rounds: int) -> None:
    """Raw files, default batches: target tokens seen a second, in turns of some seconds."""
    for name in models:
        limits = Limits.probe(plan, Sizes.of(MODELS[name]))
        rates: dict[str, list[tuple[float, float]]] = {}
        for turn in range(rounds):
            theirs = [(title, partial(_with_script, script)) for title, script in SCRIPTS.items()]
            commands = [("dragoman", _with_dragoman), *theirs]
            for what, train in commands[turn % len(commands) :] + commands[: turn % len(commands)]:
                say(f"training {name} as a user would: {what}, turn {turn + 1} of {rounds}")
                with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
                    try:
                        rates.setdefault(what, []).append(train(plan, name, (source, target), seconds, folder))
                    except PeerError as error:
                        plan.emit("peers unavailable", {"what": f"{what}, as a user would", "reason": str(error)})
        complete = {what: found for what, found in rates.items() if len(found) == rounds}
        times = {what: [1 / tokens for tokens, _ in found] for what, found in complete.items()}
        done = {what: quartiles([work for _, work in found], "it")["it"] for what, found in complete.items()}
        most = limits.operations["float32"]
        extra = {what: {"share_of_float32_limit": work / most} for what, work in done.items()}
        facts = {"model": name, "seconds_each": seconds, "goal": USER_GOAL}
        plan.report("peers user", facts, times, list(SCRIPTS), extra, {"target_tokens": 1})


def _with_dragoman(
    plan: Plan, model: str, files: tuple[Path, Path], seconds: float, folder: str
) -> tuple[float, float]:  # fmt: skip
    """Target tokens seen a second, and the operations that they and their sources take."""
    shape = MODELS[model]
    own = {key: shape[key] for key in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")}
    settings = {f"model.{key}": value for key, value in own.items()} | {
        "model.tie_embeddings": "all", "tokenizer.joint": "true", "tokenizer.kind": "bpe", "model.dropout": 0.1,
        "tokenizer.vocab_size": shape["target_vocab"], "training.max_minutes": seconds / 60, "training.log_every": 5,
        "training.threads": plan.threads, "training.device": "cpu",
    }  # fmt: skip
    out = Path(folder) / "run"
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    given += ["--source", str(files[0]), "--target", str(files[1]), "--out", str(out), "--quiet"]
    run_command([str(Path(plan.ours[0].python).with_name("dragoman")), "train", *given], plan.threads)
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "train"]
    if len(events) < 2:
        raise PeerError("dragoman made fewer than ten updates: give it more seconds")
    first, *events = events
    tokens = sum(event["target_tokens"] for event in events)
    took = sum(event["target_tokens"] / event["target_tokens_per_second"] for event in events)
    operations = Sizes.of(shape).update(*seen_lengths(out, first["step"], events[-1]["step"]))
    return tokens / took, operations / took


def seen_lengths(run: Path, first: int, last: int) -> tuple[list[int], list[int]]:
    """Tokens of the sources and of the targets in the updates after the first and up to the last.

    Batches are a pure function of lengths and settings.
    """
    store = TokenStore.open(run / "data" / "train")
    settings = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["training"]
    given = {name: settings[name] for name in ("batch_tokens", "seed", "accumulate")}
    plans = (plan_epoch(store.source_lengths, store.target_lengths, **given, epoch=epoch) for epoch in count())
    updates = islice(chain.from_iterable(plans), first, last)
    rows = [row for update in updates for part in update for row in part]
    return (store.source_lengths[rows] + 1).tolist(), (store.target_lengths[rows] + 1).tolist()


def _with_script(
    script: str, plan: Plan, model: str, files: tuple[Path, Path], seconds: float, folder: str
) -> tuple[float, float]:  # fmt: skip
    """The same of a peer, as its script tells it."""
    arguments = [*map(str, files), json.dumps(MODELS[model]), str(seconds), folder, str(plan.threads)]
    told = run_command([plan.marian[0].python, str(HERE / script), *arguments], plan.threads)
    found = json.loads(told.splitlines()[-1])
    return found["target_tokens_per_second"], found["operations_per_second"]


def run_command(command: Sequence[str], threads: int, given: str | None = None) -> str:
    """What a command prints.

    Raises:
        PeerError: it failed; with the last line of its complaint.
    """
    environment = environment_of(threads)
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise PeerError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise PeerError(f"{Path(command[0]).name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout
