"""Processes that a test may kill: forked, so that PyTorch is not imported again for each."""

from __future__ import annotations

import os
import signal
import socket
import traceback
import warnings
from collections.abc import Callable

DIED = 137


def start(work: Callable[[], object]) -> int:
    """Run `work` in a child that ends with status 0, or 99 if it raised; its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside a test runner's own threads
        pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(200)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def finish(pid: int) -> int:
    """Wait for a child: its exit status, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(work: Callable[[], object]) -> int:
    return finish(start(work))


def in_ranks(size: int, work: Callable[[], object]) -> list[int]:
    """Run `work` in so many processes, as `torchrun` would start them; their exit statuses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def child(rank: int) -> Callable[[], object]:
        def run() -> object:
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1"}
            os.environ.update({name: str(value) for name, value in {**names, "MASTER_PORT": port}.items()})
            return work()

        return run

    return [finish(pid) for pid in [start(child(rank)) for rank in range(size)]]
