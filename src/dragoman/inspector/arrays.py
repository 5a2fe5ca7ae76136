"""The numbers of a trace by their names, each with the level of detail from which on it is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from dragoman.profiles.parts import StdNorm
from dragoman.stages.capture import Call
from dragoman.stages.stage import Stage

# What a first view shows; what it is computed from; parameters, and each step by itself.
FIRST, OPERANDS, ALL = 1, 2, 3
# Larger attention maps are kept in half precision, which is off by 2.5e-4 at most.
HALF = 1 << 16
_FIRST = (
    "rows", "tokens", "position_rows", "positions", "scores", "mask", "weights", "mean", "deviation", "memory",
    "self_attention_residual", "cross_attention_residual", "feed_forward_residual", "source_embedding",
    "target_embedding", "embedding", "frames",
)  # fmt: skip
_LAST = ("encoder.output", "decoder.output")
_OUTSIDE = {True: "√(sum of squares / (n − 1)) + eps", False: "√variance + eps"}
# A parameter of one dimension is small, and asked for with its node.
_SMALL = 1


@dataclass
class Arrays:
    """Arrays by name, and the level of each."""

    values: dict[str, Shaped[np.ndarray, "..."]] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, values: Shaped[Tensor, "..."], level: int) -> str:
        """Add an array, in float32 if it has fractions; return its name."""
        kept = values.detach().cpu()
        if kept.is_floating_point():
            half = name.endswith(".weights") and kept.numel() > HALF
            kept = kept.to(torch.float16 if half else torch.float32)
        self.values[name] = np.ascontiguousarray(kept.numpy())
        self.levels[name] = level
        return name

    def add_stages(self, stages: Iterable[Stage]) -> None:
        """Add the values of stages, but for probabilities, which are the softmax of the logits beside them."""
        for stage in stages:
            if stage.values is not None and stage.name != "probabilities":
                self.add(stage.name, stage.values, level_of(stage.name))

    def add_parameters(self, model: nn.Module, names: Sequence[str]) -> dict[str, str]:
        """Add parameters; return under which name each is kept: one that stands at several places is kept once."""
        kept: dict[int, str] = {}
        found = {}
        for name in names:
            weight = model.get_parameter(name)
            if id(weight) not in kept:
                kept[id(weight)] = self.add(name, weight, FIRST if weight.dim() == _SMALL else ALL)
            found[name] = kept[id(weight)]
        return found

    def table(self) -> dict[str, dict[str, Any]]:
        """Return type, shape and level of each array."""
        return {
            name: {"dtype": str(values.dtype), "shape": list(values.shape), "level": self.levels[name]}
            for name, values in self.values.items()
        }


def level_of(name: str) -> int:
    """Return the level of the array of a stage."""
    return FIRST if name in _LAST or name.rpartition(".")[2] in _FIRST else OPERANDS


def norms_of(calls: Sequence[Call], arrays: Arrays, nodes: Mapping[str, dict[str, Any]]) -> None:
    """Tell of each layer norm what it took, the mean and deviation of each position, and the numbers before the gain.

    The deviation is what the difference from the mean is divided by: √(variance + ε), or what another system has.

    Args:
        calls: of one pass.
        arrays: to which they are added.
        nodes: by their names; what each says of its norm is added to it.
    """
    for call in calls:
        norm = call.module
        if not isinstance(norm, (nn.LayerNorm, StdNorm)) or call.given is None:
            continue
        node = nodes.get(_node(call.path, nodes))
        if node is None:
            continue
        x = call.given.detach()
        mean = x.mean(-1, keepdim=True)
        if isinstance(norm, StdNorm):
            deviation = x.std(-1, correction=int(norm.unbiased), keepdim=True) + norm.eps
        else:
            deviation = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
        told: dict[str, Any] = {"module": call.path, "input": node["inputs"][0] if node["inputs"] else None}
        told["mean"] = arrays.add(f"{call.path}.mean", mean, FIRST)
        told["deviation"] = arrays.add(f"{call.path}.deviation", deviation, FIRST)
        told["normed"] = arrays.add(f"{call.path}.normed", (x - mean) / deviation, OPERANDS)
        formula = _OUTSIDE[norm.unbiased] if isinstance(norm, StdNorm) else "√(variance + eps)"
        told |= {"gain": None, "bias": None, "eps": norm.eps, "formula": formula}
        for part, weight in (("gain", "weight"), ("bias", "bias")):
            if getattr(norm, weight) is not None:
                told[part] = f"{call.path}.{weight}"
                if told[part] not in node["parameters"]:
                    node["parameters"].append(told[part])
        node["norm"] = told
        node["kind"] = node["kind"] if node["kind"] == "memory" else "norm"


def _node(path: str, nodes: Mapping[str, Any]) -> str:
    """The node that shows what a norm gives: its own, that of its connection, or the output of its stack."""
    home = path.rpartition(".")[0]
    names = [path, home, f"{home}.output", *(["memory"] if home == "encoder" else [])]
    return next((name for name in names if name in nodes), "")
