"""Averages of weights: over the last checkpoints (section 6.1 of the paper), and moving along with training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.models.tensors import read_tensors
from dragoman.training.checkpoint import load_checkpoint

_UPDATES = "updates"


def average_checkpoints(paths: Sequence[Path], stem: str = "model") -> dict[str, Tensor]:
    """Average the weights of checkpoints; the paper averages its last 5 (base) or 20 (big).

    Sums are taken in float64 and rounded once, to each tensor's own type. Tensors that are not floating point come
    from the last checkpoint.

    Args:
        paths: checkpoint directories, or safetensors files, at least one.
        stem: which file of a checkpoint directory holds the weights.

    Raises:
        ModelError: none is given, one is damaged, or two do not hold tensors of the same names, shapes and types.
    """
    if not paths:
        raise ModelError("there is nothing to average", expected="at least one checkpoint")
    sums: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        weights = load_checkpoint(path, [stem]).tensors[stem] if path.is_dir() else read_tensors(path)
        _check_alike(weights, last or weights, path)
        last = weights
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    return {name: sums[name].div_(len(paths)).to(last[name].dtype) if name in sums else last[name] for name in last}


def _check_alike(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path | None = None) -> None:
    """Refuse tensors whose names, shapes or types are not those of `like`."""
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
        """Everything `load` needs to go on bit for bit: the average by parameter name, and the number of updates."""
        return {_UPDATES: torch.tensor(self.updates)} | {f"average.{name}": t for name, t in self._average.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from an earlier `state`, which is copied.

        Raises:
            ModelError: it is not the state of an average over a model like this one.
        """
        _check_alike(state, self.state())
        self.updates = int(state[_UPDATES])
        for name, average in self._average.items():
            average.copy_(state[f"average.{name}"])

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Within this, the model's parameters are the average; afterwards they are their own again, exactly."""
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
