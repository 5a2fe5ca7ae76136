"""Starting a training in several processes of this machine, by PyTorch's own launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dragoman.distributed.torchrun import status_left
from dragoman.distributed.world import world_size
from dragoman.errors import ConfigError


def launch(devices: int, restarts: int, arguments: Sequence[str]) -> None:
    """Run `dragoman ARGUMENTS` in so many processes, by becoming `torchrun`; return only where this is one of them.

    Args:
        devices: processes, each with a GPU of its own where there are GPUs.
        restarts: how often all are started again after one has died; they go on from the last checkpoint.
        arguments: of the command line.

    Raises:
        ConfigError: there are fewer GPUs than processes.
    """
    import torch

    if status_left() is not None:  # started again, although another process has met a mistake
        raise SystemExit(0)
    if world_size() > 1 or devices == 1:
        return
    gpus = torch.cuda.device_count()
    if gpus and devices > gpus:
        raise ConfigError("there are fewer GPUs than processes", expected=f"--devices {gpus} at most", found=devices)
    sys.stdout.flush()
    sys.stderr.flush()
    # On a processor the threads are shared; torchrun says so at length where nothing is set.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    launcher = ["-m", "dragoman.distributed.torchrun", "--standalone", f"--nproc-per-node={devices}"]
    command = [sys.executable, *launcher, f"--max-restarts={restarts}", "-m", "dragoman", *arguments]
    os.execv(sys.executable, command)
