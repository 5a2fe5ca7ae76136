"""The gradients of an update: micro-batches are dealt to the processes; those too large for memory are split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import TrainingConfig
from dragoman.data import TokenStore
from dragoman.distributed import World
from dragoman.distributed.sharding import ShardedLoss
from dragoman.errors import ConfigError
from dragoman.fast import module_hidden, training_hidden
from dragoman.losses.loss import LossSums
from dragoman.training.seeding import seed_all
from dragoman.training.step import BatchLoss, Sums, accumulate_gradients, one_by_one
from dragoman.training.tasks import Model, Task

Report = Callable[[str], None]


class Gradients:
    """Computes the gradient of each update, the same one in all processes of a world.

    Args:
        model: being trained, on its device.
        task: makes the batches.
        settings: of the run.
        world: the processes; micro-batch m of an update is that of process m modulo their number.
        autocast: makes the context that chooses the precision.
        report: is told what had to be split or left out.
        sharded: spread the model over the processes, in place.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        settings: TrainingConfig,
        world: World,
        *,
        autocast: Callable[[], AbstractContextManager[object]],
        report: Report,
        sharded: bool = False,
    ) -> None:
        self.model, self.task, self.settings, self.world = model, task, settings, world
        self.device = next(model.parameters()).device
        self._autocast, self._report, self._sharded = autocast, report, sharded
        # Only modules that are called gather their weights.
        hidden = partial(module_hidden, model) if sharded else training_hidden(model)
        if settings.compile:
            hidden = torch.compile(partial(module_hidden, model), dynamic=True)
        self._alone = BatchLoss(model, hidden, settings.ctc_loss_weight or 0.0)

    @cached_property
    def _learner(self) -> nn.Module:
        """What computes losses; of several processes, not before the first update: all must be ready to be wrapped."""
        if self._sharded:
            return ShardedLoss(self._alone, self.world.size)
        return self._alone if self.world.size == 1 else _summing(self._alone)

    def prepare(self) -> None:
        """Make what computes losses, where that spreads the model, before the first update; all must be ready."""
        _ = self._learner

    def add(
        self, store: TokenStore, micro_batches: Sequence[np.ndarray], *, epoch: int, update: int, r_drop: float
    ) -> Sums:
        """Add the gradient of an update to those of the model, and return its sums, both over all processes.

        A micro-batch that does not fit into memory is tried again in two halves, in step in all processes; a single
        pair that does not fit is left out.

        Args:
            store: the pairs.
            micro_batches: of the whole update, as indices of pairs.
            epoch: its number.
            update: its number in the epoch.
            r_drop: weight of the agreement between two passes; 0 is one pass.

        Returns:
            The sums; their loss is NaN where not a single pair fits.
        """
        parts = list(micro_batches)
        while parts:
            sums, failed = self._try(store, parts, (epoch, update), r_drop)
            if not failed:
                return sums
            self._finish_sum(store, epoch)
            self.model.zero_grad(set_to_none=True)
            parts = list(self._smaller(parts, failed))
        return Sums(loss=math.nan, updates=1)  # nothing was learned

    def _try(
        self, store: TokenStore, parts: Sequence[np.ndarray], place: tuple[int, int], r_drop: float
    ) -> tuple[Sums, set[int]]:
        """The sums, and which micro-batches were too large for memory: if any, the gradients are worth nothing."""
        world, epoch = self.world, place[0]
        # Who has nothing to do takes part in the sum over processes all the same, with a gradient of zero.
        own = range(world.rank, len(parts), world.size)
        most = math.ceil(len(parts) / world.size) if self._sharded else 1  # all gather weights equally often
        numbers = [*own, *[0] * (most - len(own))]
        batches = [self.task.batch(store, parts[number], epoch).to(self.device) for number in numbers]
        labels = round(world.total([float(sum(batch.target_tokens for batch in batches[: len(own)]))])[0])
        failures = _Failures(world, self._learner)
        sums = accumulate_gradients(
            self._learner,
            batches,
            labels,
            smoothing=self.settings.label_smoothing or 0.0,
            r_drop=r_drop,
            before=lambda micro: seed_all(self.settings.seed, *place, numbers[micro], 0),
            autocast=self._autocast,
            counted=len(own),
            attempt=self._in_memory if self._sharded else failures.attempt,
        )
        failed = {numbers[own] for own in failures.found}
        if failures.anywhere:
            return sums, set().union(*world.gather(failed))
        everything = world.total([float(value) for value in vars(sums).values()])
        return Sums.of(everything, updates=1), failed

    def _in_memory(self, own: int, last: bool, *passes: Callable[..., Any]) -> LossSums:
        try:
            return one_by_one(own, last, *passes)
        except torch.OutOfMemoryError as error:  # in the midst of what all gather together: none could go on
            hint = "lower training.batch_tokens, with training.accumulate raised to keep the size of updates"
            raise ConfigError("too little memory for a micro-batch of a sharded model", hint=hint) from error

    def _finish_sum(self, store: TokenStore, epoch: int) -> None:
        """Have PyTorch end the sum over processes that it expects after a forward pass, by adding zeros."""
        if self.world.size > 1:
            shortest = np.argmin(store.source_lengths + store.target_lengths)
            batch = self.task.batch(store, [int(shortest)], epoch).to(self.device)
            with self._autocast():
                loss = self._learner(batch, 0.0, 0.0).loss
            torch.autograd.backward(0.0 * loss)

    def _smaller(self, parts: Sequence[np.ndarray], failed: set[int]) -> Iterator[np.ndarray]:
        for number, rows in enumerate(parts):
            if number not in failed:
                yield rows
            elif len(rows) > 1:
                self._report(f"too little memory for {len(rows):,} pairs at once: they are split")
                yield from np.array_split(rows, 2)
            else:
                self._report(f"too little memory for pair {int(rows[0]) + 1:,} of the training data: it is left out")


class _Failures:
    """Runs micro-batches; remembers which of them did not fit into memory, and whether any did not in another process.

    Gradients are summed over processes as the backward pass of the last one goes on. So all look at each other between
    its forward and its backward pass: none may begin to add where another cannot.
    """

    def __init__(self, world: World, learner: nn.Module) -> None:
        self.found: list[int] = []
        self.anywhere = False
        self._world, self._learner = world, learner

    def attempt(
        self, own: int, last: bool, forward: Callable[[], LossSums], backward: Callable[[LossSums], None]
    ) -> LossSums | None:
        """Run one micro-batch; return its sums, or None if it did not fit."""
        together = last and isinstance(self._learner, DistributedDataParallel)
        part = None
        try:
            with nullcontext() if together else _apart(self._learner):
                part = forward()
                if not together:
                    backward(part)
        except torch.OutOfMemoryError:
            self.found.append(own)
            part = None
        if last:
            self.anywhere = self._world.total([float(bool(self.found))])[0] > 0
            if together and part is not None and not self.anywhere:
                backward(part)
        return part


def _apart(learner: nn.Module) -> AbstractContextManager[None]:
    """Inside, gradients stay in the process they were computed in."""
    return learner.no_sync() if isinstance(learner, DistributedDataParallel) else nullcontext()


def _summing(learner: nn.Module) -> DistributedDataParallel:
    """A learner whose gradients are summed over all processes while the backward pass goes on."""
    wrapped = DistributedDataParallel(learner, forward_sync_buffers=False, gradient_as_bucket_view=True)
    wrapped.register_comm_hook(None, lambda group, bucket: _add_up(bucket))  # PyTorch reads no annotations as text
    return wrapped


def _add_up(bucket: distributed.GradBucket) -> Any:
    """Sum a part of the gradients: they are shares of one mean already, where PyTorch would take the mean of means."""
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])
