"""The processes that train one model together, as `torchrun` starts them; alone, everything here does nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed, nn

from dragoman.errors import DragomanError

T = TypeVar("T")

# How PyTorch's backends tell of another process that has gone, or that is silent.
_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket", "remote process exited")
_SILENT = ("Timed out", "timed out", "Timeout", "timeout")
# The first process prepares the corpus meanwhile, which may take hours.
_PATIENCE = 30.0  # days
# The group of the last training stays alive. Were DDP's reducer the last to hold it, its end would wait, with Python's
# lock held, for a thread of Gloo that waits for that lock. Freed by Python it waits without the lock.
_LEFT: list[Any] = []


class RankError(DragomanError):
    """Another process of the same training has ended, or does not answer."""


@dataclass(frozen=True)
class World:
    """The processes of one training.

    Attributes:
        rank: number of this one; the first, 0, decides, tells and writes.
        size: how many there are.
        seconds: how long one waits for the others before it gives up.
        patient: what they wait in while the first one prepares; None alone.
        control: what plain values travel in, by way of the processor; None: the group of the gradients.
    """

    rank: int = 0
    size: int = 1
    seconds: float = 0.0
    patient: Any = None
    control: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this process decides, tells and writes."""
        return self.rank == 0

    def share(self, value: T, *, patiently: bool = False) -> T:
        """Return the first process's value, in all of them; anything that can be pickled.

        Args:
            value: of the first process; what others give does not count.
            patiently: wait for the first one however long it takes.
        """
        if self.size == 1:
            return value
        box = [value if self.is_first else None]
        distributed.broadcast_object_list(box, src=0, group=self.patient if patiently else self.control)
        return box[0]  # pyrefly: ignore[bad-return]

    def gather(self, value: T) -> list[T]:
        """Return everyone's value by rank, in all processes."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        distributed.all_gather_object(found, value, group=self.control)
        return found

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all processes, in float64."""
        if self.size == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(sums, group=self.control)
        return sums.tolist()

    def split(self, items: Sequence[Any], work: Callable[[list[Any]], Sequence[T]]) -> list[T]:
        """Return what `work` makes of the items, one result each and in order, every process doing a part."""
        if self.size == 1:
            return list(work(list(items)))
        parts = self.gather(list(work(list(items[self.rank :: self.size]))))
        return [parts[place % self.size][place // self.size] for place in range(len(items))]

    def send_weights(self, model: nn.Module) -> None:
        """Give every process's model the weights of the first one's."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                distributed.broadcast(tensor, src=0)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Tell in a message, inside the `with` block, when another process has gone or is silent.

        Raises:
            RankError: that is so.
        """
        try:
            yield
        except RuntimeError as error:  # those of torch.distributed are such
            if self.size == 1 or not (reason := _reason(str(error), self.seconds)):
                raise
            hint = "its own message tells why; the run goes on from its last checkpoint with --resume"
            found = f"rank {self.rank} of {self.size} waited in vain"
            raise RankError(reason, found=found, hint=hint) from error

    def close(self) -> None:
        """Leave the others; from then on nothing may be shared."""
        if self.size > 1 and distributed.is_initialized():
            _LEFT[:] = [distributed.group.WORLD]
            distributed.destroy_process_group()


ALONE = World()


def _reason(words: str, seconds: float) -> str | None:
    if any(word in words for word in _SILENT):
        return f"another process of this training did not answer for {seconds:g} seconds"
    if any(word in words for word in _GONE):
        return "another process of this training has ended"
    return None


def world_size() -> int:
    """Return how many processes `torchrun` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def was_restarted() -> bool:
    """Return whether `torchrun` has started this process again after one has died (`--max-restarts`)."""
    return world_size() > 1 and _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def join_world(device: str, seconds: float) -> World:
    """Join the processes that `torchrun` started; alone without it.

    Args:
        device: as `training.device` says; on a GPU each process of a machine takes the one of its number.
        seconds: how long one waits for the others in training.
    """
    size = world_size()
    if size == 1:
        return ALONE
    gpu = device in ("auto", "cuda") and torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    timeout = timedelta(seconds=seconds)
    world = World(int(os.environ["RANK"]), size, seconds)
    with world.watched():
        store, rank, size = next(distributed.rendezvous("env://", timeout=timeout))
        # `torchrun` keeps its store over restarts, so without a prefix one may call a process that has died.
        fresh = distributed.PrefixStore(f"start-{_restarts()}", store)
        backend = "nccl" if gpu else "gloo"
        distributed.init_process_group(backend, store=fresh, rank=rank, world_size=size, timeout=timeout)
        patient = distributed.new_group(backend="gloo", timeout=timedelta(days=_PATIENCE))
        control = distributed.new_group(backend="gloo", timeout=timeout) if gpu else None
    return World(world.rank, size, seconds, patient, control)
