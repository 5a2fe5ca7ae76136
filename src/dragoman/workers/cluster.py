"""Ray, started here or joined: where it runs, how many may work, and what it says when it gives up.

Needs the extra `ray`, which is imported when it is first used.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import current_thread, main_thread
from typing import Any

from dragoman.config import Placement
from dragoman.errors import ConfigError, DragomanError

LOCAL = "local"
_LOCAL_STORE = 256 << 20  # bytes of shared memory that a local Ray may take


@dataclass(frozen=True)
class Cluster:
    """Where Ray runs, and how many actors may work.

    Attributes:
        address: of a cluster, as `ray.init` takes it (`auto`, `HOST:PORT`), or `local`: started here, and ended again.
            If this program has called `ray.init` before, that counts.
        workers: actors, or fewest and most, between which Ray chooses; up to one for each processor if None.
        threads: of each actor.
        gpus: of each actor, parts of one too; 1 if None, where the cluster has any and the device is not the processor.
    """

    address: str = LOCAL
    workers: int | tuple[int, int] | None = None
    threads: int = 1
    gpus: float | None = None

    def bounds(self, processors: int) -> tuple[int, int]:
        """Return fewest and most actors, of a cluster with so many processors."""
        if self.workers is None:
            return 1, max(1, processors // self.threads)
        return self.workers if isinstance(self.workers, tuple) else (self.workers, self.workers)

    @classmethod
    def of(cls, given: Cluster | str) -> Cluster:
        """Return what was given, checked; an address alone is that of one.

        Raises:
            ConfigError: there are more workers at least than at most, or none.
        """
        cluster = Cluster(given) if isinstance(given, str) else given
        fewest, most = cluster.bounds(1)
        if not 1 <= fewest <= most:
            raise ConfigError("so many workers cannot be had", expected="N, or FEWEST,MOST", found=f"{fewest},{most}")
        Placement(threads=cluster.threads)
        return cluster


def ray_package(name: str = "ray") -> Any:
    """Return Ray, or a package of it.

    Raises:
        DragomanError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        hint = "pip install 'dragoman[ray]', or leave --ray out: --workers alone uses this machine"
        raise DragomanError("working by Ray needs the package ray", found=error, hint=hint) from error


@contextmanager
def joined(cluster: Cluster) -> Generator[Any, None, None]:
    """Have Ray at hand, quietly: a local one is started and ended, one that runs is joined and left.

    Raises:
        DragomanError: it is not installed, not to be reached, or gave up at a task.
    """
    ray = ray_package()
    ours, at_end = not ray.is_initialized(), signal.getsignal(signal.SIGTERM)
    try:
        if ours:
            _start(ray, cluster)
        yield ray
    except ray.exceptions.RayError as error:
        raise _reason(error) from error
    finally:
        if ours:
            ray.shutdown()
            if current_thread() is main_thread():
                signal.signal(signal.SIGTERM, at_end)  # Ray puts its own there, and leaves it


def _check_reachable(address: str) -> None:
    """Refuse at once an address where nobody listens: Ray would try it for minutes.

    Raises:
        DragomanError: nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> DragomanError:
    hint = f"start Ray there (ray start --head), or give --ray {LOCAL}"
    found = (str(error).splitlines() or [type(error).__name__])[0]
    return DragomanError("Ray is not to be reached", file=address, found=found, hint=hint)


def _start(ray: Any, cluster: Cluster) -> None:
    _check_reachable(cluster.address)
    how: dict[str, Any] = {"address": cluster.address}
    if cluster.address == LOCAL:
        _, most = cluster.bounds(os.cpu_count() or 1)
        how |= {"num_cpus": most * cluster.threads + 1, "include_dashboard": False}  # one to read
        how["object_store_memory"] = _LOCAL_STORE
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else it writes to standard error what is no error of ours
    try:
        ray.init(**how, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(cluster.address, error) from error


def _reason(error: BaseException) -> DragomanError:
    """Our own error that was raised in a task, or what Ray says in one line."""
    inner: BaseException | None = error
    while inner is not None:
        # What Ray wraps an error of a task in is one of its class too, but says all that Ray knows of it.
        wrapped = getattr(inner, "cause", None)
        if isinstance(inner, DragomanError) and wrapped is None:
            return inner
        inner = wrapped or inner.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    hint = "the same call goes on with what is done; memory that runs out ends actors: try fewer of them"
    return DragomanError(f"Ray gave up: {type(error).__name__}", found=lines[-1] if lines else None, hint=hint)
