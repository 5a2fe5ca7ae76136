"""A model of which each process keeps a part of every tensor (PyTorch's FSDP2), for what does not fit on one device."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from dragoman.nn import Decoder, Encoder


def whole(tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """Return a tensor with all its parts, in every process; one that is whole as it is."""
    return tensor.full_tensor() if is_part(tensor) else tensor  # pyrefly: ignore[missing-attribute]


def is_part(tensor: Shaped[Tensor, "..."]) -> bool:
    """Return whether a tensor is spread over processes."""
    return hasattr(tensor, "full_tensor")  # without importing what half a second is taken for


def part_of(tensor: Shaped[Tensor, "..."], like: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """Return what of a whole tensor, the same one in all processes, this one keeps.

    Args:
        tensor: of the shape of `like`.
        like: says how it is spread; where it is not, the tensor is returned as it is.
    """
    if not is_part(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    spread: Any = like
    return distribute_tensor(tensor.to(spread.device), spread.device_mesh, spread.placements, src_data_rank=None)


def clip_gradients(parameters: Iterable[Tensor], most: float) -> float:
    """Return the norm of gradients, spread or not, and multiply them so that it is `most` at most, as PyTorch does."""
    held = list(parameters)
    norm = whole(nn.utils.get_total_norm([one.grad for one in held if one.grad is not None]))
    nn.utils.clip_grads_with_norm_(held, most, norm)
    return float(norm)


class ShardedLoss(nn.Module):
    """The loss of a micro-batch, of a model whose tensors are spread: what is needed is gathered layer by layer.

    Gradients are summed over processes, as shares of one mean, and each process keeps its part of the sum. All
    processes must run as many micro-batches.

    Args:
        loss: a module that gives sums, as a dataclass of tensors; its layers are spread in place.
        size: processes.
    """

    def __init__(self, loss: nn.Module, size: int) -> None:
        super().__init__()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        self._told = _Told(loss)
        mesh = init_device_mesh(next(loss.parameters()).device.type, (size,))
        for part in (*_layers(loss), self._told):
            fully_shard(part, mesh=mesh)
        for part in self._told.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)

    def forward(self, *given: Any) -> Any:
        """Return what the module that was given does."""
        kind, *values = self._told(*given)
        return kind(*values)


class _Told(nn.Module):
    """Gives sums as a tuple: PyTorch looks for gradients in those."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, *given: Any) -> tuple[Any, ...]:
        sums = self.loss(*given)
        # Of its own, not views: PyTorch hangs what gathers weights for the backward pass onto them.
        values = [one.clone() if isinstance(one, Tensor) else one for one in vars(sums).values()]
        return type(sums), *values


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The layers of all stacks that share no parameter with anything else: those that can be gathered by themselves."""
    for stack in model.modules():
        for layer in stack.layers if isinstance(stack, (Encoder, Decoder)) else ():
            own = {id(one) for one in layer.parameters()}
            uses = sum(id(one) in own for _, one in model.named_parameters(remove_duplicate=False))
            if uses == len(list(layer.named_parameters(remove_duplicate=False))):
                yield layer


class Spread:
    """A model in parts, beside the whole one, which has no weights but while they are asked for.

    Args:
        model: whole, with the same weights in all processes; it is emptied.

    Attributes:
        parts: a copy of it, for `ShardedLoss`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.parts = model, copy.deepcopy(model)
        self._empty()

    def _empty(self) -> None:
        for parameter in self.model.parameters():
            parameter.data = parameter.data.new_empty(0)

    @torch.no_grad()
    def fill(self, values: Mapping[str, Tensor] | None = None) -> None:
        """Give the whole model its weights; all processes must do so at once.

        Args:
            values: in place of its own, by names of parameters, tied ones once.
        """
        own = dict(self.parts.named_parameters())
        for name, parameter in self.model.named_parameters():
            parameter.data = whole((values or own)[name]).detach().to(own[name].dtype)

    @contextmanager
    def filled(self, values: Mapping[str, Tensor] | None = None) -> Iterator[None]:
        """Give the whole model its weights inside the `with` block; arguments as of `fill`."""
        self.fill(values)
        try:
            yield
        finally:
            self._empty()
