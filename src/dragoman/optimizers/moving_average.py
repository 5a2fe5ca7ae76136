"""The moving average of weights, which goes along with training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.models.low_rank import LowRank

_UPDATES = "updates"


def check_alike(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path | None = None) -> None:
    """Refuse tensors whose names, shapes or types are not those of `like`.

    Raises:
        ModelError: they are not.
    """
    for name in sorted(like.keys() | tensors.keys()):
        expected, found = (
            f"{name}: {list(held[name].shape)} {held[name].dtype}" if name in held else f"no {name}"
            for held in (like, tensors)
        )
        if expected != found:
            raise ModelError("the weights do not fit each other", file=path, expected=expected, found=found)


class ExponentialMovingAverage:
    """A slow copy of a model's parameters, which is often the better model.

    After each update n = 1, 2, ... of the optimiser, `average += (1 - d) * (parameter - average)` with
    `d = min(decay, (1 + n) / (10 + n))`, so that the untrained start is soon forgotten (TensorFlow's rule). It is kept
    in float32 at least. Buffers are not averaged.

    Args:
        model: its parameters now are the first average; tied ones count once.
        decay: the largest d, from 0 (no memory) to below 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._average = {name: _widened(parameter) for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the parameters after an update of the optimiser."""
        self.updates += 1
        rate = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, parameter in model.named_parameters():
            average = self._average[name]
            average.lerp_(parameter.to(average.dtype), rate)

    def state(self) -> dict[str, Tensor]:
        """Return what `load` needs to go on bit for bit: the average by parameter name, the number of updates."""
        return {_UPDATES: torch.tensor(self.updates)} | {f"average.{name}": t for name, t in self._average.items()}

    @property
    def values(self) -> Mapping[str, Tensor]:
        """The average by parameter name, tied ones once."""
        return self._average

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from an earlier `state`, which is copied.

        Raises:
            ModelError: it is not the state of an average over a model like this one.
        """
        check_alike(state, self.state())
        self.updates = int(state[_UPDATES])
        for name, average in self._average.items():
            average.copy_(state[f"average.{name}"])

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Replace the model's parameters by the average inside the `with` block; exactly restored afterwards."""
        own = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        try:
            _assign(model, self._average)
            yield
        finally:
            _assign(model, own)


def _widened(parameter: Tensor) -> Tensor:
    return parameter.detach().to(torch.promote_types(parameter.dtype, torch.float32), copy=True)


@torch.no_grad()
def _assign(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(values[name])
    if isinstance(model, LowRank):
        model.merge()
