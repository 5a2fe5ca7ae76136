"""PyTorch's launcher as `train --devices` calls it: a mistake ends all processes with one message, and no new start.

`torchrun` starts all processes again whenever one ends badly, and ends in a traceback of its own. So a process that is
ended by a mistake of the user ends well, and leaves its exit status in a file that is named in the environment.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.distributed.world import RankError
from dragoman.errors import DragomanError

STATUS_FILE = "DRAGOMAN_STATUS_FILE"
# Seconds in which a process that lost another one waits for that one to say why.
_GRACE = 3.0


def status_left() -> int | None:
    """Return the exit status that a process of this training has left, if any has."""
    file = os.environ.get(STATUS_FILE)
    if file is not None:
        with suppress(OSError, ValueError):
            return int(Path(file).read_text())
    return None


def leave_status(error: DragomanError) -> tuple[bool, int]:
    """Leave the exit status of an error to the launcher, if that waits for one.

    Args:
        error: what ends this process. Where another process has gone, that one's own reason counts.

    Returns:
        Whether the error is to be told here, and the status that this process ends with.
    """
    file = os.environ.get(STATUS_FILE)
    if file is None:
        return True, error.exit_code
    if isinstance(error, RankError):
        end = time.monotonic() + _GRACE
        while status_left() is None and time.monotonic() < end:
            time.sleep(0.05)
        return (True, error.exit_code) if status_left() is None else (False, 0)
    try:
        with open(file, "x") as held:
            held.write(str(error.exit_code))
    except FileExistsError:
        return False, 0
    return True, 0


def main() -> None:
    """Run `torchrun` with the arguments of this process, and end with the status of what it started."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    with TemporaryDirectory(prefix="dragoman-") as folder:
        os.environ[STATUS_FILE] = str(Path(folder) / "status")
        status = 0
        try:
            run.main(sys.argv[1:])
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            how = f"was killed by signal {-failure.exitcode}" if failure.exitcode < 0 else "ended"
            tried = "its own message, if any, tells why; --resume goes on from the last checkpoint"
            told = DragomanError(f"process {rank} {how} more often than --restarts allows", hint=tried)
            sys.stderr.write(f"dragoman: {told}\n")
            status = failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
        except SignalException as error:
            status = 128 + int(error.sigval)
        left = status_left()
    raise SystemExit(status if left is None else left)


if __name__ == "__main__":
    main()
