"""Several processes that each keep a part of every tensor train as one does with accumulation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp  # here, not in each child
from test_ranks import EVEN, difference, store, trained, wait_for_step

from dragoman.config import ModelConfig, TrainConfig, TrainingConfig, make_config, write_toml
from dragoman.data import TokenStore
from dragoman.distributed import ALONE, World, join_world
from dragoman.distributed.sharding import clip_gradients, whole
from dragoman.errors import ConfigError, ModelError
from dragoman.models import build_model, load_pretrained
from dragoman.optimizers import make_optimizer
from dragoman.runs.checkpoint import list_checkpoints, load_checkpoint
from dragoman.sequences import Direction
from dragoman.training import gradients, train
from dragoman.training.gradients import Gradients
from dragoman.training.step import BatchLoss
from dragoman.training.tasks import Translating
from forked import in_ranks
from small_runs import events, small_config

pytestmark = pytest.mark.arithmetic
__all__ = ["store"]
SHARDED = "training.sharding=full"


def updates(store: TokenStore, world: World, **settings: object) -> list[torch.Tensor]:
    """Gradients, norm and weights of updates of 5, 2 and 1 micro-batches, in float64, whole."""
    torch.manual_seed(0)
    model = build_model(ModelConfig(
        source_vocab=21, target_vocab=21, d_model=12, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=2,
        dropout=0.1, right_to_left=True, tie_embeddings="all", right_to_left_decoder=settings.pop("decoder"),
    )).double()  # fmt: skip
    model.encoder.layers[0].feed_forward.inner.weight.requires_grad_(False)
    config = TrainingConfig(label_smoothing=0.1, **settings)
    task = Translating((Direction.LEFT_TO_RIGHT, Direction.RIGHT_TO_LEFT))
    sharded = world.size > 1
    made = Gradients(model, task, config, world, autocast=nullcontext, report=print, sharded=sharded)
    made.prepare()
    if sharded:
        kept = sum(one.to_local().numel() for one in model.parameters())
        assert kept <= 1.2 / world.size * sum(one.numel() for one in model.parameters())
    optimizer, found = make_optimizer(model, config), []
    optimizer._factors = torch.float64  # of Muon's products
    for group in optimizer.param_groups:
        group["lr"] = 1e-2
    for update, count in enumerate((5, 2, 1)):
        optimizer.zero_grad()
        sums = made.add(store, np.array_split(np.arange(24), count), epoch=0, update=update, r_drop=config.r_drop)
        norm = clip_gradients(model.parameters(), 0.1)
        found.append(torch.tensor([sums.loss, sums.nll, sums.correct, sums.labels, sums.source_tokens, norm]))
        found += [whole(one.grad).clone() for one in model.parameters() if one.grad is not None]
        optimizer.step()
        found += [whole(one.detach()).clone() for one in model.parameters()]
    return found


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        (2, {"optimizer": "adam", "adam_eps": 1e-3, "decoder": "shared"}),
        (3, {"optimizer": "muon", "adam_eps": 1e-3, "weight_decay": 0.1, "r_drop": 1.0, "decoder": "own"}),
    ],
)
def test_updates_are_those_of_one_process_in_float64(store, size, settings):
    """Adam's, Muon's, of both directions, R-Drop, with dropout, tied and frozen weights."""
    alone = updates(store, ALONE, **settings)

    def work() -> None:
        world = join_world("cpu", 60.0)
        for one, other in zip(updates(store, world, **settings), alone, strict=True):
            assert float((one - other).abs().max()) <= 1e-12 * max(1.0, float(other.abs().max()))
        world.close()

    assert in_ranks(size, work) == [0] * size


MODERN = ("training.optimizer=muon", "training.ema_decay=0.9", "training.r_drop=1.0")
SHORT = (*EVEN, "validation.every=4", "training.batch_tokens=256", "training.max_steps=8")


def test_a_sharded_run_is_one_with_twice_the_accumulation(tmp_path):
    settings = (*SHORT, *MODERN, "model.right_to_left=true")
    assert in_ranks(2, trained(small_config(tmp_path, "both", *settings, SHARDED))) == [0, 0]
    train(small_config(tmp_path, "alone", *settings, "training.accumulate=2"), quiet=True)
    assert difference(tmp_path / "alone", tmp_path / "both") <= 1e-6
    for name in ("train", "validation"):
        for one, other in zip(events(tmp_path / "alone", name), events(tmp_path / "both", name), strict=True):
            assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
    ends = [load_checkpoint(list_checkpoints(tmp_path / run / "checkpoints")[-1]) for run in ("alone", "both")]
    assert [one.manifest.in_parts for one in ends] == [False, True]
    for stem, group in ends[0].tensors.items():
        assert group.keys() == ends[1].tensors[stem].keys()
        for name, tensor in group.items():
            assert float((tensor - ends[1].tensors[stem][name]).abs().max()) <= 1e-5, (stem, name)
    assert load_checkpoint(ends[1].path, ["average"]).tensors.keys() == {"average"}
    refuses_damage(ends[1].path)


def refuses_damage(checkpoint: Path) -> None:
    (checkpoint / "shard-99999-more.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="does not list"):
        load_checkpoint(checkpoint)
    (checkpoint / "shard-99999-more.safetensors").unlink()
    sorted(checkpoint.glob("shard-*"))[1].unlink()
    with pytest.raises(ModelError, match="shard-00002"):
        load_checkpoint(checkpoint)


def stopped(config: TrainConfig, *, resume: bool = False) -> None:
    train(config, quiet=True, resume=resume, on_event=lambda event: event.step >= 4)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, before, after):
    train(small_config(tmp_path, "alone", *SHORT, *MODERN, "training.accumulate=2"), quiet=True)
    each = "training.accumulate=1" if before == 2 else "training.accumulate=2"
    begun = small_config(tmp_path, "both", *SHORT, *MODERN, SHARDED, each)
    if before == 1:
        stopped(begun)
    else:
        assert in_ranks(before, lambda: stopped(begun)) == [0] * before
    newest = load_checkpoint(list_checkpoints(tmp_path / "both" / "checkpoints")[-1])
    assert (newest.step, newest.manifest.in_parts) == (4, before > 1)
    if after == 1:
        train(begun, quiet=True, resume=True)
    else:
        assert in_ranks(after, trained(begun, resume=True)) == [0] * after
    assert difference(tmp_path / "alone", tmp_path / "both") <= 1e-6


def test_a_killed_process_of_a_sharded_run_is_started_again(tmp_path):
    steps = (
        *EVEN,
        "training.max_steps=24",
        "validation.every=6",
        "training.batch_tokens=256",
        "training.ema_decay=0.9",
    )
    config = small_config(tmp_path, "run", *steps, SHARDED)
    train(small_config(tmp_path, "alone", *steps, "training.accumulate=2"), quiet=True)
    write_toml(config, tmp_path / "run.toml")
    command = [sys.executable, "-m", "dragoman", "train", "--devices", "2", "--config", str(tmp_path / "run.toml")]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=errors)
        wait_for_step(tmp_path / "run", 9, process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        assert process.wait(150) == 0
    assert "Traceback" not in (tmp_path / "errors").read_text(encoding="utf-8")
    assert difference(tmp_path / "alone", tmp_path / "run") <= 1e-6
    assert load_pretrained(tmp_path / "run").model.training is False


class Scarce(BatchLoss):
    def forward(self, *given):
        raise torch.OutOfMemoryError("out of memory")


def test_what_does_not_fit_is_told_not_split(tmp_path, monkeypatch):
    monkeypatch.setattr(gradients, "BatchLoss", Scarce)
    config = small_config(tmp_path, "run", *SHORT, SHARDED)

    def work() -> None:
        with pytest.raises(ConfigError, match="too little memory") as error:
            train(config, quiet=True)
        assert "training.batch_tokens" in str(error.value)

    assert in_ranks(2, work) == [0, 0]


@pytest.mark.parametrize(
    ("setting", "told"),
    [({"lora_rank": 4}, "adapters"), ({"compile": True}, "compile = false"), ({"average_last": 3}, "dragoman average")],
)
def test_what_cannot_be_had_with_parts_is_refused_by_name(setting, told):
    with pytest.raises(ConfigError, match=told):
        make_config({"out": "run", "training": {"sharding": "full", **setting}})
