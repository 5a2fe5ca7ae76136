"""Training side by side: the same batches, and as a user would from raw files.

A target counts once, however often it is learned from: in both directions, as the default run does, it is twice.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import torch
from peers_agree import CLOSE
from peers_limits import Sizes
from peers_pool import HERE, Contestant, PeerError, UnequalError, Worker, environment_of, quartiles, say, take_turns
from peers_rows import Limits, Plan, Runs
from peers_work import MODELS, TRAINING_GOAL, USER_GOAL, training

from dragoman.data import TokenStore, plan_epoch
from dragoman.training.precision import choose_precision

# Peers that train as their users do; each takes the same arguments.
SCRIPTS = {"transformers Trainer": "peers_trainer.py", "joeynmt": "peers_joeynmt.py"}
# The run as it comes, which learns text of little data in both directions, and what everyone else does.
OURS: dict[str, dict[str, Any]] = {"dragoman": {}, "dragoman, one direction": {"model.right_to_left": "false"}}


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
            contestants = [plan.ours[0], *plan.marian, *map(_keeping_memory, plan.marian)]
            if choose_precision(shape.d_model, torch.device("cpu"))[0] == "bfloat16":
                contestants += [_in_bfloat16(one) for one in contestants]
            with plan.opened(contestants, "prepare_training", folder, batches, 0.1) as workers:
                losses: dict[str, Any] = {who: worker.told for who, worker in workers.items()}
                _check_losses(f"training {name}", losses)
                runs = Runs(workers, plan.clock)
                times = take_turns(runs.times(), budget=plan.budget, fewest=plan.fewest)
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
            yardsticks = [one.name for one in contestants if not one.ours and not one.options.get("autocast")]
            plan.report("peers train", facts, times, yardsticks, extra, {"target_tokens": targets})


def _check_losses(what: str, losses: Mapping[str, float]) -> None:
    """Whether everyone starts from the same loss.

    Raises:
        UnequalError: they do not.
    """
    first, *others = losses
    for name in others:
        if not abs(losses[name] - losses[first]) <= CLOSE * abs(losses[first]):
            raise UnequalError(f"{what}: the loss of {name} is {losses[name]:.6g}, of {first} {losses[first]:.6g}")


def _keeping_memory(one: Contestant) -> Contestant:
    """The same where the C library keeps what is freed, as this toolkit lets it."""
    kept = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_TOP_PAD_": str(64 << 20)}
    return replace(one, name=f"{one.name}, memory kept", options={**one.options, "environment": kept})


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
            ours = [(title, partial(_with_dragoman, settings)) for title, settings in OURS.items()]
            commands = [*ours, *theirs]
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
    more: Mapping[str, Any], plan: Plan, model: str, files: tuple[Path, Path], seconds: float, folder: str
) -> tuple[float, float]:  # fmt: skip
    """Target tokens seen a second, and the operations that they and their sources take.

    The run is stopped after its seconds, as its user might: one that is told when to end is given other settings.
    """
    shape = MODELS[model]
    own = {key: shape[key] for key in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")}
    settings = {f"model.{key}": value for key, value in own.items()} | {
        "model.tie_embeddings": "all", "tokenizer.joint": "true", "tokenizer.kind": "bpe", "model.dropout": 0.1,
        "tokenizer.vocab_size": shape["target_vocab"], "training.log_every": 5,
        "training.threads": plan.threads, "training.device": "cpu", **more,
    }  # fmt: skip
    out = Path(folder) / "run"
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    given += ["--source", str(files[0]), "--target", str(files[1]), "--out", str(out), "--quiet"]
    command = [str(Path(plan.ours[0].python).with_name("dragoman")), "train", *given]
    _train_for(command, out / "metrics.jsonl", seconds, plan.threads)
    return seen_rate(out, Sizes.of(shape))


def seen_rate(run: Path, shape: Sizes) -> tuple[float, float]:
    """Target tokens that a run saw a second after the first it tells of, each once; and the operations they take."""
    events = _train_events(run / "metrics.jsonl")
    if len(events) < 2:
        raise PeerError("dragoman made fewer than ten updates: give it more seconds")
    first, *events = events
    took = sum(event["target_tokens"] / event["target_tokens_per_second"] for event in events)
    sources, targets = seen_lengths(run, first["step"], events[-1]["step"])
    config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["model"]
    directions = 2 if config.get("right_to_left") else 1
    return sum(targets) / took, shape.update(sources, targets, directions=directions) / took


def _train_events(log: Path) -> list[dict[str, Any]]:
    """What a run told of its training so far; a line that is not whole yet is left out."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in events if event["event"] == "train"]


def _train_for(command: Sequence[str], log: Path, seconds: float, threads: int) -> None:
    """Let a run go on until its log tells of so many seconds after the first.

    Raises:
        PeerError: it failed before.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        run = subprocess.Popen(command, env=environment_of(threads), stdout=subprocess.DEVNULL, stderr=told)
        try:
            while run.poll() is None:
                events = _train_events(log)
                if events and events[-1]["seconds"] - events[0]["seconds"] >= seconds:
                    break
                time.sleep(0.1)
            else:
                told.seek(0)
                if run.returncode:
                    raise PeerError(f"dragoman train: {(told.read().strip().splitlines() or ['no word'])[-1]}")
        finally:
            run.kill()
            run.wait()


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
