"""Stopping on request: the first signal asks, the second one ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopError(KeyboardInterrupt):
    """What ends work that nothing is lost of; a KeyboardInterrupt, which libraries let through."""


class StopSignals:
    """While entered, SIGTERM and SIGINT (Ctrl-C) set `received` instead of ending the process.

    The loop looks at `received` after each update, saves, and leaves with `exit_status`. Within `interruptible` the
    signal ends the work by a `StopError`. A second signal of either kind ends the process at once with 128 + its
    number; checkpoints stand that. On leaving, the former handlers are back. Outside the main thread, where Python
    takes no handlers, it does nothing.

    Args:
        quiet: do not acknowledge the first signal on standard error.

    Attributes:
        received: number of the first signal that came, or None; 0 if the program itself asked.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.received: int | None = None
        self._quiet, self._interruptible = quiet, False
        self._former: dict[int, Any] = {}

    @property
    def exit_status(self) -> int:
        """What the shell is told, by its own convention: 128 + the signal (143, 130), or 0 if none came."""
        return 128 + self.received if self.received else 0

    def ask(self) -> None:
        """Set `received` as a signal does, from the program itself."""
        if self.received is None:
            self.received = 0

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end the work inside the `with` block at once: for what can be done again.

        Raises:
            StopError: a signal came, before or inside it.
        """
        outer, self._interruptible = self._interruptible, True
        try:
            if self.received is not None:
                raise StopError
            yield
        finally:
            self._interruptible = outer

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            # None: a handler that was not set from Python, and cannot be set back from it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._former = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            os._exit(128 + number)
        self.received = number
        if not self._quiet:
            with suppress(OSError):  # not `print`, which may be what was interrupted
                os.write(2, f"{signal.Signals(number).name}: stopping; a second one ends at once\n".encode())
        if self._interruptible:
            raise StopError
