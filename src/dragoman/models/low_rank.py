"""Adapters of low rank beside the matrices of a model (LoRA: Hu et al. 2022): W = base + (alpha / rank) · B · A.

The model always holds the merged matrices, so that every way of running or training it stays as it is. The gradients
of A and B follow from those of the matrices: ∂A = scale · Bᵀ · ∂W, ∂B = scale · ∂W · Aᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.nn import FeedForward, MultiHeadAttention

# The matrices of a layer that may have adapters.
ATTENTION, FEED_FORWARD = ("query", "key", "value", "output"), ("inner", "outer")


@dataclass(frozen=True)
class Adapted:
    """Rows of a parameter that are one matrix.

    Attributes:
        name: its dotted name, as `encoder.layers.0.self_attention.query`.
        parameter: the dotted name of the parameter, in which several matrices may be stacked.
        rows: the first of its rows there, and the one after the last.
    """

    name: str
    parameter: str
    rows: tuple[int, int]


def matrices_in(model: nn.Module, parts: Collection[str] = (*ATTENTION, *FEED_FORWARD)) -> Iterator[Adapted]:
    """Yield the matrices inside the layers, of some of the kinds in `ATTENTION` and `FEED_FORWARD`."""
    for path, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            first = 0
            for name, width in zip(ATTENTION, part.widths, strict=False):
                if name in parts:
                    yield Adapted(f"{path}.{name}", f"{path}.projection.weight", (first, first + width))
                first += width
            if "output" in parts:
                yield Adapted(f"{path}.output", f"{path}.output.weight", (0, len(part.output.weight)))
        elif isinstance(part, FeedForward):
            for name, linear in (("inner", part.inner), ("outer", part.outer)):
                if name in parts:
                    yield Adapted(f"{path}.{name}", f"{path}.{name}.weight", (0, len(linear.weight)))


class Pair(nn.Module):
    """The two factors of one matrix: `a`, random at first, and `b`, zeros at first.

    Args:
        rows: of the matrix.
        columns: of the matrix.
        rank: columns of `b` and rows of `a`.
        like: has their type and device.
    """

    def __init__(self, rows: int, columns: int, rank: int, like: Float[Tensor, "..."]) -> None:
        super().__init__()
        self.a = nn.Parameter(like.new_empty(rank, columns).uniform_(-1, 1).div_(math.sqrt(columns)))
        self.b = nn.Parameter(like.new_zeros(rows, rank))


class LowRank(nn.Module):
    """The adapters of a model, whose own parameters are no longer trained.

    Args:
        model: the base; from now on it holds base and adapters merged.
        rank: of each adapter.
        alpha: its scale is alpha / rank.
        matrices: those that get one, some of `matrices_in(model)`.

    Raises:
        ModelError: a matrix has no such rank.
    """

    def __init__(self, model: nn.Module, rank: int, alpha: float, matrices: Iterable[Adapted]) -> None:
        super().__init__()
        self.rank, self.alpha, self.scale, self.matrices = rank, alpha, alpha / rank, list(matrices)
        own = dict(model.named_parameters())
        names = {one.parameter for one in self.matrices}
        self._merged = {name: own[name] for name in sorted(names)}  # in a dict: they are no parameters of this module
        self._base = {name: one.detach().clone() for name, one in self._merged.items()}
        for one in self.matrices:
            rows, columns = one.rows[1] - one.rows[0], own[one.parameter].shape[1]
            if rank > min(rows, columns):
                expected = f"a rank of at most {min(rows, columns)}"
                raise ModelError("an adapter cannot have this rank", expected=expected, found=f"{rank} for {one.name}")
            _put(self, one.name, Pair(rows, columns, rank, own[one.parameter]))
        self._pairs = {one.name: self.get_submodule(one.name) for one in self.matrices}
        for name, parameter in own.items():
            parameter.requires_grad_(name in names)

    def pair(self, matrix: Adapted) -> Pair:
        """Return the factors of a matrix."""
        found = self._pairs[matrix.name]
        assert isinstance(found, Pair)
        return found

    @torch.no_grad()
    def take_gradients(self) -> None:
        """Make gradients of the factors from those of the model's matrices, which go."""
        for one in self.matrices:
            whole, pair = self._merged[one.parameter].grad, self.pair(one)
            if whole is None:
                continue
            grad = whole[slice(*one.rows)]
            for factor, found in ((pair.a, pair.b.t() @ grad), (pair.b, grad @ pair.a.t())):
                found = found.mul_(self.scale)
                factor.grad = found if factor.grad is None else factor.grad.add_(found)
        for parameter in self._merged.values():
            parameter.grad = None

    @torch.no_grad()
    def merge(self) -> None:
        """Put base + scale · B · A into the model."""
        for name, parameter in self._merged.items():
            parameter.copy_(self._base[name])
        for one in self.matrices:
            pair = self.pair(one)
            self._merged[one.parameter][slice(*one.rows)].addmm_(pair.b, pair.a, alpha=self.scale)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take other factors, by the names of `state_dict`, and merge them.

        Raises:
            ModelError: names or shapes are others.
        """
        own = self.state_dict()
        for name in sorted(own.keys() | state.keys()):
            here, there = (list(held[name].shape) if name in held else None for held in (own, state))
            if here != there:
                raise ModelError(
                    "the adapter does not fit the model", expected=f"{name}: {here or 'nothing'}",
                    found=f"{there or 'nothing'}", hint="load it over the model that it was trained on",
                )  # fmt: skip
        self.load_state_dict(dict(state))
        self.merge()


def _put(root: nn.Module, name: str, module: nn.Module) -> None:
    """Make a module the one of a dotted name, with modules that hold nothing on the way."""
    *path, last = name.split(".")
    for step in path:
        if step not in dict(root.named_children()):
            root.add_module(step, nn.Module())
        root = root.get_submodule(step)
    root.add_module(last, module)
