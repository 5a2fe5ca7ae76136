"""What the update of the weights takes, and what the C library's allocator costs a training step.

Adam three ways on the same weights and gradients: fused (as `train` runs it), over lists of tensors, one tensor after
the other; and Muon with products in either precision. And training steps in processes of their own, in turns, with and
without memory that is kept from step to step (`keep_memory`, which `train` calls; glibc only).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from bench_training import BATCH_TOKENS, our_model, our_step, turn
from peers_work import MODELS
from rows import Run, print_row, print_rows, settle
from workload import training_batches

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.fast import keep_memory
from dragoman.models import build_model
from dragoman.optimizers.optimizer import make_optimizer

# Whether it is fused, and whether it works on lists of tensors.
ADAM = {"fused": (True, False), "lists of tensors": (False, True), "one by one": (False, False)}
MUON = {"Muon": "float32", "Muon, bfloat16": "bfloat16"}
MEMORY = {"given back": "no", "kept": "yes"}
ROUNDS, STEPS = 7, 12


def model_of(sizes: dict[str, Any]) -> torch.nn.Module:
    """A model with gradients of chance."""
    model = build_model(ModelConfig().replace(sizes))
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    return model


def adam(sizes: dict[str, Any], fused: bool, foreach: bool) -> Run:
    """An update of a model's weights by Adam."""
    return torch.optim.Adam(model_of(sizes).parameters(), lr=1e-4, fused=fused, foreach=foreach).step


def muon(sizes: dict[str, Any], precision: str) -> Run:
    """An update of a model's weights as `train` runs Muon."""
    config = TrainingConfig().replace({"optimizer": "muon", "precision": precision})
    return make_optimizer(model_of(sizes), config).step


def median_step() -> float:
    """Seconds of a training step of the tiny model, in this process."""
    step, times = our_step(our_model(0.1), turn(training_batches(16, BATCH_TOKENS))), []
    for _ in range(4):
        step()
    for _ in range(STEPS):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return statistics.median(times)


def memory() -> None:
    """Rows of the same steps, with memory kept from step to step and without."""
    times: dict[str, list[float]] = {name: [] for name in MEMORY}
    for count in range(ROUNDS):
        for name in list(MEMORY)[:: 1 if count % 2 else -1]:
            command = [sys.executable, __file__, MEMORY[name]]
            times[name].append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    for name, found in times.items():
        ratios = [one / other for one, other in zip(found, times["given back"], strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
        facts = {"what": name, "seconds": statistics.median(found), "rounds": ROUNDS, "clock": "processor"}
        print_row("memory of a training step", {**facts, "ratio": ratio, "ratio_1": low, "ratio_3": high})


def main() -> None:
    settle()
    if sys.argv[1:]:
        if sys.argv[1] == "yes" and not keep_memory():
            raise SystemExit("the C library has no such settings")
        print(median_step())
        return
    for model, sizes in MODELS.items():
        ways = {name: adam(sizes, *way) for name, way in ADAM.items()}
        ways |= {name: muon(sizes, precision) for name, precision in MUON.items()}
        print_rows("update", {"model": model}, ways, budget=10.0)
    memory()


if __name__ == "__main__":
    main()
