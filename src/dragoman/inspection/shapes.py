"""Shape arithmetic without weights: every tensor, parameter, multiplication and byte of a configuration.

Sizes and parameters are those of the blueprint; shapes are read off the real modules on the meta device, which compute
shapes and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dragoman.archive import ENDING, as_directory
from dragoman.config import ModelConfig, parse_assignments, read_toml
from dragoman.errors import ConfigError
from dragoman.inspection.agreement import parallel_logits
from dragoman.inspection.costs import Cost, costs_of, step_cost
from dragoman.inspection.tables import table
from dragoman.models import blueprint_of, build_model
from dragoman.models.blueprint import Blueprint, Place, parameters
from dragoman.models.pretrained import CONFIG, read_config
from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides, Stage

# Paper table 3; the vocabulary of section 5.1, about 37,000 entries for both languages, is one matrix (3.4).
PAPER_VOCAB = 37_000
_PAPER = {"source_vocab": PAPER_VOCAB, "target_vocab": PAPER_VOCAB, "tie_embeddings": "all", "norm": "post"}
PRESETS: dict[str, dict[str, Any]] = {
    "base": {**_PAPER, "d_model": 512, "d_ff": 2048, "num_heads": 8, "dropout": 0.1},
    "big": {**_PAPER, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
}
LARGEST = 1 << 16
_OTHER_DECODER = "the right-to-left decoder is in the parameters, its pass in nothing else"
_LAYER = re.compile(r"\.layers\.\d+\.")


@dataclass(frozen=True)
class Parameter:
    """A learned tensor, or the same one of every layer.

    Attributes:
        name: dotted; `layers.*` stands for every layer.
        dims: the name of each dimension.
        shape: the size of each.
        layers: how many there are.
        count: numbers in all of them together.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    layers: int
    count: int


@dataclass(frozen=True)
class Plan:
    """What a configuration comes to.

    Attributes:
        config: every size set.
        sizes: by name; `batch`, `src` and `tgt` as asked for.
        stages: every tensor of one pass over all positions, without numbers.
        parameters: every learned tensor.
        tied: names that share a learned tensor with another one, and its name.
        costs: multiply-adds of that pass, part by part.
        step: multiply-adds of one step with a cache, for the last of `tgt` positions; None without a decoder.
        notes: what was assumed.
    """

    config: ModelConfig
    sizes: dict[str, int]
    stages: tuple[Stage, ...]
    parameters: tuple[Parameter, ...]
    tied: dict[str, str]
    costs: tuple[Cost, ...]
    step: int | None
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Learned numbers, tied ones counted once."""
        return sum(parameter.count for parameter in self.parameters)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes: of the weights, of training, of what decoding carries, and of all attention maps."""
        sizes = self.sizes
        wide = sizes["num_heads"] * (sizes["d_k"] + sizes["d_v"]) * sizes.get("num_decoder_layers", 0) * 4
        maps = sum(_volume(stage) for stage in self.stages if stage.name.endswith(".weights"))
        found = {
            "weights, float32": 4 * self.total,
            "weights, bfloat16": 2 * self.total,
            "training with Adam, float32: weights, gradients, two moments": 16 * self.total,
            "attention maps of all layers and heads, float32": 4 * maps,
        }
        if self.step is not None:
            found["cache: keys and values of each target position, float32"] = wide * sizes["batch"]
            if self.config.family == "transformer":
                found["cache: keys and values of the memory, float32"] = wide * sizes["batch"] * sizes["src"]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "format": 1, "model": self.config.to_dict(none=False), "sizes": dict(self.sizes),
            "stages": [stage.to_dict() for stage in self.stages],
            "parameters": {"total": self.total, "tied": self.tied, "tensors": [asdict(one) for one in self.parameters]},
            "multiply_adds": {"total": sum(one.count for one in self.costs), "step": self.step,
                              "parts": [asdict(one) for one in self.costs]},
            "bytes": self.memory, "notes": list(self.notes),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Return the plan as tables in plain text."""
        return list(_lines(self))


def explain_config(config: ModelConfig, *, src: int = 10, tgt: int = 10, batch: int = 1) -> Plan:
    """Return the shape arithmetic of any configuration, without weights.

    Args:
        config: sizes left unset are the paper's base model, its vocabulary included.
        src: length of the source.
        tgt: length of the target.
        batch: texts side by side.

    Raises:
        ConfigError: a size is below 1 or beyond 65,536 where it would make a table, or the family has no such shapes.
    """
    config, notes = _completed(config)
    if min(src, tgt, batch) < 1:
        raise ConfigError("lengths and batch are at least 1", found=f"src {src}, tgt {tgt}, batch {batch}")
    blueprint = blueprint_of(config)
    try:
        with torch.device("meta"):
            model = build_model(config).eval()
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ConfigError("no model can be built from this", found=error) from error
    # Names of dimensions are enough: the pass itself may be short.
    source, target = (torch.zeros(1, length, dtype=torch.long, device="meta") for length in (2, 3))
    with torch.no_grad(), captured(model) as calls:
        parallel_logits(model, source, target)
    lengths = {"batch": batch, "src": src, "tgt": tgt}
    if config.family != "transformer":
        del lengths["tgt" if config.family == "masked" else "src"]
    sizes = {**_sizes(blueprint), **lengths}
    stages = [_resized(stage, lengths) for stage in find_stages(model, calls, Sides(config.family))]
    step = None if config.family == "masked" else step_cost(config, sizes)
    costs = costs_of(config, sizes)
    return Plan(config, sizes, tuple(stages), _parameters(blueprint), dict(blueprint.tied), costs, step, notes)


def _completed(config: ModelConfig) -> tuple[ModelConfig, tuple[str, ...]]:
    if config.family not in ("transformer", "causal", "masked"):
        raise ConfigError(
            "a Markov model has no such shapes", expected="transformer, causal or masked", found=config.family
        )
    config = config.with_paper_defaults()
    sides = ("source_vocab", "target_vocab") if config.family == "transformer" else ("target_vocab",)
    unset = [side for side in sides if getattr(config, side) is None]
    large = [name for name in ("d_model", "d_ff", "num_heads", "d_k", "d_v") if (getattr(config, name) or 0) > LARGEST]
    if large:
        found = ", ".join(f"{name} {getattr(config, name)}" for name in large)
        raise ConfigError("a size is too large", expected=f"at most {LARGEST:,}", found=found)
    notes = (f"{' and '.join(unset)} not given: the paper's {PAPER_VOCAB:,}",) if unset else ()
    notes += (_OTHER_DECODER,) if config.has_two_decoders else ()
    return config.replace(dict.fromkeys(unset, PAPER_VOCAB)), notes


def _sizes(blueprint: Blueprint[Place]) -> dict[str, int]:
    """The sizes of a model by their names."""
    shape, sides = blueprint.shape, ("vocab",) if blueprint.source is None else ("source_vocab", "target_vocab")
    sizes = {"num_heads": shape.heads, "d_k": shape.d_k, "d_v": shape.d_v, "d_ff": shape.d_ff}
    sizes |= {side: one.rows.shape[0] for side, one in zip(sides, blueprint.tables, strict=True)}
    sizes["d_model"] = shape.d_model
    stacks = (("encoder", blueprint.encoder), ("decoder", blueprint.decoder))
    return sizes | {f"num_{name}_layers": len(stack.layers) for name, stack in stacks if stack is not None}


def _resized(stage: Stage, lengths: dict[str, int]) -> Stage:
    shape = (lengths.get(dim, size) for dim, size in zip(stage.dims, stage.shape, strict=True))
    return replace(stage, shape=tuple(shape))


def _parameters(blueprint: Blueprint[Place]) -> tuple[Parameter, ...]:
    grouped: dict[str, list[Place]] = {}
    for place in parameters(blueprint):
        grouped.setdefault(_LAYER.sub(".layers.*.", place.name), []).append(place)
    return tuple(
        Parameter(name, several[0].dims, several[0].shape, len(several), len(several) * math.prod(several[0].shape))
        for name, several in grouped.items()
    )


def read_model_config(items: Sequence[str]) -> ModelConfig:
    """Return a configuration from its parts; later ones win.

    Args:
        items: each `base` or `big` (paper table 3), a TOML file with a `[model]` section, a model directory or a
            packed model, or `KEY=VALUE` with a setting of the model.

    Raises:
        ConfigError: one is none of these, or they do not hold together.
    """
    tree: dict[str, Any] = {}
    for item in items:
        if item in PRESETS:
            tree |= PRESETS[item]
        elif "=" in item and not Path(item).exists():
            given = parse_assignments([item])
            if given.keys() - {"model"}:
                raise ConfigError("only settings of the model have shapes", found=item)
            tree |= given["model"]
        elif (Path(item) / CONFIG).exists():
            tree |= read_config(Path(item))[0].to_dict(none=False)
        elif item.endswith(ENDING) and Path(item).is_file():
            tree |= read_config(as_directory(Path(item)))[0].to_dict(none=False)
        elif Path(item).is_file():
            tree |= read_toml(item).get("model", {})
        else:
            expected = f"{', '.join(PRESETS)}, a TOML file, a model directory, or KEY=VALUE"
            raise ConfigError("no such configuration", expected=expected, found=item)
    return ModelConfig.from_dict(tree)


def _lines(plan: Plan) -> Iterator[str]:
    sizes = ", ".join(f"{name}={size}" for name, size in plan.sizes.items())
    config = plan.config
    yield f"{config.family}, norm {config.norm}, tie_embeddings {config.tie_embeddings}: {plan.total:,} parameters"
    yield sizes
    yield from plan.notes
    yield from ("", "1  Every tensor of one pass over all positions", "")
    shown = [stage for stage in plan.stages if not stage.layer]
    yield from table([[stage.name, stage.size] for stage in shown], 3, left=2)
    for stack in ("encoder", "decoder"):
        if (count := plan.sizes.get(f"num_{stack}_layers", 0)) > 1:
            yield f"   {stack}.layers.1 to {stack}.layers.{count - 1} have the same shapes as {stack}.layers.0"
    yield from ("", "2  Parameters", "")
    rows = [
        [one.name, _symbols(one), f"× {one.layers}" if one.layers > 1 else "", f"{one.count:,}"]
        for one in plan.parameters
    ]
    yield from table([*rows, ["total", "", "", f"{plan.total:,}"]], 3, left=2)
    for name, other in plan.tied.items():
        yield f"   {name} is {other} (tied, counted once)"
    yield from ("", "3  Multiply-adds of one pass over all positions (training's forward pass)", "")
    total = sum(cost.count for cost in plan.costs)
    rows = [[cost.name, cost.formula, f"{cost.count:,}", f"{cost.count / total:.1%}"] for cost in plan.costs]
    yield from table([*rows, ["total", "", f"{total:,}", ""]], 3, left=2)
    yield from _per_token(plan)
    yield from ("", "4  Memory", "")
    yield from table([[name, f"{_bytes(size)}"] for name, size in plan.memory.items()], 3)


def _per_token(plan: Plan) -> Iterator[str]:
    sizes = plan.sizes
    for side, length in (("encoder", "src"), ("decoder", "tgt"), ("generator", "")):
        count = sum(cost.count for cost in plan.costs if cost.name.startswith(side))
        size = sizes.get(length or ("tgt" if "tgt" in sizes else "src"), 0)
        if count and size:
            yield f"   {side}, for each token: {count // (size * sizes['batch']):,}"
    if plan.step is not None:
        yield f"   one step with a cache, at position {sizes['tgt']}: {plan.step:,}"


def _symbols(parameter: Parameter) -> str:
    return "[" + ", ".join(f"{dim}={size}" for dim, size in zip(parameter.dims, parameter.shape, strict=True)) + "]"


def _volume(stage: Stage) -> int:
    size = 1
    for one in stage.shape:
        size *= one
    return size


def _bytes(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"
