"""The loss with the generator's product inside against `F.cross_entropy` on all logits: time and peak memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from rows import print_row, print_rows, settle
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.training.loss import smoothed_cross_entropy

ROWS, D_MODEL, SMOOTHING = 2048, 256, 0.1
VOCABULARIES = (4000, 8000, 32000)


def inside(hidden: Tensor, generator: nn.Linear, labels: Tensor) -> Tensor:
    return smoothed_cross_entropy(hidden, generator, labels, SMOOTHING).loss


def whole(hidden: Tensor, generator: nn.Linear, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        generator(hidden), labels, ignore_index=0, label_smoothing=SMOOTHING, reduction="sum"
    )  # fmt: skip


LOSSES: dict[str, Callable[[Tensor, nn.Linear, Tensor], Tensor]] = {"all logits": whole, "generator inside": inside}


def make_work(vocab: int) -> tuple[Tensor, nn.Linear, Tensor]:
    labels = torch.randint(4, vocab, (ROWS,))
    return torch.randn(ROWS, D_MODEL).requires_grad_(), nn.Linear(D_MODEL, vocab, bias=False), labels


def gradients(name: str, hidden: Tensor, generator: nn.Linear, labels: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(LOSSES[name](hidden, generator, labels), (hidden, generator.weight))


def peak_memory(name: str, vocab: int) -> int | None:
    """MiB by which one forward and backward pass raised the memory of this (fresh) process; Linux tells."""
    settle()
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    work = make_work(vocab)
    gradients(name, work[0][:4].detach().requires_grad_(), work[1], work[2][:4])  # loads what is loaded when first used
    reset.write_text("5")
    before = _field(status, "VmRSS")
    gradients(name, *work)
    return round((_field(status, "VmHWM") - before) / 1024)


def _field(status: Path, name: str) -> int:
    """KiB, from a line such as `VmRSS:   123456 kB`."""
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def check_equal(vocab: int) -> None:
    work = make_work(vocab)
    for one, other in zip(*(gradients(name, *work) for name in LOSSES), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def main() -> None:
    settle()
    context = multiprocessing.get_context("spawn")
    check_equal(VOCABULARIES[0])
    for vocab in VOCABULARIES:
        facts, work = {"rows": ROWS, "d_model": D_MODEL, "vocab": vocab}, make_work(vocab)
        runs = {name: lambda name=name, work=work: gradients(name, *work) for name in LOSSES}
        print_rows("loss", facts, runs, budget=6.0, work={"labels": ROWS})
        for name in LOSSES:
            with ProcessPoolExecutor(1, mp_context=context) as fresh:
                peak = fresh.submit(peak_memory, name, vocab).result()
            print_row("loss memory", {**facts, "what": name, "peak_mib": peak})


if __name__ == "__main__":
    main()
