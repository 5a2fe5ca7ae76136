"""What a layer costs by the textbook, by its multiplications, and where measured costs cross."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

KERNEL = 3
ATTENTION, RECURRENT, CONVOLUTION = "self-attention", "recurrent (GRU)", "convolution"
# What the textbook counts: scores, softmax and weighted sum, without the projections to and from them.
BARE = "attention alone"
ATTENTIONS, OTHERS = (ATTENTION, BARE), (RECURRENT, CONVOLUTION)
LAYERS = (*ATTENTIONS, *OTHERS)
# Square matrices that each position is multiplied with.
MATRICES = {ATTENTION: 4, BARE: 0, RECURRENT: 6, CONVOLUTION: KERNEL}
# Complexity per layer, sequential operations, maximum path length (paper section 4, table 1); k is the kernel's width.
TEXTBOOK = {
    ATTENTION: ("O(n²·d)", "O(1)", "O(1)"),
    RECURRENT: ("O(n·d²)", "O(n)", "O(n)"),
    CONVOLUTION: ("O(k·n·d²)", "O(1)", "O(log_k n)"),
}
Row = Mapping[str, object]


@dataclass(frozen=True)
class Cost:
    """The cost of one layer for one sequence of n positions and width d.

    Attributes:
        operations: the textbook's complexity without its O, which leaves out every constant and the projections.
        multiply_adds: all that a forward pass multiplies and adds in matrix products, projections included.
        sequential: steps that have to wait for each other.
        path: layers or steps a signal passes between the two most distant positions; for convolutions, a stack whose
            dilation grows by the width of the kernel.
    """

    operations: int
    multiply_adds: int
    sequential: int
    path: int


def cost(layer: str, n: int, d: int) -> Cost:
    """What one sequence of n positions and width d costs a layer."""
    products = MATRICES[layer] * n * d * d
    if layer in ATTENTIONS:
        return Cost(n * n * d, products + 2 * n * n * d, 1, 1)
    if layer == RECURRENT:
        return Cost(n * d * d, products, n, n)
    return Cost(KERNEL * n * d * d, products, 1, _stacked(n))


def predicted(attention: str, other: str, d: int) -> tuple[int, float | None]:
    """The n at which both cost the same: by the textbook, and by multiplications.

    None: attention multiplies more at every n, for its projections alone have more weights than the other layer.
    """
    textbook = d if other == RECURRENT else KERNEL * d  # n²d = nd², n²d = k·nd²
    multiply_adds = (MATRICES[other] - MATRICES[attention]) * d / 2  # m·nd² + 2n²d = m'·nd²
    return textbook, multiply_adds if multiply_adds > 0 else None


def crossover(lengths: Sequence[int], ratios: Sequence[float]) -> float:
    """The n from which on attention is dearer, read off between the lengths on logarithmic scales.

    Args:
        lengths: rising.
        ratios: time of attention divided by that of the other layer, for each length.

    Returns:
        0 if it is dearer at every length, infinity if it is not even at the last.
    """
    last = max((index for index, ratio in enumerate(ratios) if ratio < 1), default=-1)
    if last < 0:
        return 0.0
    if last == len(lengths) - 1:
        return math.inf
    low, high = math.log(ratios[last]), math.log(ratios[last + 1])
    share = low / (low - high)
    return math.exp((1 - share) * math.log(lengths[last]) + share * math.log(lengths[last + 1]))


def crossovers(rows: Iterable[Row]) -> list[dict[str, object]]:
    """For each setting, width and pair of layers: where measured times cross, beside where they should.

    The interval is between the crossings of one's upper with the other's lower quartiles. A crossing outside of the
    lengths measured is None, and `seen` says on which side: `below` the first or `above` the last.
    """
    sizes: dict[tuple[object, ...], dict[object, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: number(row["length"])):
        setting = (row["threads"], row["pass"], row["d_model"])
        sizes.setdefault(setting, {}).setdefault(row["what"], []).append(row)
    return [
        {"threads": threads, "pass": direction, "d_model": d, "what": attention, "against": other}
        | _crossing(layers[attention], layers[other])
        | dict(zip(("textbook", "multiply_adds"), predicted(attention, other, int(number(d))), strict=True))
        for (threads, direction, d), layers in sizes.items()
        for attention in ATTENTIONS
        for other in OTHERS
    ]


def _crossing(attention: Sequence[Row], other: Sequence[Row]) -> dict[str, object]:
    lengths = [int(number(row["length"])) for row in attention]

    def at(ours: str, theirs: str) -> float:
        ratios = [number(a[ours]) / number(b[theirs]) for a, b in zip(attention, other, strict=True)]
        return crossover(lengths, ratios)

    middle = at("seconds", "seconds")
    low, high = at("quartile_3", "quartile_1"), at("quartile_1", "quartile_3")
    seen = "below" if middle == 0 else "above" if middle == math.inf else "between"
    measured = {"crossover": _finite(middle), "crossover_1": _finite(low), "crossover_3": _finite(high)}
    return {"shortest": lengths[0], "longest": lengths[-1], "seen": seen, **measured}


def number(value: object) -> float:
    """A number of a row."""
    assert isinstance(value, (int, float))
    return value


def _finite(value: float) -> float | None:
    return value if 0 < value < math.inf else None


def _stacked(n: int) -> int:
    """Layers until one position has seen all n, counted in integers: the least m with `KERNEL` ** m >= n."""
    layers, reach = 0, 1
    while reach < n:
        layers, reach = layers + 1, reach * KERNEL
    return max(1, layers)
