"""Forked children and threads: what a process needs so that its translators can be used there too. Needs no PyTorch."""

from __future__ import annotations

import functools
import os
import sys
import threading


class OneAtATime:
    """A lock for `with` that a forked child gets anew: whoever held it when the process was forked is not there."""

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[OneAtATime], tuple[()]]:
        return OneAtATime, ()


class _Fork:
    """Whether this process is a forked child that goes on with one thread."""

    happened = False


@functools.cache
def survive_forks() -> None:
    """Let children that are forked from now on run PyTorch and faiss with one thread.

    Their OpenMP threads are not forked with the process, and what waits for them hangs for ever: GNU's library still
    counts them. With one thread none is waited for.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_go_on_alone)


def is_forked() -> bool:
    """Return whether this is a forked child in which PyTorch must stay with one thread."""
    return _Fork.happened


def _go_on_alone() -> None:
    for name, setter in (("torch", "set_num_threads"), ("faiss", "omp_set_num_threads")):
        change = getattr(sys.modules.get(name), setter, None)
        if change is not None:
            _Fork.happened = True
            change(1)
