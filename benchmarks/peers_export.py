"""A model of this toolkit as two ONNX graphs, the encoder and one decoder step with its caches, as exporters cut it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peers_formats import sinusoids
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

LONGEST = 4096


class Parts(nn.Module):
    """The weights of one model, and the formulas that both graphs share."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.heads, self.pre, self.eps = config["num_heads"], config["norm"] == "pre", config["norm_eps"]
        self.activation = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[config["activation"]]
        self.layers = {side: config[f"num_{side}_layers"] for side in ("encoder", "decoder")}
        self.d_model, self.scale = config["d_model"], math.sqrt(config["d_model"])
        table = torch.from_numpy(sinusoids(LONGEST, config["d_model"], config["positions"]))
        self.register_buffer("positions", table)
        for name, weight in weights.items():
            # Products with a constant on the right are what quantisers look for.
            turned = weight.dim() == 2 and "tokens" not in name
            self.register_buffer(name.replace(".", "_"), weight.t().contiguous() if turned else weight)

    def one(self, name: str) -> Any:
        """A weight, or None."""
        return getattr(self, name.replace(".", "_"), None)

    def linear(self, x: Tensor, name: str) -> Tensor:
        product, bias = torch.matmul(x, self.one(f"{name}.weight")), self.one(f"{name}.bias")
        return product if bias is None else product + bias

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (self.d_model,), self.one(f"{name}.weight"), self.one(f"{name}.bias"), self.eps)

    def embed(self, ids: Tensor, positions: Tensor, side: str) -> Tensor:
        rows = self.one(f"{side}_embedding.tokens.weight")
        return F.embedding(ids, rows) * self.scale + positions

    def around(self, x: Tensor, name: str, sublayer: Any) -> Tensor:
        norm = f"{name}_residual.norm"
        return x + sublayer(self.norm(x, norm)) if self.pre else self.norm(x + sublayer(x), norm)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.d_model // self.heads)).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        scores = torch.matmul(query, key.transpose(2, 3)) * (self.d_model // self.heads) ** -0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return torch.matmul(weights, value).transpose(1, 2).flatten(2)

    def packed(self, x: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = (self.split(part) for part in self.linear(x, name).chunk(3, -1))
        return query, key, value

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        inner, outer = f"{name}.feed_forward.inner", f"{name}.feed_forward.outer"
        return self.around(
            x, f"{name}.feed_forward", lambda y: self.linear(self.activation(self.linear(y, inner)), outer)
        )

    def end(self, x: Tensor, stack: str) -> Tensor:
        return self.norm(x, f"{stack}.norm") if self.pre else x


class EncoderGraph(nn.Module):
    """Ids and what may be attended to in; keys and values of the memory for each decoder layer out."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, ids: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        p = self.parts
        x = p.embed(ids, p.positions[: ids.shape[1]], "source")
        for i in range(p.layers["encoder"]):
            name = f"encoder.layers.{i}"

            def look(y: Tensor, name: str = f"{name}.self_attention") -> Tensor:
                return p.linear(p.attend(*p.packed(y, f"{name}.projection"), bias), f"{name}.output")

            x = p.feed_forward(p.around(x, f"{name}.self_attention", look), name)
        memory, found = p.end(x, "encoder"), []
        for i in range(p.layers["decoder"]):
            found += [p.split(one) for one in p.linear(memory, f"decoder.layers.{i}.cross_keys").chunk(2, -1)]
        return tuple(found)


class StepGraph(nn.Module):
    """The newest token of each row, its position and what is cached in; logits and the cache grown by it out."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, tokens: Tensor, position: Tensor, bias: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        p, layers = self.parts, self.parts.layers["decoder"]
        cross, past, grown = caches[: 2 * layers], caches[2 * layers :], []
        x = p.embed(tokens[:, None], p.positions[position], "target")
        for i in range(layers):
            name = f"decoder.layers.{i}"

            def look(y: Tensor, name: str = f"{name}.self_attention", i: int = i) -> Tensor:
                query, key, value = p.packed(y, f"{name}.projection")
                keys, values = torch.cat([past[2 * i], key], 2), torch.cat([past[2 * i + 1], value], 2)
                grown.extend((keys, values))
                return p.linear(p.attend(query, keys, values, None), f"{name}.output")

            def look_across(y: Tensor, name: str = name, i: int = i) -> Tensor:
                query = p.split(p.linear(y, f"{name}.cross_query"))
                mixed = p.attend(query, cross[2 * i], cross[2 * i + 1], bias)
                return p.linear(mixed, f"{name}.cross_attention.output")

            x = p.around(x, f"{name}.self_attention", look)
            x = p.feed_forward(p.around(x, f"{name}.cross_attention", look_across), name)
        return (p.linear(p.end(x, "decoder")[:, 0], "generator"), *grown)


def export(source: Path, target: Path) -> None:
    """Write `encoder.onnx` and `step.onnx` unless they are there.

    Raises:
        ValueError: positions inside attention are not written here.
    """
    if (target / "step.onnx").exists():
        return
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))["model"]
    if config["positions"] not in ("interleaved", "concatenated"):
        raise ValueError(f"{config['positions']} positions are not written as ONNX here")
    parts = Parts(config, _cut(load_file(source / "model.safetensors"), config)).eval()
    layers, heads, d_k = config["num_decoder_layers"], config["num_heads"], config["d_model"] // config["num_heads"]
    target.mkdir(parents=True, exist_ok=True)
    caches = [torch.randn(2, heads, length, d_k) for length in (5, 3) for _ in range(2 * layers)]
    names = [f"{kind}_{i}" for kind in ("cross", "past") for i in range(2 * layers)]
    cross, past = names[: 2 * layers], names[2 * layers :]
    ids, bias = torch.full((2, 5), 5), torch.zeros(2, 1, 1, 5)
    axes: dict[str, dict[int, str]] = {
        "ids": {0: "rows", 1: "src"},
        "bias": {0: "rows", 3: "src"},
        "tokens": {0: "rows"},
    }
    axes |= {name: {0: "rows", 2: "src" if name in cross else "past"} for name in names}
    axes |= {"logits": {0: "rows"}, **{f"grown_{name}": {0: "rows", 2: "grown"} for name in past}}
    _write(EncoderGraph(parts), (ids, bias), target / "encoder.onnx", ["ids", "bias"], cross, axes)
    given = (torch.full((2,), 5), torch.tensor([3]), bias, *caches)
    grown = [f"grown_{name}" for name in past]
    _write(
        StepGraph(parts), given, target / "step.onnx", ["tokens", "position", "bias", *names], ["logits", *grown], axes
    )


def _cut(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Queries of cross-attention apart from its keys and values; each embedding and the generator under its name."""
    found = dict(weights)
    for name, weight in weights.items():
        if "cross_attention.projection" in name:
            layer, kind = name.removesuffix(name[name.index(".cross_attention") :]), name.rpartition(".")[2]
            found[f"{layer}.cross_query.{kind}"], found[f"{layer}.cross_keys.{kind}"] = (
                weight[: config["d_model"]], weight[config["d_model"] :],
            )  # fmt: skip
            del found[name]
    tables = ("source_embedding.tokens.weight", "target_embedding.tokens.weight", "generator.weight")
    there = next(weights[name] for name in reversed(tables) if name in weights)
    for name in tables:
        found.setdefault(name, there)
    return found


def _write(
    graph: nn.Module, given: tuple[Tensor, ...], path: Path, inputs: list[str], outputs: list[str],
    axes: Mapping[str, Mapping[int, str]],
) -> None:  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamic = {name: dict(axes[name]) for name in [*inputs, *outputs] if name in axes}
        torch.onnx.export(
            graph, given, str(path), input_names=inputs, output_names=outputs, dynamic_axes=dynamic, dynamo=False
        )  # fmt: skip
