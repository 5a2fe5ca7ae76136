"""What attention costs: self-attention, recurrent and convolution layers over length and width.

Rows go to standard output as JSON, tables that people can read to standard error. Two minutes as it is;
`--picture FILE` draws it, `--rows FILE` shows rows of an earlier run instead of measuring.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from layer_costs import ATTENTION, BARE, CONVOLUTION, KERNEL, LAYERS, RECURRENT, Row, cost, crossovers
from layer_costs_table import print_tables
from rows import compare, machine, print_row, settle
from torch import Tensor, nn

from dragoman.nn import MultiHeadAttention, scaled_dot_product_attention

LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512)
BATCH, D_K, BUDGET = 8, 64, 0.5
Apply = Callable[[Tensor], Tensor]


class BareAttention(nn.Module):
    """Each head attends with its columns of the input as queries, keys and values."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        split = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return scaled_dot_product_attention(split, split, split).transpose(1, 2).flatten(2)


def layers(d: int) -> dict[str, nn.Module]:
    """One of each, all from d to d columns; attention has heads of 64."""
    heads = max(1, d // D_K)
    return {
        ATTENTION: MultiHeadAttention(d, heads),
        BARE: BareAttention(heads),
        RECURRENT: nn.GRU(d, d, batch_first=True),
        CONVOLUTION: nn.Conv1d(d, d, KERNEL, padding="same"),
    }


def inputs(layer: str, batch: int, n: int, d: int) -> Tensor:
    """Random vectors `[batch, n, d]`; a convolution takes `[batch, d, n]`."""
    return torch.randn(batch, d, n) if layer == CONVOLUTION else torch.randn(batch, n, d)


def forward(module: nn.Module) -> Apply:
    @torch.no_grad()
    def apply(x: Tensor) -> Tensor:
        return _output(module, x)

    return apply


def forward_backward(module: nn.Module) -> Apply:
    """The gradient of the input, those of all weights made too."""

    def apply(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        output = _output(module, x)
        return torch.autograd.grad(output, [x, *module.parameters()], torch.ones_like(output))[0]

    return apply


def _output(module: nn.Module, x: Tensor) -> Tensor:
    output = module(x)
    return output[0] if isinstance(output, tuple) else output


PASSES = {"forward": forward, "forward and backward": forward_backward}


def measure(lengths: Sequence[int], widths: Sequence[int], batch: int, direction: str, budget: float) -> Iterator[Row]:
    """Rows of all sizes, printed as they are made; the layers of one size take turns."""
    clock = "processor" if torch.get_num_threads() == 1 else "wall"
    for d in widths:
        calls = {layer: PASSES[direction](module) for layer, module in layers(d).items()}
        for n in lengths:
            xs = {layer: inputs(layer, batch, n, d) for layer in LAYERS}
            runs = {layer: lambda call=calls[layer], x=xs[layer]: call(x) for layer in LAYERS}
            for layer, timing in compare(runs, budget=budget).items():
                facts = {"what": layer, "pass": direction, "batch": batch, "length": n, "d_model": d, "clock": clock}
                values = {**facts, **vars(cost(layer, n, d)), **timing}
                print_row("layer costs", values)
                yield {"benchmark": "layer costs", **values, **machine()}


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """Rows of earlier runs."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in map(json.loads, lines) if row["benchmark"] == "layer costs"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--threads", type=int, nargs="+", default=[int(os.environ.get("OMP_NUM_THREADS", "1"))])
    parser.add_argument("--backward", action="store_true", help="forward and backward instead of forward")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds for each size")
    parser.add_argument("--rows", type=Path, nargs="+", default=[], help="show these rows instead of measuring")
    parser.add_argument("--picture", type=Path, help="PNG or SVG to write (needs matplotlib)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    settle()
    rows = read_rows(options.rows)
    for threads in () if rows else options.threads:
        torch.set_num_threads(threads)
        direction = "forward and backward" if options.backward else "forward"
        made = list(measure(sorted(options.lengths), options.widths, options.batch, direction, options.budget))
        for row in crossovers(made):
            print_row("layer costs crossover", row)
        rows += made
    found = crossovers(rows)
    print_tables(rows, found)
    if options.picture:
        from layer_costs_picture import draw

        draw(rows, found, options.picture)


if __name__ == "__main__":
    main()
