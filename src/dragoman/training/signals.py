"""Stopping on request: the first signal asks, the second one ends."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While entered, SIGTERM and SIGINT (Ctrl-C) set `received` instead of ending the process.

    The loop looks at `received` after each update, saves, and leaves with `exit_status`. A second signal of either
    kind ends the process at once with 128 + its number; checkpoints stand that. On leaving, the former handlers are
    back. Outside the main thread, where Python takes no handlers, it does nothing.

    Attributes:
        received: number of the first signal that came, or None; 0 if the program itself asked.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._former: dict[int, Any] = {}

    @property
    def exit_status(self) -> int:
        """What the shell is told, by its own convention: 128 + the signal (143, 130), or 0 if none came."""
        return 128 + self.received if self.received else 0

    def ask(self) -> None:
        """Set `received` as a signal does, from the program itself."""
        if self.received is None:
            self.received = 0

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
