"""An actor of Ray that is killed at a row, as files beside its model say; a module, so that its process finds it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.bulk.tables import TranslateFile


class Dying(TranslateFile):
    """Dies at the row that the file `dies-at` holds: once, if there is a file `dies-once`, else each time."""

    def __init__(self, kind: str, keep: bool, given: Mapping[str, Any]) -> None:
        super().__init__(kind, keep, given)
        self.folder = Path(given["model"][0])

    def __call__(self, table: Any) -> Any:
        once = self.folder / "dies-once"
        if (self.folder / "dies-at").read_bytes() in table["text"].to_pylist():
            if once.exists():
                once.rename(self.folder / "has-died")
                os.kill(os.getpid(), signal.SIGKILL)
            elif not (self.folder / "has-died").exists():
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(table)


def dying_at_three(context: str, block: int) -> int:
    """Return the block; at number 3 end the process, "always", or once, which a file of that name then tells."""
    if block == 3 and (context == "always" or not Path(context).exists()):
        if context != "always":
            Path(context).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block
