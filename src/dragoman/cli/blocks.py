"""The options of verbs that share a corpus among several workers, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.workers import Cluster

Ray = Annotated[
    str | None, typer.Option("--ray", help="Share the work by Ray: its address, or local.", metavar="ADDRESS")
]
Workers = Annotated[
    str | None,
    typer.Option(help="Share the work among so many processes. With --ray FEWEST,MOST.  [default: 1]", metavar="N"),
]


def blocks_by(ray: str | None, workers: str | None) -> int | Cluster:
    """Return who is to work: so many processes, or where Ray runs.

    Raises:
        ConfigError: `workers` is not N, or with Ray FEWEST,MOST.
    """
    from dragoman.cli.bulk import cluster_of, workers_of
    from dragoman.errors import ConfigError

    if ray is not None:
        return cluster_of(ray, workers, None)
    fewest, most = (1, 1) if workers is None else workers_of(workers)
    if fewest != most:
        raise ConfigError("a range of workers needs --ray", found=workers, hint="give one number")
    return most
