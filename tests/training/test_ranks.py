"""Several processes train as one does with accumulation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import ModelConfig, TrainConfig, TrainingConfig, write_toml
from dragoman.data import TokenStore
from dragoman.distributed import ALONE, RankError, World, join_world
from dragoman.models import build_model, load_pretrained
from dragoman.runs.checkpoint import list_checkpoints, load_checkpoint
from dragoman.sequences import Direction
from dragoman.training import gradients, train
from dragoman.training.gradients import Gradients
from dragoman.training.step import BatchLoss
from dragoman.training.tasks import Translating
from dragoman.training.trainer import Trainer
from forked import in_ranks
from small_runs import events, small_config, text_config

pytestmark = pytest.mark.arithmetic

# The gradient of a key's bias is nothing but rounding, and Adam would make steps of full size of it.
EVEN = ("training.adam_eps=1e-4",)


def trained(config: TrainConfig, *, resume: bool = False) -> Callable[[], object]:
    return lambda: train(config, quiet=True, resume=resume)


def wait_for_step(run: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has done so many updates."""
    while not (run / "metrics.jsonl").exists() or not any(row["step"] >= step for row in events(run, "train")):
        assert process.poll() is None
        time.sleep(0.05)


def stop_at(run: Path, step: int) -> None:
    """Stop this process, as by SIGSTOP, once a run has done so many updates."""
    while not (run / "metrics.jsonl").exists() or not any(row["step"] >= step for row in events(run, "train")):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGSTOP)


def difference(one: Path, other: Path) -> float:
    first, second = (load_pretrained(path).model.state_dict() for path in (one, other))
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("training.optimizer=muon", "training.ema_decay=0.9", "training.r_drop=1.0"),
        ("model.right_to_left=true",),
    ],
)
def test_two_processes_are_one_with_twice_the_accumulation(tmp_path, settings):
    short = (*EVEN, "training.max_steps=12", "validation.every=6", "training.batch_tokens=256", *settings)
    alone = small_config(tmp_path, "alone", *short, "training.accumulate=2")
    assert in_ranks(2, trained(small_config(tmp_path, "both", *short))) == [0, 0]
    train(alone, quiet=True)
    assert difference(tmp_path / "alone", tmp_path / "both") <= 1e-6
    for name in ("train", "validation"):
        pairs = zip(events(tmp_path / "alone", name), events(tmp_path / "both", name), strict=True)
        for one, other in pairs:
            assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
            assert one.get("target_tokens") == other.get("target_tokens")


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_models_of_one_text_too(tmp_path, family):
    short = (*EVEN, "training.max_steps=8", "validation.every=8")
    assert in_ranks(2, trained(text_config(tmp_path, family, "both", *short))) == [0, 0]
    train(text_config(tmp_path, family, "alone", *short, "training.accumulate=2"), quiet=True)
    assert difference(tmp_path / "alone", tmp_path / "both") <= 1e-6


def test_two_processes_end_and_one_goes_on_to_the_same_weights(tmp_path):
    """Two micro-batches an update stay two."""
    short = (*EVEN, "validation.every=6", "training.batch_tokens=256", "training.max_steps=12")
    train(small_config(tmp_path, "alone", *short, "training.accumulate=2"), quiet=True)
    begun = small_config(tmp_path, "both", *short)
    assert in_ranks(2, lambda: train(begun, quiet=True, on_event=lambda event: event.step >= 6)) == [0, 0]
    assert load_checkpoint(list_checkpoints(tmp_path / "both" / "checkpoints")[-1]).step == 6
    train(begun, quiet=True, resume=True)
    assert difference(tmp_path / "alone", tmp_path / "both") <= 1e-6


class Scarce(BatchLoss):
    """Has too little memory for more than 5 pairs, in the last process of several."""

    def forward(self, batch, *rest):
        if len(batch) > 5 and os.environ.get("RANK", "0") == str(int(os.environ.get("WORLD_SIZE", "1")) - 1):
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(batch, *rest)


def gradients_of_updates(
    store: TokenStore, world: World, r_drop: float = 0.0, dropout: float = 0.0
) -> list[torch.Tensor]:
    """The gradients of updates of 5, 2 and 1 micro-batches, in float64."""
    torch.manual_seed(0)
    model = build_model(ModelConfig(
        source_vocab=20, target_vocab=20, d_model=12, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1,
        dropout=dropout, right_to_left=True,
    )).double()  # fmt: skip
    settings, told = TrainingConfig(label_smoothing=0.1), []
    task = Translating((Direction.LEFT_TO_RIGHT, Direction.RIGHT_TO_LEFT))
    ways = {"autocast": nullcontext, "report": told.append}
    made, found = Gradients(model, task, settings, world, **ways), []
    for update, count in enumerate((5, 2, 1)):
        model.zero_grad(set_to_none=True)
        parts = np.array_split(np.arange(24), count)
        sums = made.add(store, parts, epoch=0, update=update, r_drop=r_drop)
        found.append(torch.tensor([sums.loss, sums.nll, sums.correct, sums.labels, sums.source_tokens]))
        found += [parameter.grad.clone() for parameter in model.parameters()]
    assert bool(told) == issubclass(gradients.BatchLoss, Scarce)
    return found


@pytest.fixture
def store(tmp_path) -> TokenStore:
    draw = np.random.default_rng(0)
    rows = [[draw.integers(4, 20, draw.integers(1, 9)).tolist() for _ in "st"] for _ in range(24)]
    return TokenStore.write(tmp_path / "store", [(s, t) for s, t in rows], vocabulary_size=20)


@pytest.mark.parametrize(("size", "r_drop"), [(2, 0.0), (3, 1.0)])
def test_gradients_are_those_of_one_process_in_float64(store, size, r_drop):
    alone = gradients_of_updates(store, ALONE, r_drop, 0.1)

    def work() -> None:
        world = join_world("cpu", 60.0)
        for one, other in zip(gradients_of_updates(store, world, r_drop, 0.1), alone, strict=True):
            assert float((one - other).abs().max()) <= 1e-12 * max(1.0, float(other.abs().max()))
        world.close()

    assert in_ranks(size, work) == [0] * size


def test_what_does_not_fit_into_memory_is_split_in_step(store, monkeypatch):
    """In one process, then in the last of two: the gradients are those of whole batches."""
    whole = gradients_of_updates(store, ALONE)
    monkeypatch.setattr(gradients, "BatchLoss", Scarce)

    def work() -> None:
        world = join_world("cpu", 60.0)
        for one, other in zip(gradients_of_updates(store, world), whole, strict=True):
            assert float((one - other).abs().max()) <= 1e-12 * max(1.0, float(other.abs().max()))
        world.close()

    work()
    assert in_ranks(2, work) == [0, 0]


def test_a_pair_that_never_fits_is_left_out_and_told(tmp_path, monkeypatch):
    forward = BatchLoss.forward

    def scarce(self, batch, *rest):
        if torch.is_grad_enabled() and batch.labels.shape[1] > 7:
            raise torch.OutOfMemoryError("out of memory")
        return forward(self, batch, *rest)

    monkeypatch.setattr(BatchLoss, "forward", scarce)
    train(small_config(tmp_path, "run", "training.max_steps=8", "validation.every=8"), quiet=True)
    assert "it is left out" in (tmp_path / "run" / "train.log").read_text(encoding="utf-8")


def test_a_refused_run_ends_all_processes(tmp_path):
    broken = small_config(tmp_path, "run", 'data.source=["nowhere.txt"]')
    began = time.monotonic()
    assert in_ranks(2, trained(broken)) == [99, 0]
    assert time.monotonic() - began < 60


def test_a_process_that_hangs_ends_the_others_in_a_message(tmp_path):
    config = small_config(tmp_path, "run", "training.rank_timeout=15.0", "training.max_steps=100000")

    def work() -> None:
        if os.environ["RANK"] == "0":
            try:
                with pytest.raises(RankError, match="did not answer for 15 seconds"):
                    train(config, quiet=True)
            finally:
                os.kill(int((tmp_path / "follower").read_text()), signal.SIGKILL)
            return
        (tmp_path / "follower").write_text(str(os.getpid()))
        threading.Thread(target=stop_at, args=(tmp_path / "run", 5), daemon=True).start()
        train(config, quiet=True)

    assert in_ranks(2, work) == [0, -signal.SIGKILL]


def test_torchrun_starts_again_after_a_process_has_died(tmp_path):
    steps = (*EVEN, "training.max_steps=60", "validation.every=20", "training.batch_tokens=256")
    config = small_config(tmp_path, "run", *steps)
    train(small_config(tmp_path, "alone", *steps, "training.accumulate=2"), quiet=True)
    write_toml(config, tmp_path / "run.toml")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2", "-m", "dragoman"]
    command = [sys.executable, "-m", *launcher, "train", "--config", str(tmp_path / "run.toml"), "--out"]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen([*command, str(tmp_path / "run")], stderr=errors)
        wait_for_step(tmp_path / "run", 25, process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        assert process.wait(150) == 0
    told = (tmp_path / "errors").read_text(encoding="utf-8")
    assert "another process of this training" in told
    assert "Traceback" not in told
    assert difference(tmp_path / "alone", tmp_path / "run") <= 1e-6


def test_all_processes_learn_from_what_the_first_one_draws(tmp_path, monkeypatch):
    """In memory, and where the corpus is in shards: SentencePiece draws other pieces in each process."""
    for name, more in (("memory", ()), ("shards", ("data.shard_pairs=100",))):
        settings = ("tokenizer.kind=bpe", "tokenizer.vocab_size=300", "training.bpe_dropout=0.3", *more)
        config = small_config(tmp_path, name, *settings, "training.max_steps=20", "training.batch_tokens=512")
        learn = Trainer.learn

        def look(self, micro_batches, learn=learn):
            store = self.stores.of(self.progress.epoch)
            rows = [store.source(int(row)).tolist() for batch in micro_batches for row in batch]
            with (tmp_path / f"seen-{os.environ['RANK']}").open("a") as seen:
                print(self.progress.epoch, rows, file=seen)
            learn(self, micro_batches)

        monkeypatch.setattr(Trainer, "learn", look)
        assert in_ranks(2, trained(config)) == [0, 0]
        monkeypatch.setattr(Trainer, "learn", learn)
        first, other = ((tmp_path / f"seen-{rank}").read_text() for rank in range(2))
        assert first == other
        assert not (tmp_path / name / "epochs").exists()
        assert {line.split()[0] for line in first.splitlines()} > {"0", "1"}
