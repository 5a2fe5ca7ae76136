"""Our dropout against PyTorch's, per element."""

from __future__ import annotations

from collections.abc import Callable

import torch
from rows import print_rows, settle
from torch import Tensor
from torch.nn import functional as F

from dragoman.nn.dropout import dropout

# Where training drops: a sub-layer's output, the inner activations, the attention weights.
SHAPES = ((2048, 256), (2048, 1024), (113, 4, 18, 18), (28, 8, 72, 72))
P = 0.1


def forward_backward(drop: Callable[[Tensor, float], Tensor], x: Tensor, ones: Tensor) -> None:
    torch.autograd.grad(drop(x, P), x, ones)


def main() -> None:
    settle()
    for shape in SHAPES:
        x, ones = torch.randn(shape).requires_grad_(), torch.ones(shape)
        passes = {
            "forward": {
                "torch": lambda x=x: F.dropout(x, P),
                "dragoman": lambda x=x: dropout(x, P),
            },
            "forward and backward": {
                "torch": lambda x=x, ones=ones: forward_backward(F.dropout, x, ones),
                "dragoman": lambda x=x, ones=ones: forward_backward(dropout, x, ones),
            },
        }
        for name, runs in passes.items():
            print_rows("dropout", {"pass": name, "shape": shape}, runs, budget=3.0, work={"elements": x.numel()})


if __name__ == "__main__":
    main()
