"""What is prepared for a GPU runs without one, and counts bytes and operations as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import TrainingConfig
from dragoman.models import build_model
from dragoman.optimizers import make_optimizer

ROOT = Path(__file__).parents[2]
GPU = ROOT / "benchmarks" / "gpu"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GPU))


def test_everything_is_measured_in_small_on_a_processor() -> None:
    command = [sys.executable, str(GPU / "measure.py"), "--device", "cpu", "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    [training] = [row for row in rows if row["benchmark"] == "gpu training"]
    assert training["target_tokens_per_second"] > 0
    assert 0 < training["mfu"] < 1
    ours = {(row["batch"], row["beam_size"]) for row in rows if row.get("what") == "dragoman"}
    assert ours == {(1, 1), (1, 4), (4, 1), (4, 4)}
    assert not any(row["benchmark"] == "gpu left out" for row in rows)


def test_what_takes_too_long_is_left_out() -> None:
    command = [sys.executable, str(GPU / "measure.py"), "--device", "cpu", "--tiny", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {json.loads(line)["benchmark"] for line in done.stdout.splitlines()} == {"gpu left out"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_of_memory_on_the_page_is_the_one_that_is_printed(language: str) -> None:
    import gpu_memory

    page = (ROOT / "docs" / language / "many.md").read_text(encoding="utf-8")
    assert "~~~text\n" + "\n".join(gpu_memory.report()) + "\n~~~" in page


def test_what_layers_keep_grows_with_their_width() -> None:
    import gpu_memory

    few, more = (gpu_memory._kept(gpu_memory.config(256, 4, 1024, layers, layers, vocab=8)) for layers in (1, 2))
    tokens = gpu_memory.LENGTH * gpu_memory.SENTENCES
    assert (more - few) / tokens == pytest.approx(gpu_memory.kept_by_layers(256), rel=0.02)


def test_fixed_bytes_are_those_of_weights_gradients_and_moments() -> None:
    import gpu_memory

    model = build_model(gpu_memory.config(64, 4, 96, 2, 2, vocab=50))
    count = gpu_memory.parameters(64, 96, 2, vocab=50)
    assert count == sum(one.numel() for one in model.parameters())
    optimizer = make_optimizer(model, TrainingConfig())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert gpu_memory.state_bytes(model, optimizer) == count * gpu_memory.ADAM


def test_operations_are_those_that_pytorch_counts() -> None:
    import gpu_memory
    import gpu_training
    from torch.utils.flop_counter import FlopCounterMode

    config = gpu_training.model_config("tiny")
    model = build_model(config.replace({"dropout": 0.0}))
    ids = torch.full((3, 20), 5)
    with FlopCounterMode(display=False) as counted:
        model(ids, ids)
    lengths = np.full(3, 20)
    # PyTorch counts what a mask hides: half of the decoder's attention to itself.
    hidden = 2 * 2 * 64 * 2 * 3 * 20**2 / 2
    assert 3 * (counted.get_total_flops() - hidden) == pytest.approx(gpu_training.operations(config, lengths, lengths))
    assert gpu_memory.parameters(512, 2048, 6) == 60_524_544
