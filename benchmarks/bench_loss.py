"""Losses with the generator's product inside against PyTorch's on all logits: time and peak memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from rows import print_row, print_rows, settle
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.losses.loss import smoothed_cross_entropy
from dragoman.losses.r_drop import agreeing_cross_entropy

ROWS, D_MODEL, SMOOTHING, ALPHA = 2048, 256, 0.1, 3.0
VOCABULARIES = (4000, 8000, 32000)
Work = tuple[list[Tensor], nn.Linear, Tensor]
Loss = Callable[[list[Tensor], nn.Linear, Tensor], Tensor]


def inside(hidden: list[Tensor], generator: nn.Linear, labels: Tensor) -> Tensor:
    return smoothed_cross_entropy(hidden[0], generator, labels, SMOOTHING).loss


def whole(hidden: list[Tensor], generator: nn.Linear, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        generator(hidden[0]), labels, ignore_index=0, label_smoothing=SMOOTHING, reduction="sum"
    )  # fmt: skip


def agreeing_inside(hidden: list[Tensor], generator: nn.Linear, labels: Tensor) -> Tensor:
    first, second = hidden
    return agreeing_cross_entropy(first, second, generator, labels, weight=ALPHA, smoothing=SMOOTHING).loss


def agreeing_whole(hidden: list[Tensor], generator: nn.Linear, labels: Tensor) -> Tensor:
    p, q = (generator(one).log_softmax(-1) for one in hidden)
    entropies = [F.cross_entropy(one, labels, label_smoothing=SMOOTHING, reduction="sum") for one in (p, q)]
    divergences = [F.kl_div(b, a, log_target=True, reduction="sum") for a, b in ((p, q), (q, p))]
    return (entropies[0] + entropies[1] + ALPHA / 2 * (divergences[0] + divergences[1])) / 2


LOSSES: dict[str, dict[str, Loss]] = {
    "cross-entropy": {"all logits": whole, "generator inside": inside},
    "R-Drop": {"all logits": agreeing_whole, "generator inside": agreeing_inside},
}


def make_work(vocab: int) -> Work:
    labels, draw = torch.randint(4, vocab, (ROWS,)), (torch.randn(ROWS, D_MODEL) for _ in range(2))
    return [one.requires_grad_() for one in draw], nn.Linear(D_MODEL, vocab, bias=False), labels


def gradients(loss: Loss, hidden: list[Tensor], generator: nn.Linear, labels: Tensor) -> tuple[Tensor, ...]:
    parts = (*hidden, generator.weight)
    return torch.autograd.grad(loss(hidden, generator, labels), parts, materialize_grads=True)


def peak_memory(kind: str, name: str, vocab: int) -> int | None:
    """MiB by which one forward and backward pass raised the memory of this (fresh) process; Linux tells."""
    settle()
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    loss, (hidden, generator, labels) = LOSSES[kind][name], make_work(vocab)
    few = [one[:4].detach().requires_grad_() for one in hidden]
    gradients(loss, few, generator, labels[:4])  # loads what is loaded when first used
    reset.write_text("5")
    before = _field(status, "VmRSS")
    gradients(loss, hidden, generator, labels)
    return round((_field(status, "VmHWM") - before) / 1024)


def _field(status: Path, name: str) -> int:
    """KiB, from a line such as `VmRSS:   123456 kB`."""
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def check_equal(kind: str, vocab: int) -> None:
    work = make_work(vocab)
    for one, other in zip(*(gradients(loss, *work) for loss in LOSSES[kind].values()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def main() -> None:
    settle()
    context = multiprocessing.get_context("spawn")
    for kind, losses in LOSSES.items():
        check_equal(kind, VOCABULARIES[0])
        for vocab in VOCABULARIES:
            facts, work = {"loss": kind, "rows": ROWS, "d_model": D_MODEL, "vocab": vocab}, make_work(vocab)
            runs = {name: lambda loss=loss, work=work: gradients(loss, *work) for name, loss in losses.items()}
            print_rows("loss", facts, runs, budget=6.0, work={"labels": ROWS})
            for name in losses:
                with ProcessPoolExecutor(1, mp_context=context) as fresh:
                    peak = fresh.submit(peak_memory, kind, name, vocab).result()
                print_row("loss memory", {**facts, "what": name, "peak_mib": peak})


if __name__ == "__main__":
    main()
