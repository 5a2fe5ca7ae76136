"""A model with something about it changed, to see what that was good for: heads switched off, masks taken away."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dragoman.engines.packed import pack
from dragoman.errors import ConfigError
from dragoman.inspector.conventions import follow
from dragoman.models.blueprint import Matrix
from dragoman.nn import MultiHeadAttention

PRECISIONS = ("float32", "int8")
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Changes:
    """What is changed about a model.

    Attributes:
        heads: those that are switched off: the dotted path of the attention, and the head's number from 0.
        causal: whether decoder positions are kept from looking at later ones.
        padding: whether everybody is kept from looking at padding.
        convention: a system whose conventions it follows (`CONVENTIONS`); None leaves its own.
        precision: of the linear maps: float32, or int8 as the engines compute it.
    """

    heads: tuple[tuple[str, int], ...] = ()
    causal: bool = True
    padding: bool = True
    convention: str | None = None
    precision: str = "float32"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a record."""
        return {
            "heads_off": [list(one) for one in self.heads], "causal_mask": self.causal, "padding_mask": self.padding,
            "convention": self.convention, "precision": self.precision,
        }  # fmt: skip


def changed_model(model: M, changes: Changes) -> M:
    """Return a model of the same weights, which are shared, that nobody else observes, and that is changed.

    Raises:
        ConfigError: there is no such head, system or precision.
    """
    made = _twin(model)
    if changes.precision not in PRECISIONS:
        raise ConfigError("there is no such precision", expected=" or ".join(PRECISIONS), found=changes.precision)
    if changes.precision == "int8":
        for part in made.modules():
            if isinstance(part, nn.Linear):
                part.register_forward_hook(_in_bytes)
            elif isinstance(part, MultiHeadAttention):
                part.__dict__["_project"] = partial(_projected, part.projection)
    if changes.convention is not None:
        follow(made, changes.convention)
    attentions = {name: part for name, part in made.named_modules() if isinstance(part, MultiHeadAttention)}
    off: dict[str, set[int]] = {}
    for name, head in changes.heads:
        if name not in attentions or not 0 <= head < attentions[name].num_heads:
            expected = f"one of {', '.join(attentions)}, and a head of it, counted from 0"
            raise ConfigError("there is no such head", expected=expected, found=f"{name}, head {head}")
        off.setdefault(name, set()).add(head)
    for name, heads in off.items():
        attentions[name].output.register_forward_pre_hook(_without_heads(heads, attentions[name].d_v))
    for name, attention in attentions.items():
        own_of_decoder = "decoder" in name.split(".")[0] and not name.endswith("cross_attention")
        if own_of_decoder and not changes.causal:
            attention.register_forward_pre_hook(_masked_by(_last_row), with_kwargs=True)
        if not own_of_decoder and not changes.padding:
            attention.register_forward_pre_hook(_masked_by(torch.ones_like), with_kwargs=True)
    return made


def _in_bytes(linear: nn.Module, given: tuple[Any, ...], _: Tensor) -> Tensor:
    """What the engines compute of a linear map in int8."""
    weight, bias = linear.get_parameter("weight"), getattr(linear, "bias", None)
    return pack(Matrix(weight.detach(), None if bias is None else bias.detach()), "int8")(given[0]).to(given[0].dtype)


def _projected(linear: nn.Linear, x: Tensor, first: int, last: int) -> Tensor:
    """The same of some rows, as attention to another sequence takes them."""
    return _in_bytes(linear, (x,), x)[..., first:last]


def _twin(model: M) -> M:
    """The same modules anew around the same weights; whoever observes the old ones does not see it."""
    memo: dict[int, Any] = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    kept = []  # a memo goes by the address of what still has to be there
    for part in model.modules():
        for name, value in vars(part).items():
            if "hooks" in name and isinstance(value, dict):
                memo[id(value)] = OrderedDict()
            elif name == "_observers":
                memo[id(value)] = []
            else:
                continue
            kept.append(value)
    return copy.deepcopy(model, memo).eval()


def _without_heads(heads: Iterable[int], width: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Tensor]]:
    def change(_: nn.Module, given: tuple[Any, ...]) -> tuple[Tensor]:
        mixed = given[0].clone()  # [batch, len, heads * d_v]
        for head in heads:
            mixed[..., head * width : (head + 1) * width] = 0
        return (mixed,)

    return change


def _masked_by(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    def replaced(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        mask = named.get("mask")
        return given, named if mask is None else {**named, "mask": change(mask)}

    return replaced


def _last_row(mask: Tensor) -> Tensor:
    """For every query what the last one may see, from which the causal mask hides nothing."""
    return mask[..., -1:, :]
