"""What every worker process needs: it leaves the keyboard to who started it, and ends when that one ends."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import parent_process
from threading import Thread

# A part of the work at which workers have died so often is not tried again.
TRIES = 3


def begin(threads: int) -> None:
    """Begin a worker process, with so many threads for what it computes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the key is meant for who hands out the work, who ends us
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)


def _end_with_parent() -> None:
    """End when the process that hands out the work has: killed, it cannot say so, and workers would stay in memory."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def leave(pool: ProcessPoolExecutor) -> None:
    """Let the processes of a pool go, at once: what is under way is lost."""
    workers = list((getattr(pool, "_processes", None) or {}).values())  # gone after the next line
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()
