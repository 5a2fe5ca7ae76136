"""Whether systems compute the same, before anyone is timed: a table of those that do not would say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peers_pool import PeerError, UnequalError, Worker

# Log-probabilities of a token, in float32: other orders of summation part them by about 1e-5.
CLOSE = 1e-3
# Share of outputs: some have two candidates that are as likely as float32 can tell.
ALIKE = 0.9
LINES = 16

Ids = Sequence[Sequence[int]]


def check_scores(what: str, workers: Mapping[str, Worker], method: str, sources: Sequence[Any], targets: Any) -> None:
    """Let everyone in float32 tell the log-probability of each token of the same outputs, and compare.

    Args:
        what: is measured, for the message.
        workers: everyone, by name; those of other precisions are not asked.
        method: `scores` of ids, or `score_texts` of strings.
        sources: what is read; the first `LINES` of them are.
        targets: an output of each.

    Raises:
        UnequalError: they differ, or fewer than two could tell.
    """
    found: dict[str, list[list[float]]] = {}
    for name, worker in workers.items():
        if worker.contestant.is_float32:
            found[name] = worker.result(method, list(sources[:LINES]), list(targets[:LINES]))
    if len(found) < 2:
        raise UnequalError(
            f"{what}: only {' '.join(found) or 'nobody'} computes in float32, so nothing can be compared"
        )
    first, *others = found
    for name in others:
        far = distance(found[first], found[name])
        if not far <= CLOSE:
            raise UnequalError(f"{what}: {name} is {far:.2g} from {first} in the log-probability of a token")


def distance(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    """The largest difference of two numbers at the same place; infinity where they do not stand at the same places."""
    if [len(row) for row in one] != [len(row) for row in other]:
        return float("inf")
    pairs = ((a, b) for rows in zip(one, other, strict=True) for a, b in zip(*rows, strict=True))
    return max((abs(a - b) for a, b in pairs), default=0.0)


def check_outputs(what: str, outputs: Mapping[str, Sequence[Any]], reference: str) -> None:
    """Compare what float32 systems found.

    Raises:
        UnequalError: fewer than `ALIKE` of one's outputs are those of the reference; one alone may differ.
    """
    for name, found in outputs.items():
        share = same(found, outputs[reference])
        if share < ALIKE and (1 - share) * len(found) > 1.5:
            raise UnequalError(f"{what}: {share:.0%} of the outputs of {name} are those of {reference}")


def same(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The share of outputs that are the expected ones."""
    if len(found) != len(expected):
        raise PeerError(f"{len(found)} outputs of {len(expected)} lines")
    return sum(one == other for one, other in zip(found, expected, strict=True)) / len(found)
