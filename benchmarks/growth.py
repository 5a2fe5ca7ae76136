"""How long an update takes on 1 to 1,024 GPUs, on paper: from the time of a micro-batch and the speed of the network.

    python benchmarks/growth.py [--base-seconds 0.031 --big-seconds 0.09 --tokens 16384]

Data-parallel training: each GPU computes its micro-batches, and gradients are summed in a ring while the backward pass
of the last one goes on. Nothing here is measured but what is given as seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

GPUS = [2**power for power in range(11)]
# Parameters, embeddings tied, 32,000 pieces: d_model 512 and 1,024, 6 + 6 layers.
MODELS = {"base": 60_500_000, "big": 209_100_000}
GPUS_PER_NODE = 8
NVLINK, GBIT = 450e9, 1e9 / 8  # bytes a second in one direction
NETWORKS = {"100 Gbit": 100 * GBIT, "400 Gbit": 400 * GBIT}  # of a node
REACHED = 0.8  # part of a link's speed that messages reach
LATENCY = {"node": 3e-6, "network": 10e-6}  # seconds for each hop of the ring
BUCKET = 25 * 2**20  # bytes of gradients that are sent at once (DistributedDataParallel)
BACKWARD = 2 / 3  # part of a micro-batch's time
BYTES = 4  # of a gradient
OPERATIONS, PEAK, USED = 6, 989e12, 0.4  # for each parameter and token; of an H100 in bfloat16 a second; utilisation
OVERHEAD = 0.005  # seconds of a micro-batch that do not depend on its tokens
TOKENS = 16_384  # target tokens of a micro-batch, at most
UPDATE = 2**19  # target tokens of an update that all GPUs share
PAYS = 1.5  # times as fast with twice the GPUs


@dataclass(frozen=True)
class Job:
    """A model on a network.

    Attributes:
        parameters: of the model.
        network: bytes a second of a node.
        per_token: seconds of computing for each target token.
    """

    parameters: int
    network: float
    per_token: float

    def micro_batch(self, tokens: float) -> float:
        """Return the seconds of a micro-batch, forward and backward."""
        return OVERHEAD + tokens * self.per_token

    def sum_seconds(self, gpus: int, size: float) -> float:
        """Return the seconds in which so many bytes are summed over all GPUs in a ring."""
        if gpus == 1:
            return 0.0
        inside = gpus <= GPUS_PER_NODE
        speed = REACHED * (NVLINK if inside else self.network)
        hops = 2 * (gpus - 1)
        between = 0 if inside else hops / GPUS_PER_NODE  # one hop of each node leaves it
        return hops / gpus * size / speed + (hops - between) * LATENCY["node"] + between * LATENCY["network"]

    def exposed(self, gpus: int, micro: float) -> float:
        """Return the seconds of the sum that the last micro-batch's backward pass does not hide."""
        size = self.parameters * BYTES
        buckets = max(1, round(size / BUCKET))
        each = self.sum_seconds(gpus, size / buckets)
        # The first bucket is full after its share of the backward pass, the last one when all is computed.
        hidden = BACKWARD * micro * (1 - 1 / buckets)
        return max(each, buckets * each - hidden)

    def own_batch(self, gpus: int, tokens: int) -> float:
        """Return the seconds of an update in which each GPU has a micro-batch of its own."""
        micro = self.micro_batch(tokens)
        return micro + self.exposed(gpus, micro)

    def shared_batch(self, gpus: int, tokens: int) -> float:
        """Return the seconds of an update of `UPDATE` tokens that all GPUs share."""
        each = UPDATE / gpus
        count = max(1, round(each / tokens))
        micro = self.micro_batch(each / count)
        return count * micro + self.exposed(gpus, micro)


def stops_paying(seconds: list[float], *, grows: bool) -> str:
    """Return from which number of GPUs on twice as many are less than `PAYS` times as fast.

    Args:
        seconds: of an update, for each of `GPUS`.
        grows: whether twice the GPUs do twice as much in an update.
    """
    for gpus, now, then in zip(GPUS, seconds, seconds[1:], strict=False):
        if (2 if grows else 1) * now / then < PAYS:
            return f"{gpus:,}"
    return "never"


def report(micro_seconds: dict[str, float], tokens: int) -> Iterator[str]:
    """Yield the lines of both tables.

    Args:
        micro_seconds: by model, of a micro-batch of `tokens`.
        tokens: target tokens of a micro-batch.
    """
    jobs = {
        f"{name} {network}": Job(parameters, speed, (micro_seconds[name] - OVERHEAD) / tokens)
        for name, parameters in MODELS.items()
        for network, speed in NETWORKS.items()
    }
    heads = {
        True: f"{tokens:,} tokens for each GPU: milliseconds of an update, part of the time that is computing",
        False: f"{UPDATE:,} tokens shared by all GPUs: milliseconds of an update, times as fast as one",
    }
    for grows, head in heads.items():
        yield head
        yield f"{'GPUs':>14}" + "".join(f"{name:>18}" for name in jobs)
        columns = []
        for job in jobs.values():
            columns.append([(job.own_batch if grows else job.shared_batch)(gpus, tokens) for gpus in GPUS])
        for row, gpus in enumerate(GPUS):
            cells = []
            for job, seconds in zip(jobs.values(), columns, strict=True):
                now = seconds[row]
                other = f"{100 * job.micro_batch(tokens) / now:.0f} %" if grows else f"{seconds[0] / now:.1f}"
                cells.append(f"{1000 * now:>10.1f}{other:>8}")
            yield f"{gpus:>14,}" + "".join(cells)
        yield f"{'pays up to':>14}" + "".join(f"{stops_paying(one, grows=grows):>18}" for one in columns)
        if grows:
            yield ""


def supposed(parameters: int, tokens: int) -> float:
    """Return the seconds of a micro-batch by its operations, where none were measured."""
    return OVERHEAD + OPERATIONS * parameters * tokens / (USED * PEAK)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="target tokens of a micro-batch")
    for name in MODELS:
        parser.add_argument(f"--{name}-seconds", type=float, help=f"measured, of a micro-batch of {name}")
    given = parser.parse_args()
    seconds = {
        name: getattr(given, f"{name}_seconds") or supposed(parameters, given.tokens)
        for name, parameters in MODELS.items()
    }
    print("\n".join(report(seconds, given.tokens)))


if __name__ == "__main__":
    main()
